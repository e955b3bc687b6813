package upstream_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"os"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/exchange/exchangetest"
	"github.com/mcp-dualstack/bridge/internal/memhttp"
	"github.com/mcp-dualstack/bridge/negotiate"
	"github.com/mcp-dualstack/bridge/upstream"
)

// inner are handlers that must look the same with and without a socket.
var inner = map[string]http.HandlerFunc{
	"nothing":     func(http.ResponseWriter, *http.Request) {},
	"text":        func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") },
	"html":        func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html><body>x") },
	"error":       func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusTeapot) },
	"not found":   http.NotFound,
	"no content":  func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) },
	"body of 204": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent); wrote(w, "x") },
	"body of 304": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotModified); wrote(w, "x") },
	"second header": func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusAccepted)
		w.Header().Set("X-Late", "1")
		_, _ = io.WriteString(w, "x")
	},
	"declared":      func(w http.ResponseWriter, _ *http.Request) { declared(w, 5, "hello") },
	"less declared": func(w http.ResponseWriter, _ *http.Request) { declared(w, 9, "hello") },
	"more declared": func(w http.ResponseWriter, _ *http.Request) { declared(w, 3, "hello") },
	"large": func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write(bytes.Repeat([]byte("0123456789abcdef"), 1<<18))
	},
	"echo": func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		_, _ = fmt.Fprintf(w, "%s %v", b, err)
	},
	"body unread": func(w http.ResponseWriter, _ *http.Request) { wrote(w, "x") },
	"redirect":    func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/there", http.StatusFound) },
	"panic":       func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
	"request": func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprintln(w, r.Method, r.URL, r.RequestURI, r.Host, r.Proto, r.Header.Get("X-In"), r.ContentLength, r.TransferEncoding, r.RemoteAddr != "", r.TLS == nil)
	},
	"flushes": func(w http.ResponseWriter, _ *http.Request) {
		for i := range 3 {
			_, _ = fmt.Fprint(w, i)
			w.(http.Flusher).Flush()
		}
	},
	"early hints": func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Link", "</a>")
		w.WriteHeader(http.StatusEarlyHints)
		w.Header().Del("Link")
		wrote(w, "done")
	},
}

// wrote writes text and what came of it, as far as it can still be written.
func wrote(w http.ResponseWriter, text string) {
	n, err := io.WriteString(w, text)
	_, _ = fmt.Fprintf(w, " %d %v", n, err)
}

func declared(w http.ResponseWriter, n int, text string) {
	w.Header().Set("Content-Length", strconv.Itoa(n))
	_, _ = io.WriteString(w, text)
}

// describe does a request and says all that a client can see of the response.
func describe(t *testing.T, rt http.RoundTripper, method string, body io.Reader) string {
	t.Helper()
	var hints []string
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{Got1xxResponse: func(code int, h textproto.MIMEHeader) error {
		hints = append(hints, fmt.Sprint(code, h.Get("Link")))
		return nil
	}})
	req, err := http.NewRequestWithContext(ctx, method, "http://"+memhttp.Host+"/a%20b?c=d", body)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-In", "in")
	resp, err := rt.RoundTrip(req)
	if err != nil {
		return "no response"
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if len(text) > 100 {
		text = fmt.Appendf(nil, "%d bytes, the last %q", len(text), text[len(text)-20:])
	}
	return fmt.Sprintln(resp.Status, resp.Proto, hints, resp.Header.Get("Content-Type"), resp.Header.Get("X-Late"), resp.Header.Get("Location"),
		resp.Header.Get("Date") != "", string(text), errors.Is(err, io.ErrUnexpectedEOF))
}

// TestHandlerTransport compares what a client sees with and without a socket.
func TestHandlerTransport(t *testing.T) {
	for name, h := range inner {
		t.Run(name, func(t *testing.T) {
			srv := memhttp.New(t, h)
			for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPost} {
				bodies := []func() io.Reader{func() io.Reader { return nil }}
				if method == http.MethodPost {
					bodies = append(bodies, func() io.Reader { return strings.NewReader("text") },
						func() io.Reader { return io.MultiReader(strings.NewReader(strings.Repeat("chunk", 50_000))) })
				}
				for i, body := range bodies {
					got := describe(t, upstream.HandlerTransport(h, nil), method, body())
					if want := describe(t, srv.Client().Transport, method, body()); got != want {
						t.Errorf("%s with body %d:\ngot  %swant %s", method, i, got, want)
					}
				}
			}
		})
	}
}

// inHandler does a GET to h in a bubble, whose context the test may end.
func inHandler(t *testing.T, h http.HandlerFunc, f func(t *testing.T, cancel context.CancelFunc, resp *http.Response, err error)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://localhost/", nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := upstream.HandlerTransport(h, nil).RoundTrip(req)
		f(t, cancel, resp, err)
		if resp != nil {
			_ = resp.Body.Close()
		}
	})
}

// What is written can be read before the handler returns, and a slow reader makes the writer wait.
func TestHandlerTransportStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		next, pieces := make(chan struct{}), make(chan int, 1<<10)
		req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost/", nil)
		resp, err := upstream.HandlerTransport(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "one")
			<-next
			for range 1 << 10 {
				n, _ := w.Write(make([]byte, 1<<10))
				pieces <- n
			}
		}), nil).RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		buf := make([]byte, 16)
		n, err := resp.Body.Read(buf)
		equal(t, "first piece", string(buf[:n]), "one")
		equal(t, "error", err, nil)
		close(next)
		synctest.Wait()
		equal(t, "written while nobody reads", len(pieces)<<10, 64<<10)
		rest, err := io.ReadAll(resp.Body)
		equal(t, "read in the end", len(rest), 1<<20)
		equal(t, "error at the end", err, nil)
	})
}

// The end of the request, or of the interest in the response, ends the handler's context and its writes.
func TestHandlerTransportEnds(t *testing.T) {
	for _, test := range []struct {
		name string
		end  func(cancel context.CancelFunc, resp *http.Response)
		read error
	}{
		{"context", func(cancel context.CancelFunc, _ *http.Response) { cancel() }, context.Canceled},
		{"close", func(_ context.CancelFunc, resp *http.Response) { _ = resp.Body.Close() }, io.ErrClosedPipe},
	} {
		t.Run(test.name, func(t *testing.T) {
			var written, flushed error
			inHandler(t, func(w http.ResponseWriter, r *http.Request) {
				rc := http.NewResponseController(w)
				_ = rc.Flush()
				<-r.Context().Done()
				_, written = io.WriteString(w, "x")
				flushed = rc.Flush()
			}, func(t *testing.T, cancel context.CancelFunc, resp *http.Response, err error) {
				if err != nil {
					t.Fatal(err)
				}
				test.end(cancel, resp)
				synctest.Wait()
				if written == nil || flushed == nil {
					t.Errorf("write after the end: got %v, %v, want errors", written, flushed)
				}
				if _, err := io.ReadAll(resp.Body); !errors.Is(err, test.read) {
					t.Errorf("read after the end: got %v, want %v", err, test.read)
				}
			})
		})
	}
}

// RoundTrip returns when its context ends, though the handler does not answer.
func TestHandlerTransportCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		req, _ := http.NewRequestWithContext(ctx, http.MethodPost, "http://localhost/", strings.NewReader("x"))
		release := make(chan struct{})
		_, err := upstream.HandlerTransport(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }), nil).RoundTrip(req)
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want %v", err, context.DeadlineExceeded)
		}
		close(release)
	})
}

func TestHandlerTransportDeadline(t *testing.T) {
	var written error
	var took time.Duration
	inHandler(t, func(w http.ResponseWriter, _ *http.Request) {
		start := time.Now()
		if written = http.NewResponseController(w).SetWriteDeadline(start.Add(3 * time.Second)); written == nil {
			_, written = w.Write(make([]byte, 1<<20))
		}
		took = since(start)
	}, func(t *testing.T, _ context.CancelFunc, _ *http.Response, err error) {
		equal(t, "error", err, nil)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if !errors.Is(written, os.ErrDeadlineExceeded) {
			t.Errorf("got %v, want %v", written, os.ErrDeadlineExceeded)
		}
		equal(t, "took", took, 3*time.Second)
	})
}

// A panic after the header breaks the body off.
func TestHandlerTransportPanic(t *testing.T) {
	inHandler(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "half")
		panic("no more")
	}, func(t *testing.T, _ context.CancelFunc, resp *http.Response, err error) {
		equal(t, "error", err, nil)
		text, err := io.ReadAll(resp.Body)
		equal(t, "body", string(text), "half")
		if !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("got %v, want %v", err, io.ErrUnexpectedEOF)
		}
	})
}

func TestHandlerTransportHijack(t *testing.T) {
	inHandler(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _, err := http.NewResponseController(w).Hijack()
		_, _ = fmt.Fprint(w, errors.Is(err, http.ErrNotSupported))
	}, func(t *testing.T, _ context.CancelFunc, resp *http.Response, _ error) {
		text, _ := io.ReadAll(resp.Body)
		equal(t, "not supported", string(text), "true")
	})
}

// TestInProcess: a handler without a socket keeps the contract, over either transport.
func TestInProcess(t *testing.T) {
	for _, served := range []negotiate.Set{negotiate.All, negotiate.Legacy, negotiate.Modern} {
		for _, client := range []negotiate.Revision{negotiate.Rev20251125, negotiate.Rev20260728} {
			if !served.Has(client) {
				continue
			}
			t.Run(fmt.Sprintf("streamable %v %s", served.Strings(), client), func(t *testing.T) {
				exchangetest.TestHandler(t, exchangetest.Subject{Client: client, Served: served, Bubble: true, NoReason: client.Modern(),
					New: func(t testing.TB) (exchange.Handler, func()) {
						s := newWebServer(served)
						r, err := upstream.InProcess(s, sameEra(nil))
						if err != nil {
							t.Fatal(err)
						}
						return r, func() { _ = r.Close(); s.stop() }
					}})
			})
		}
	}
	t.Run("sse", func(t *testing.T) {
		exchangetest.TestHandler(t, exchangetest.Subject{Client: negotiate.Rev20241105, Served: negotiate.Legacy, Bubble: true,
			New: func(t testing.TB) (exchange.Handler, func()) {
				o := &upstream.Options{SameEra: true, HTTP: &upstream.HTTPOptions{RoundTripper: upstream.HandlerTransport(newSSEServer(negotiate.Legacy), nil)}}
				up, err := upstream.SSE("http://localhost/sse", o)
				if err != nil {
					t.Fatal(err)
				}
				return up, func() { _ = up.Close() }
			}})
	})
}

func TestInProcessOptions(t *testing.T) {
	if _, err := upstream.InProcess(http.NotFoundHandler(), &upstream.Options{Era: "stone"}); err == nil {
		t.Error("got no error for an era that is none")
	}
}
