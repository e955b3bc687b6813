package legacy_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/internal/memhttp"
	"github.com/mcp-dualstack/bridge/legacy"
)

// Calls in flight learn that the server has ended, and then the stream ends.
func TestServerEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &script{call: hang, done: make(chan struct{})}
		_, s := serve(t, h, nil)
		c := connect(t, s).begin()
		c.ok(call9)
		synctest.Wait()
		close(h.done)
		if got := reasonOf(c.next()); got != exchange.ReasonLost {
			t.Errorf("got %s, want %s", got, exchange.ReasonLost)
		}
		c.want("")
		if h.endings() != 1 {
			t.Errorf("server closed %d times, want 1", h.endings())
		}
	})
}

// Report R38: a server that cannot be started gives an error on the stream, and then the stream ends.
func TestServerCannotBeOpened(t *testing.T) {
	for _, c := range []struct{ name, body string }{
		{"at the handshake", initialize("2025-06-18")},
		{"for a client that came back", call9},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := &script{open: func(context.Context, exchange.Client) error {
					return exchange.Fail(exchange.ReasonUnavailable, fmt.Errorf("exec /secret/path"))
				}}
				_, s := serve(t, h, nil)
				cl := connect(t, s)
				cl.ok(c.body)
				got := cl.next()
				if reasonOf(got) != exchange.ReasonUnavailable || strings.Contains(got, "secret") {
					t.Errorf("got %s, want %s and no secret", got, exchange.ReasonUnavailable)
				}
				cl.want("")
			})
		})
	}
}

func TestMaxSessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, s := serve(t, &script{}, &legacy.Options{MaxSessions: 2})
		one := connect(t, s)
		connect(t, s)
		wantUnavailable(t, s)
		one.gone()
		synctest.Wait()
		connect(t, s).begin()
	})
}

func wantUnavailable(t *testing.T, s *memhttp.Server) {
	t.Helper()
	resp, err := s.Client().Get(s.URL + "/sse")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if after, _ := strconv.Atoi(resp.Header.Get("Retry-After")); resp.StatusCode != 503 || after < 1 {
		t.Errorf("got %s and Retry-After %q, want 503 and a number", resp.Status, resp.Header.Get("Retry-After"))
	}
}

// Report R31: shutdown refuses new work, lets calls end, and ends the streams.
func TestShutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &script{call: func(ctx context.Context, req exchange.Request, back exchange.Peer) (exchange.Response, error) {
			req.Sent()
			time.Sleep(2 * time.Second)
			r, err := back.Call(ctx, exchange.Request{Method: "roots/list"})
			return r, err
		}}
		f, s := serve(t, h, nil)
		idle, busy := connect(t, s).begin(), connect(t, s).begin()
		busy.ok(call9)
		done := make(chan error, 1)
		start := time.Now()
		go func() { done <- f.Shutdown(t.Context()) }()
		synctest.Wait()
		wantUnavailable(t, s)
		if status, body := busy.send(`{"jsonrpc":"2.0","id":10,"method":"ping"}`); status != 503 || !strings.Contains(body, `"id":10`) {
			t.Errorf("a new request: got %d %s, want 503 with its id", status, body)
		}
		busy.want(`{"jsonrpc":"2.0","id":1,"method":"roots/list"}`)
		busy.ok(`{"jsonrpc":"2.0","id":1,"result":{"roots":[]}}`)
		busy.want(`{"jsonrpc":"2.0","id":9,"result":{"roots":[]}}`, "")
		idle.want("") // not before: a client that comes back is refused for as long as calls keep the listener open
		if err := <-done; err != nil {
			t.Error(err)
		}
		if took := time.Since(start); took != 2*time.Second {
			t.Errorf("took %v, want 2s", took)
		}
	})
}

func TestShutdownDoesNotWaitForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &script{call: hang}
		f, s := serve(t, h, nil)
		c := connect(t, s).begin()
		c.ok(call9)
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if err := f.Shutdown(ctx); err != context.DeadlineExceeded {
			t.Errorf("got %v, want %v", err, context.DeadlineExceeded)
		}
		if got := reasonOf(c.next()); got != exchange.ReasonClosed {
			t.Errorf("got %s, want %s", got, exchange.ReasonClosed)
		}
		c.want("")
	})
}

// A call that the client takes back is one less to wait for.
func TestShutdownNoticesACancelledCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, s := serve(t, &script{call: hang}, nil)
		c := connect(t, s).begin()
		c.ok(call9)
		done := make(chan error, 1)
		start := time.Now()
		go func() { done <- f.Shutdown(t.Context()) }()
		synctest.Wait()
		c.ok(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":9}}`)
		if err := <-done; err != nil || time.Since(start) != 0 {
			t.Errorf("got %v after %v, want no error at once", err, time.Since(start))
		}
	})
}

// While a session is being taken down nothing is accepted that would be lost.
func TestPostToAnEndingSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &script{call: func(ctx context.Context, req exchange.Request, _ exchange.Peer) (exchange.Response, error) {
			req.Sent()
			<-ctx.Done()
			time.Sleep(time.Second) // a server that lets go slowly
			return exchange.Response{}, ctx.Err()
		}}
		_, s := serve(t, h, nil)
		c := connect(t, s).begin()
		c.ok(call9)
		synctest.Wait()
		c.gone()
		synctest.Wait()
		if status, _ := c.send(call9); status != 404 || h.endings() != 0 {
			t.Errorf("got %d with %d endings, want 404 with none yet", status, h.endings())
		}
	})
}

func TestShutdownWaitsForTheHandshake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &script{open: func(context.Context, exchange.Client) error { time.Sleep(time.Second); return nil }}
		f, s := serve(t, h, nil)
		c := connect(t, s)
		c.ok(initialize("2025-06-18"))
		if err := f.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		c.want(initialized, "")
	})
}

// Close is quick also when a reader does not read.
func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &script{call: func(_ context.Context, req exchange.Request, _ exchange.Peer) (exchange.Response, error) {
			req.Sent()
			return exchange.Response{Result: []byte(`{"data":"` + strings.Repeat("x", 1<<20) + `"}`)}, nil
		}}
		f, s := serve(t, h, nil)
		connect(t, s).begin().ok(call9) // never read
		idle := connect(t, s)
		synctest.Wait()
		start := time.Now()
		f.Close()
		if took := time.Since(start); took > time.Second {
			t.Errorf("took %v, want at most a second", took)
		}
		idle.want("")
		f.Close() // and once more
	})
}

func TestIdleTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &script{}
		_, s := serve(t, h, &legacy.Options{IdleTimeout: time.Hour})
		c := connect(t, s).begin()
		time.Sleep(50 * time.Minute)
		c.ok(`{"jsonrpc":"2.0","method":"notifications/x"}`)
		time.Sleep(50 * time.Minute)
		_ = h.clients()[0].Back.Notify(t.Context(), exchange.Request{Method: "notifications/y"})
		c.next()
		time.Sleep(50 * time.Minute)
		if h.endings() != 0 {
			t.Error("ended before its time")
		}
		time.Sleep(11 * time.Minute)
		if h.endings() != 1 {
			t.Error("still there after its time")
		}
		c.want("")
	})
}

// Report R36: clients come and go, and nothing is left of them.
func TestComingAndGoing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &script{call: hang}
		_, s := serve(t, h, &legacy.Options{MaxSessions: 30})
		for range 5 {
			var all []*client
			for range 30 {
				c := connect(t, s).begin()
				c.ok(call9)
				all = append(all, c)
			}
			for _, c := range all {
				c.gone()
			}
			synctest.Wait()
		}
		if got := h.endings(); got != 150 {
			t.Errorf("%d of 150 sessions ended", got)
		}
	})
}
