package hijack_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime/pprof"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mcp-dualstack/bridge/internal/hijack"
)

// within is how long anything may take that must happen.
const within = 10 * time.Second

// stream begins an event stream and writes what comes from events, each with a flush, until it is closed.
func stream(events <-chan string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		w.WriteHeader(http.StatusOK)
		rc := http.NewResponseController(w)
		_ = rc.Flush() // the reader sees what is missing
		for e := range events {
			_, _ = io.WriteString(w, e)
			_ = rc.Flush()
		}
	}
}

func everything(*http.Request) bool { return true }

// serve serves h with its streams taken over, on a loopback port.
func serve(t *testing.T, h http.Handler, log *slog.Logger) (*hijack.Streams, *httptest.Server) {
	t.Helper()
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	s := hijack.New(h, everything, log)
	return s, listen(t, s)
}

func listen(t *testing.T, h http.Handler) *httptest.Server {
	t.Helper()
	srv := httptest.NewUnstartedServer(h)
	srv.Config.ErrorLog = log.New(io.Discard, "", 0)
	srv.Start()
	t.Cleanup(srv.Close)
	return srv
}

// dial sends the request, line by line, and returns the connection.
func dial(t *testing.T, srv *httptest.Server, lines ...string) *net.TCPConn {
	t.Helper()
	c, err := net.Dial("tcp", srv.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	_ = c.SetDeadline(time.Now().Add(within))
	if _, err := io.WriteString(c, strings.Join(lines, "\r\n")); err != nil {
		t.Fatal(err)
	}
	return c.(*net.TCPConn)
}

var get = []string{"GET /sse HTTP/1.1", "Host: x", "", ""}

// readAll returns everything until the end of the connection, with the date taken out.
func readAll(t *testing.T, c io.Reader) string {
	t.Helper()
	b, err := io.ReadAll(c)
	if err != nil {
		t.Fatalf("got %v after %q, want the end of the connection", err, b)
	}
	head, body, _ := strings.Cut(string(b), "\r\n\r\n")
	var kept []string
	for line := range strings.SplitSeq(head, "\r\n") {
		if !strings.HasPrefix(line, "Date: ") {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, "\r\n") + "\r\n\r\n" + body
}

// await waits for what c is closed or sent for.
func await[T any](t *testing.T, what string, c <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(within):
		t.Fatalf("%s: did not happen within %v", what, within)
	}
	return v
}

func TestBytesOnTheWire(t *testing.T) {
	events := make(chan string, 2)
	events <- "data: 1\n\n"
	events <- strings.Repeat("x", 300)
	close(events)
	_, srv := serve(t, stream(events), nil)
	got := readAll(t, dial(t, srv, get...))
	want := "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n" +
		"9\r\ndata: 1\n\n\r\n" + "12c\r\n" + strings.Repeat("x", 300) + "\r\n" + "0\r\n\r\n"
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("on the wire (-want +got):\n%s", diff)
	}
}

// A client of net/http reads the same body whether the stream was taken over or not, whatever the sizes of writes.
func TestBodyIsTheSame(t *testing.T) {
	sizes := []int{0, 1, 15, 16, 4095, 4096, 5000, 32<<10 - 11, 32<<10 - 1, 32 << 10, 70000, 1 << 20}
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
		rc := http.NewResponseController(w)
		for i, n := range sizes {
			p := bytes.Repeat([]byte{byte('a' + i)}, n)
			if m, err := w.Write(p); m != n || err != nil {
				t.Errorf("write %d bytes: got %d, %v", n, m, err)
			}
			if r.URL.Path == "/flushed" || i%3 == 0 {
				if err := rc.Flush(); err != nil {
					t.Errorf("flush: %v", err)
				}
			}
		}
	})
	_, taken := serve(t, h, nil)
	plain := listen(t, h)
	for _, path := range []string{"/flushed", "/now-and-then"} {
		var bodies [][]byte
		for _, srv := range []*httptest.Server{plain, taken} {
			resp, err := http.Get(srv.URL + path)
			if err != nil {
				t.Fatal(err)
			}
			b, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			if err != nil {
				t.Fatalf("%s: %v", path, err)
			}
			if got, want := resp.Close, srv == taken; got != want {
				t.Errorf("%s: the connection is to be closed: got %v, want %v", path, got, want)
			}
			bodies = append(bodies, b)
		}
		if !bytes.Equal(bodies[0], bodies[1]) {
			t.Errorf("%s: got %d bytes, want the %d of net/http", path, len(bodies[1]), len(bodies[0]))
		}
	}
}

// What is no event stream is answered by net/http, on a connection that goes on.
func TestOtherAnswersStay(t *testing.T) {
	_, srv := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/refused":
			w.Header().Set("Content-Type", "text/event-stream")
			w.WriteHeader(http.StatusServiceUnavailable)
		case "/hints":
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusEarlyHints)
		default:
			w.Header().Set("Content-Type", "application/json")
		}
		_, _ = io.WriteString(w, "{}")
	}), nil)
	c := dial(t, srv, "GET /refused HTTP/1.1", "Host: x", "", "GET /hints HTTP/1.1", "Host: x", "", "GET /json HTTP/1.1", "Host: x", "Connection: close", "", "")
	got := readAll(t, c)
	for _, want := range []string{"HTTP/1.1 503", "HTTP/1.1 103", "HTTP/1.1 200"} {
		if !strings.Contains(got, want) {
			t.Errorf("got %q, want all three answers; %s is missing", got, want)
		}
	}
	if n := strings.Count(got, "Connection: close"); n != 1 {
		t.Errorf("got %d answers that close the connection, want the last", n)
	}
}

// HTTP/1.0 has no chunks, and in HTTP/2 the connection is not the stream's.
func TestOtherProtocolsStay(t *testing.T) {
	for _, name := range []string{"HTTP/1.0", "HTTP/2"} {
		t.Run(name, func(t *testing.T) {
			events := make(chan string, 1)
			events <- "data: 1\n\n"
			close(events)
			s := hijack.New(stream(events), everything, slog.New(slog.DiscardHandler))
			srv := httptest.NewUnstartedServer(s)
			var got string
			if name == "HTTP/2" {
				srv.EnableHTTP2 = true
				srv.StartTLS()
				defer srv.Close()
				resp, err := srv.Client().Get(srv.URL)
				if err != nil {
					t.Fatal(err)
				}
				defer resp.Body.Close()
				b, _ := io.ReadAll(resp.Body)
				if got = string(b); resp.ProtoMajor != 2 {
					t.Fatalf("got %s, want HTTP/2", resp.Proto)
				}
			} else {
				srv.Start()
				defer srv.Close()
				head := readAll(t, dial(t, srv, "GET / HTTP/1.0", "Host: x", "", ""))
				if strings.Contains(head, "chunked") {
					t.Errorf("got %q, want no chunks", head)
				}
				_, got, _ = strings.Cut(head, "\r\n\r\n")
			}
			if got != "data: 1\n\n" {
				t.Errorf("got %q, want the event", got)
			}
		})
	}
}

func TestTLS(t *testing.T) {
	events := make(chan string)
	s := hijack.New(stream(events), everything, slog.New(slog.DiscardHandler))
	srv := httptest.NewUnstartedServer(s)
	srv.StartTLS()
	defer srv.Close()
	client := srv.Client()
	client.Transport.(*http.Transport).TLSClientConfig.NextProtos = []string{"http/1.1"}
	resp, err := client.Get(srv.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if !resp.Close || resp.TLS == nil {
		t.Errorf("got close %v, want a stream that was taken over, over TLS", resp.Close)
	}
	events <- "data: 1\n\n"
	b := make([]byte, 9)
	if _, err := io.ReadFull(resp.Body, b); err != nil || string(b) != "data: 1\n\n" {
		t.Errorf("got %q, %v, want the event", b, err)
	}
	close(events)
	if rest, err := io.ReadAll(resp.Body); len(rest) > 0 || err != nil {
		t.Errorf("got %q, %v, want a proper end", rest, err)
	}
}

// The context of a stream ends when its client leaves in whichever way, before the stream began and after.
func TestClientLeaves(t *testing.T) {
	for name, leave := range map[string]func(*net.TCPConn){
		"closed":      func(c *net.TCPConn) { c.Close() },
		"half-closed": func(c *net.TCPConn) { _ = c.CloseWrite() },
		"reset":       func(c *net.TCPConn) { _ = c.SetLinger(0); c.Close() },
	} {
		for _, begun := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, begun %v", name, begun), func(t *testing.T) {
				waiting, gone := make(chan struct{}), make(chan error, 1)
				_, srv := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if begun {
						w.Header().Set("Content-Type", "text/event-stream")
						w.WriteHeader(http.StatusOK)
					}
					close(waiting)
					<-r.Context().Done()
					gone <- r.Context().Err()
				}), nil)
				c := dial(t, srv, get...)
				await(t, "the handler waits", waiting)
				leave(c)
				if err := await(t, "the context ends", gone); err != context.Canceled {
					t.Errorf("got %v, want context.Canceled", err)
				}
			})
		}
	}
}

// The context does not end when net/http has done with the request, which is when the stream begins.
func TestContextLives(t *testing.T) {
	type key struct{}
	next := make(chan struct{})
	var values [2]any
	s := hijack.New(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_ = http.NewResponseController(w).Flush()
		<-next
		if err := r.Context().Err(); err != nil {
			t.Errorf("got %v, want a context that lives", err)
		}
		values = [2]any{r.Context().Value(key{}), r.Context().Value(http.ServerContextKey) != nil}
	}), everything, slog.New(slog.DiscardHandler))
	returned := make(chan struct{})
	srv := listen(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer close(returned)
		s.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), key{}, "v")))
	}))
	c := dial(t, srv, get...)
	await(t, "the outer handler returns while the stream lives", returned)
	close(next)
	readAll(t, c)
	if values != [2]any{"v", true} {
		t.Errorf("got values %v, want those of the outer context", values)
	}
}

// What a client sends behind its request is not read, not answered and does not look like leaving.
func TestBytesBehindTheRequest(t *testing.T) {
	for _, when := range []string{"at once", "later"} {
		t.Run(when, func(t *testing.T) {
			events := make(chan string)
			_, srv := serve(t, stream(events), nil)
			second := strings.Join([]string{"GET /second HTTP/1.1", "Host: x", "", ""}, "\r\n")
			lines := get
			if when == "at once" {
				lines = append(append([]string{}, get[:3]...), second)
			}
			c := dial(t, srv, lines...)
			r := bufio.NewReader(c)
			if _, err := r.ReadString('\n'); err != nil {
				t.Fatal(err)
			}
			if when == "later" {
				if _, err := io.WriteString(c, second); err != nil {
					t.Fatal(err)
				}
			}
			events <- "data: 1\n\n"
			close(events)
			got := readAll(t, r)
			if !strings.HasSuffix(got, "data: 1\n\n\r\n0\r\n\r\n") || strings.Contains(got, "HTTP/1.1") {
				t.Errorf("got %q, want the event, the end, and nothing else", got)
			}
		})
	}
}

// A body is read before the stream begins; after that nothing holds on to net/http's.
func TestBody(t *testing.T) {
	late := make(chan error, 1)
	_, srv := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			t.Errorf("read: %v", err)
		}
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = w.Write(b)
		_, err = r.Body.Read(make([]byte, 1))
		late <- errors.Join(err, r.Body.Close())
	}), nil)
	c := dial(t, srv, "POST / HTTP/1.1", "Host: x", "Content-Length: 5", "", "hello")
	if got := readAll(t, c); !strings.HasSuffix(got, "5\r\nhello\r\n0\r\n\r\n") {
		t.Errorf("got %q, want the body back", got)
	}
	if err := await(t, "the second read", late); !errors.Is(err, http.ErrBodyReadAfterClose) {
		t.Errorf("got %v, want ErrBodyReadAfterClose", err)
	}
}

// A write that lasts longer than its deadline fails as it does in net/http, and everything after it. The client sees no proper end.
func TestSlowReader(t *testing.T) {
	errs := make(chan [3]error, 1)
	_, srv := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		rc := http.NewResponseController(w)
		_ = rc.Flush()
		if err := rc.SetWriteDeadline(time.Now().Add(50 * time.Millisecond)); err != nil {
			t.Error(err)
		}
		_, first := w.Write(make([]byte, 64<<20)) // more than the sockets hold
		_, second := w.Write([]byte("x"))
		errs <- [3]error{first, second, rc.Flush()}
		<-r.Context().Done()
	}), nil)
	c := dial(t, srv, get...)
	for i, err := range await(t, "the writes end", errs) {
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("write %d: got %v, want ErrDeadlineExceeded", i, err)
		}
	}
	if b, _ := io.ReadAll(c); bytes.HasSuffix(b, []byte("0\r\n\r\n")) {
		t.Error("the stream has a proper end, though something is missing")
	}
}

// A deadline that was set before the stream began counts for it, as with net/http.
func TestDeadlineBeforeTheStream(t *testing.T) {
	for name, set := range map[string]func(*http.ResponseController, time.Time) error{
		"write": (*http.ResponseController).SetWriteDeadline,
		"read":  (*http.ResponseController).SetReadDeadline,
	} {
		t.Run(name, func(t *testing.T) {
			over := make(chan error, 1)
			_, srv := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if err := set(http.NewResponseController(w), time.Unix(1, 0)); err != nil {
					t.Error(err)
				}
				w.Header().Set("Content-Type", "text/event-stream")
				w.WriteHeader(http.StatusOK)
				if name == "read" { // which is how it is noticed that a client has gone
					<-r.Context().Done()
					over <- r.Context().Err()
					return
				}
				_, err := w.Write(make([]byte, 1<<20))
				over <- err
			}), nil)
			c := dial(t, srv, get...)
			if err := await(t, "the end of the stream", over); err == nil {
				t.Error("the write succeeded")
			}
			if b, _ := io.ReadAll(c); name == "write" && bytes.HasSuffix(b, []byte("0\r\n\r\n")) {
				t.Error("the stream has a proper end, though something is missing")
			}
		})
	}
}

// SetWriteDeadline comes from other goroutines, at any time.
func TestDeadlineFromOutside(t *testing.T) {
	var wg sync.WaitGroup
	blocked := make(chan error, 1)
	_, srv := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		rc := http.NewResponseController(w)
		stop := make(chan struct{})
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					_ = rc.SetWriteDeadline(time.Now().Add(within))
				}
			}
		})
		w.Header().Set("Content-Type", "text/event-stream")
		w.WriteHeader(http.StatusOK)
		_ = rc.Flush()
		close(stop)
		wg.Wait()
		wg.Go(func() { _ = rc.SetWriteDeadline(time.Unix(1, 0)) })
		var err error
		for err == nil {
			_, err = w.Write(make([]byte, 1<<20))
		}
		blocked <- err
	}), nil)
	dial(t, srv, get...)
	if err := await(t, "the write ends", blocked); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("got %v, want ErrDeadlineExceeded", err)
	}
	wg.Wait()
}

func TestPanic(t *testing.T) {
	for _, tt := range []struct {
		name   string
		begun  bool
		value  any
		logged bool
	}{
		{"before", false, "boom", true},
		{"aborted before", false, http.ErrAbortHandler, false},
		{"after", true, "boom", true},
		{"aborted after", true, http.ErrAbortHandler, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var out logged
			left := make(chan struct{})
			s, srv := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				defer close(left)
				if tt.begun {
					w.Header().Set("Content-Type", "text/event-stream")
					_ = http.NewResponseController(w).Flush()
				}
				panic(tt.value)
			}), slog.New(slog.NewTextHandler(&out, nil)))
			b, _ := io.ReadAll(dial(t, srv, get...))
			await(t, "the handler ends", left)
			if err := s.Shutdown(t.Context()); err != nil {
				t.Fatal(err)
			}
			if bytes.HasSuffix(b, []byte("0\r\n\r\n")) || tt.begun != bytes.HasPrefix(b, []byte("HTTP/1.1 200")) {
				t.Errorf("got %q, want no proper end, and a head if it had begun", b)
			}
			if got := strings.Contains(out.String(), "boom"); got != tt.logged {
				t.Errorf("got the log %q, want the panic there: %v", out.String(), tt.logged)
			}
		})
	}
}

// logged is a log that may be read while it is written.
type logged struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// A server that lets nobody hijack keeps its streams.
func TestCannotBeTaken(t *testing.T) {
	events := make(chan string, 1)
	events <- "data: 1\n\n"
	close(events)
	s := hijack.New(stream(events), everything, slog.New(slog.DiscardHandler))
	rec := httptest.NewRecorder()
	s.ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "/sse", nil))
	if got := rec.Body.String(); got != "data: 1\n\n" || !rec.Flushed {
		t.Errorf("got %q, want the event", got)
	}
	if err := s.Shutdown(t.Context()); err != nil {
		t.Errorf("shutdown: got %v, want nothing to wait for", err)
	}
}

func TestShutdown(t *testing.T) {
	t.Run("waits", func(t *testing.T) {
		events := make(chan string)
		s, srv := serve(t, stream(events), nil)
		c := dial(t, srv, get...)
		events <- "data: 1\n\n"
		ended := make(chan error, 1)
		go func() { ended <- s.Shutdown(context.Background()) }()
		events <- "data: 2\n\n"
		select {
		case err := <-ended:
			t.Fatalf("got %v while a stream was open", err)
		default:
		}
		close(events)
		if err := await(t, "shutdown ends", ended); err != nil {
			t.Error(err)
		}
		if got := readAll(t, c); !strings.HasSuffix(got, "0\r\n\r\n") {
			t.Errorf("got %q, want a proper end", got)
		}
		resp, err := http.Get(srv.URL) // the handler returns at once
		if err != nil {
			t.Fatal(err)
		}
		if resp.Body.Close(); resp.Close {
			t.Error("a stream was taken over after Shutdown")
		}
	})
	t.Run("cuts", func(t *testing.T) {
		gone := make(chan struct{})
		s, srv := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
			close(gone)
		}), nil)
		c := dial(t, srv, get...)
		if _, err := c.Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancelCause(context.Background())
		cancel(os.ErrProcessDone)
		if err := s.Shutdown(ctx); err != os.ErrProcessDone {
			t.Errorf("got %v, want the cause", err)
		}
		await(t, "the context of the stream ends", gone)
		if b, _ := io.ReadAll(c); bytes.HasSuffix(b, []byte("0\r\n\r\n")) {
			t.Error("the stream has a proper end, though it was cut")
		}
	})
}

// An idle stream has two goroutines: its handler and what waits for the client. They end with it.
func TestGoroutines(t *testing.T) {
	const n = 20
	events := make(chan string)
	_, srv := serve(t, stream(events), nil)
	http.DefaultClient.CloseIdleConnections()
	eventually(t, "nothing is left of other tests", func() bool { return goroutines() == 0 })
	var conns []net.Conn
	for range n {
		c := dial(t, srv, get...)
		if _, err := c.Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		conns = append(conns, c)
	}
	eventually(t, "2 goroutines a stream", func() bool { return goroutines() == 2*n })
	for _, c := range conns {
		c.Close()
	}
	close(events)
	eventually(t, "no goroutine is left", func() bool { return goroutines() == 0 })
}

// goroutines counts those of streams and of net/http's connections.
func goroutines() (n int) {
	var b bytes.Buffer
	_ = pprof.Lookup("goroutine").WriteTo(&b, 2)
	for g := range strings.SplitSeq(b.String(), "\n\n") {
		for _, name := range []string{"hijack.(*response).serve(", "hijack.attend(", "http.(*conn).serve("} {
			if strings.Contains(g, name) {
				n++
				break
			}
		}
	}
	return n
}

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for end := time.After(within); !is(); {
		select {
		case <-tick.C:
		case <-end:
			t.Fatalf("%s: did not happen within %v", what, within)
		}
	}
}

// A field with a line break does not begin another one.
func TestFieldsAreClean(t *testing.T) {
	_, srv := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		h := w.Header()
		h.Set("Content-Type", "text/event-stream")
		h.Set("X-Odd", "a\r\nX-Injected: b")
		h.Set("Connection", "keep-alive")
		h.Set("Content-Length", "7")
		h.Set("Date", "yesterday")
		_ = http.NewResponseController(w).Flush()
	}), nil)
	resp, err := http.Get(srv.URL)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.Header.Get("X-Injected") != "" || resp.Header.Get("X-Odd") != "a  X-Injected: b" {
		t.Errorf("got %v, want the line break gone", resp.Header)
	}
	if !resp.Close || resp.ContentLength != -1 || resp.Header.Get("Date") != "yesterday" {
		t.Errorf("got %v, want chunks, a connection that is closed, and the handler's date", resp)
	}
}
