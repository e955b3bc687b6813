package streamable_test

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/negotiate"
	"github.com/mcp-dualstack/bridge/streamable"
)

// Every bound is reached, by its own number, is told apart (429: one's own; 503: everybody's), observed, gives way
// when what filled it ends, and hides no 404.
func TestBounds(t *testing.T) {
	const alice, bob = "Authorization: alice", "Authorization: bob"
	open := func(b *bed, headers ...string) reply {
		return b.post(initialize("2025-06-18"), headers...)
	}
	for _, c := range []struct {
		name   string
		o      streamable.Options
		fill   func(t *testing.T, b *bed) (empty func(), over func() reply)
		status int
		reason string
	}{
		{"max_sessions", streamable.Options{MaxSessions: 2}, func(t *testing.T, b *bed) (func(), func() reply) {
			b.session("2025-06-18")
			s := b.session("2025-06-18")
			return func() { b.send(http.MethodDelete, "", s) }, func() reply { return open(b) }
		}, 503, negotiate.ReasonTooManySessions},
		{"max_sessions_per_principal", streamable.Options{MaxSessionsPerPrincipal: 2}, func(t *testing.T, b *bed) (func(), func() reply) {
			open(b, alice)
			id := open(b, alice).header.Get("Mcp-Session-Id")
			for _, other := range []string{bob, "Authorization: ", bob, "Authorization: ", "Authorization: "} {
				if r := open(b, other); r.status != 200 {
					t.Errorf("%q: got %d", other, r.status)
				}
			}
			return func() { b.send(http.MethodDelete, "", alice, "Mcp-Session-Id: "+id) }, func() reply { return open(b, alice) }
		}, 429, negotiate.ReasonTooManySessions},
		{"max_streams", streamable.Options{MaxStreams: 2}, func(t *testing.T, b *bed) (func(), func() reply) {
			b.listen(b.session("2025-06-18"))
			l := b.listen(b.session("2025-06-18"))
			s := b.session("2025-06-18")
			return l.stop, func() reply { return b.post(callOne, s) }
		}, 503, negotiate.ReasonTooManyStreams},
		{"max_streams_per_session", streamable.Options{MaxStreamsPerSession: 2}, func(t *testing.T, b *bed) (func(), func() reply) {
			b.script.call = wait
			s := b.session("2025-06-18")
			b.listen(s)
			l := b.open(http.MethodPost, callOne, s)
			synctest.Wait()
			b.script.call = nil
			return l.stop, func() reply { return b.post(callOne, s) }
		}, 429, negotiate.ReasonTooManyStreams},
		{"max_calls", streamable.Options{MaxCalls: 2}, func(t *testing.T, b *bed) (func(), func() reply) {
			return fillCalls(b, b.session("2025-06-18"))
		}, 429, exchange.ReasonTooManyCalls},
		{"max_calls_in_total", streamable.Options{MaxCallsInTotal: 2}, func(t *testing.T, b *bed) (func(), func() reply) {
			s := b.session("2025-06-18")
			empty, _ := fillCalls(b, b.session("2025-06-18"))
			return empty, func() reply { return b.post(callOne, s) }
		}, 503, exchange.ReasonTooManyCalls},
		{"max_stateless", streamable.Options{MaxStateless: 1}, func(t *testing.T, b *bed) (func(), func() reply) {
			b.script.call = wait
			body, headers := modern("9", "subscriptions/listen", "")
			l := b.open(http.MethodPost, body, headers...)
			synctest.Wait()
			b.script.call = nil
			return l.stop, func() reply { return b.postModern("1", "tools/list", "") }
		}, 503, exchange.ReasonTooManyCalls},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.o.Principal = func(r *http.Request) string { return r.Header.Get("Authorization") }
			inBubble(t, &script{}, c.o, func(t *testing.T, b *bed) {
				empty, over := c.fill(t, b)
				synctest.Wait()
				r := over()
				if r.status != c.status || r.header.Get("Retry-After") == "" || !strings.Contains(r.body, `"reason":"`+c.reason+`"`) {
					t.Errorf("got %d, Retry-After %q, %s; want %d with %s", r.status, r.header.Get("Retry-After"), r.body, c.status, c.reason)
				}
				if n := b.observed(exchange.SeenBound, c.name); n != 1 {
					t.Errorf("observed %d times, want once", n)
				}
				if r := b.post(callOne, "Mcp-Session-Id: nope"); r.status != 404 {
					t.Errorf("unknown session: got %d, want 404", r.status)
				}
				empty()
				synctest.Wait()
				if r := over(); r.status != 200 {
					t.Errorf("when there was room again: got %d %s", r.status, r.body)
				}
			})
		})
	}
}

// fillCalls has two calls in flight in a session.
func fillCalls(b *bed, s string) (empty func(), over func() reply) {
	b.script.call = wait
	for id := range 2 {
		b.open(http.MethodPost, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"x"}}`, id), s)
	}
	synctest.Wait()
	b.script.call = nil
	return func() { b.post(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`, s) }, func() reply { return b.post(callOne, s) }
}

// A body must come in time, and one that is still coming when the front has shut down holds nothing up.
func TestBodyTimeout(t *testing.T) {
	for _, c := range []struct {
		name   string
		end    func(b *bed)
		status int
		reason string
		after  time.Duration
	}{
		{"slow", func(*bed) {}, 408, negotiate.ReasonBodySlow, 30 * time.Second},
		{"shutdown", func(b *bed) { go b.front.Shutdown(b.t.Context()) }, 503, "shutting_down", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, &script{}, streamable.Options{}, func(t *testing.T, b *bed) {
				conn, err := b.http.Dial(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				defer conn.Close()
				begun := time.Now()
				fmt.Fprint(conn, "POST /mcp HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{")
				stop := make(chan struct{})
				go func() { // a byte now and then is not enough
					for {
						select {
						case <-time.After(2 * time.Second):
							fmt.Fprint(conn, " ")
						case <-stop:
							return
						}
					}
				}()
				defer close(stop)
				synctest.Wait()
				c.end(b)
				resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
				if err != nil {
					t.Fatal(err)
				}
				body, _ := io.ReadAll(resp.Body)
				if resp.StatusCode != c.status || !strings.Contains(string(body), c.reason) || !resp.Close || time.Since(begun) != c.after {
					t.Errorf("got %d after %v, close %v, %s", resp.StatusCode, time.Since(begun), resp.Close, body)
				}
			})
		})
	}
}

// A body that begins to come when the front has nothing left to carry out holds nothing up either.
func TestBodyAfterShutdown(t *testing.T) {
	inBubble(t, &script{}, streamable.Options{BodyTimeout: time.Hour}, func(t *testing.T, b *bed) {
		var wg sync.WaitGroup
		wg.Go(func() { // an exchange that nothing can interrupt
			r := httptest.NewRequest(http.MethodPost, "/mcp", lateReader(time.Minute))
			r.Header.Set("Content-Type", "application/json")
			b.front.ServeHTTP(httptest.NewRecorder(), r)
		})
		synctest.Wait()
		begun := time.Now()
		wg.Go(func() {
			if err := b.front.Shutdown(t.Context()); err != nil || time.Since(begun) != time.Minute {
				t.Errorf("Shutdown: %v after %v, want nil after a minute", err, time.Since(begun))
			}
		})
		synctest.Wait()
		conn, err := b.http.Dial(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		fmt.Fprint(conn, "POST /mcp HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{")
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		if resp.StatusCode != 503 || time.Since(begun) != 0 {
			t.Errorf("got %d after %v, want 503 at once", resp.StatusCode, time.Since(begun))
		}
		wg.Wait()
	})
}

// What came when the time was over is not carried out, all of it or not, and whether or not its reading could be cut short.
func TestBodyTooLate(t *testing.T) {
	inBubble(t, &script{}, streamable.Options{BodyTimeout: time.Second}, func(t *testing.T, b *bed) {
		r := httptest.NewRequest(http.MethodPost, "/mcp", io.MultiReader(lateReader(2*time.Second), strings.NewReader(callOne)))
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		b.front.ServeHTTP(w, r)
		if w.Code != 408 || !strings.Contains(w.Body.String(), negotiate.ReasonBodySlow) || w.Header().Get("Connection") != "close" {
			t.Errorf("got %d, Connection %q, %s; want 408 %s", w.Code, w.Header().Get("Connection"), w.Body, negotiate.ReasonBodySlow)
		}
	})
}

// A lateReader is empty and takes its time to say so.
type lateReader time.Duration

func (d lateReader) Read([]byte) (int, error) {
	time.Sleep(time.Duration(d))
	return 0, io.EOF
}

// The deadline of a body is not that of what follows: neither the stream it opens nor the next request.
func TestBodyTimeoutIsOver(t *testing.T) {
	inBubble(t, takes(time.Minute), streamable.Options{BodyTimeout: time.Second, WriteTimeout: time.Second, KeepAlive: time.Hour}, func(t *testing.T, b *bed) {
		s := b.session("2025-06-18")
		want(t, "POST", b.post(callOne, s).body, message("TAG.2.1", doneFive)+"\n")
		if r := b.post(callOne, s, "Accept: application/json"); r.status != 200 || r.body != doneFive {
			t.Errorf("got %d %s", r.status, r.body)
		}
		time.Sleep(time.Minute)
		if r := b.post(`{"jsonrpc":"2.0","method":"notifications/x"}`, s); r.status != 202 {
			t.Errorf("got %d, want 202", r.status)
		}
	})
}
