package legacy_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/internal/memhttp"
	"github.com/mcp-dualstack/bridge/internal/sse"
	"github.com/mcp-dualstack/bridge/legacy"
)

// hang is a call that ends with its context only.
func hang(ctx context.Context, req exchange.Request, _ exchange.Peer) (exchange.Response, error) {
	req.Sent()
	<-ctx.Done()
	return exchange.Response{}, context.Cause(ctx)
}

const call9 = `{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":"x"}}`

// The bytes of a stream. 2024-11-05 basic/transports: an endpoint event first, then message events.
func TestFraming(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &script{call: func(ctx context.Context, req exchange.Request, back exchange.Peer) (exchange.Response, error) {
			req.Sent()
			_ = back.Notify(ctx, exchange.Request{Method: "notifications/progress", Params: []byte("{\"a\":\r\n1}")})
			return exchange.Response{Result: []byte("{\"text\":\"a\u2028b\u2029c\u0085d\"}")}, nil
		}}
		_, s := serve(t, h, &legacy.Options{KeepAlive: time.Minute})
		conn, err := s.Dial(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		fmt.Fprintf(conn, "GET /sse HTTP/1.1\r\nHost: h\r\n\r\n")
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		for name, want := range map[string]string{
			"Content-Type":      "text/event-stream",
			"Cache-Control":     "no-store, no-transform",
			"X-Accel-Buffering": "no",
		} {
			if got := resp.Header.Get(name); got != want {
				t.Errorf("%s is %q, want %q", name, got, want)
			}
		}
		body := bufio.NewReader(resp.Body)
		lines := func(n int) string {
			var b strings.Builder
			for range n {
				line, err := body.ReadString('\n')
				if err != nil {
					t.Fatal(err)
				}
				b.WriteString(line)
			}
			return b.String()
		}
		first := lines(3)
		id := strings.TrimSuffix(strings.TrimPrefix(first, "event: endpoint\ndata: messages?sessionId="), "\n\n")
		if len(id) != 26 {
			t.Fatalf("got %q, want an endpoint event", first)
		}
		c := &client{t: t, http: s.Client(), post: s.URL + "/messages?sessionId=" + id}
		c.ok(initialize("2025-06-18"))
		if got, want := lines(3), "event: message\ndata: "+initialized+"\n\n"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		c.ok(call9)
		if got, want := lines(3), "event: message\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{\"a\":  1}}\n\n"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		if got, want := lines(3), "event: message\ndata: {\"jsonrpc\":\"2.0\",\"id\":9,\"result\":{\"text\":\"a\u2028b\u2029c\u0085d\"}}\n\n"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		start := time.Now()
		if got, want := lines(2), ": keep-alive\n\n"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		if quiet := time.Since(start); quiet > time.Minute || quiet < 54*time.Second {
			t.Errorf("a comment after %v, want 54 s to 1 min", quiet)
		}
	})
}

// Reports R30 and R32: a server's timeouts do not end a stream, and comments keep coming below the interval.
func TestServerTimeoutsDoNotCutAStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		h := &script{call: func(_ context.Context, req exchange.Request, _ exchange.Peer) (exchange.Response, error) {
			req.Sent()
			<-release
			return exchange.Response{}, nil
		}}
		f := legacy.New(h, nil)
		s := memhttp.NewWith(t, routes(f), &memhttp.Options{Server: func(hs *http.Server) {
			hs.ReadTimeout, hs.WriteTimeout, hs.IdleTimeout = 5*time.Second, 5*time.Second, 5*time.Second
		}})
		t.Cleanup(func() { f.Close() })
		c := connect(t, s).begin()
		c.ok(call9)
		time.Sleep(time.Hour)
		close(release)
		c.want(`{"jsonrpc":"2.0","id":9,"result":{}}`)
	})
}

// On HTTP/2 a write deadline that passes would end the stream although nothing is being written.
func TestHTTP2(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var h2 http.Protocols
		h2.SetUnencryptedHTTP2(true)
		f := legacy.New(&script{}, &legacy.Options{WriteTimeout: 5 * time.Second, KeepAlive: time.Minute})
		s := memhttp.NewWith(t, routes(f), &memhttp.Options{Server: func(hs *http.Server) {
			hs.Protocols, hs.ReadTimeout, hs.WriteTimeout = &h2, 5*time.Second, 5*time.Second
		}})
		dial := func(ctx context.Context, _, _ string) (net.Conn, error) { return s.Dial(ctx) }
		tr := &http.Transport{Protocols: &h2, DialContext: dial}
		t.Cleanup(func() {
			f.Close()
			tr.CloseIdleConnections()
		})
		hc := &http.Client{Transport: tr}
		resp, err := hc.Get(s.URL + "/sse")
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		c := &client{t: t, http: hc, events: sse.NewReader(resp.Body, 1<<20)}
		e, err := c.events.Next()
		if err != nil || resp.ProtoMajor != 2 {
			t.Fatalf("got %v over %s, want an endpoint over HTTP/2", err, resp.Proto)
		}
		c.post = string(e.Data)
		c.begin()
		time.Sleep(time.Hour)
		c.ok(call9)
		c.want(`{"jsonrpc":"2.0","id":9,"result":{"name":"x"}}`)
	})
}

// Report R49 c: closing a POST means nothing, closing the stream ends the session and cancels its calls.
func TestStreamIsTheSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen log
		var cause atomic.Value
		h := &script{call: func(ctx context.Context, req exchange.Request, back exchange.Peer) (exchange.Response, error) {
			_, err := hang(ctx, req, back)
			cause.Store(err)
			return exchange.Response{}, err
		}}
		_, s := serve(t, h, &legacy.Options{Observe: seen.observe})
		c := connect(t, s, "User-Agent", "node").begin()
		c.ok(call9)
		synctest.Wait()
		if cause.Load() != nil {
			t.Error("the end of the POST ended the call")
		}
		c.gone()
		synctest.Wait()
		if _, ok := cause.Load().(*exchange.CancelError); !ok || h.endings() != 1 {
			t.Errorf("call ended by %v and server closed %d times, want a cancellation and 1", cause.Load(), h.endings())
		}
		if status, _ := c.send(call9); status != 404 {
			t.Errorf("POST to the ended session: got %d, want 404", status)
		}
		if got := seen.kind(exchange.SeenStream); len(got) != 1 || got[0].UserAgent != "node" || got[0].Session == "" || !got[0].Addr.IsValid() {
			t.Errorf("observed %+v, want one stream", got)
		}
		if got := seen.kind(exchange.SeenSilent); len(got) != 0 {
			t.Errorf("observed %+v, want no silent stream", got)
		}
	})
}

// Retirement.md R9 and clients.md 10: a GET alone touches nothing and is a probe.
func TestSilentStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen log
		h := &script{}
		_, s := serve(t, h, &legacy.Options{Observe: seen.observe})
		connect(t, s, "Mcp-Protocol-Version", "2025-11-25").gone()
		synctest.Wait()
		if got := seen.kind(exchange.SeenSilent); len(got) != 1 || len(h.clients()) != 0 {
			t.Errorf("observed %+v and opened %d, want one silent stream and none", got, len(h.clients()))
		}
		if got := seen.kind(exchange.SeenVersionHeader); len(got) != 1 || got[0].Version != "2025-11-25" {
			t.Errorf("observed %+v, want the header", got)
		}
	})
}

func TestVersionHeaderIsSeenOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen log
		_, s := serve(t, &script{}, &legacy.Options{Observe: seen.observe})
		c := connect(t, s).begin()
		for _, v := range []string{"2025-06-18", "2025-11-25", "garbage"} { // ignored on this leg
			c.ok(`{"jsonrpc":"2.0","id":1,"method":"ping"}`, "MCP-Protocol-Version", v)
			c.next()
		}
		if got := seen.kind(exchange.SeenVersionHeader); len(got) != 1 || got[0].Version != "2025-06-18" {
			t.Errorf("observed %+v, want the first one", got)
		}
	})
}

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

// Report R10: two calls with one id, each with its own answer, in the order they end.
func TestTwins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen log
		h := &script{call: func(_ context.Context, req exchange.Request, _ exchange.Peer) (exchange.Response, error) {
			req.Sent()
			if strings.Contains(string(req.Params), "slow") {
				time.Sleep(2 * time.Second)
			}
			return exchange.Response{Result: echo(req)}, nil
		}}
		_, s := serve(t, h, &legacy.Options{Observe: seen.observe})
		c := connect(t, s).begin()
		c.ok(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"slow"}}`)
		c.ok(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"fast"}}`)
		c.want(`{"jsonrpc":"2.0","id":1,"result":{"name":"fast"}}`, `{"jsonrpc":"2.0","id":1,"result":{"name":"slow"}}`)
		if got := seen.kind(exchange.SeenDuplicateID); len(got) != 1 {
			t.Errorf("observed %d duplicates, want 1", len(got))
		}
	})
}

// Report R48: no answer for a cancelled call, and others go on.
func TestCancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &script{call: func(ctx context.Context, req exchange.Request, back exchange.Peer) (exchange.Response, error) {
			if strings.Contains(string(req.Params), "hang") {
				return hang(ctx, req, back)
			}
			req.Sent()
			return exchange.Response{}, nil
		}}
		_, s := serve(t, h, nil)
		c := connect(t, s).begin()
		c.ok(`{"jsonrpc":"2.0","id":"101","method":"tools/call","params":{"name":"hang"}}`)
		c.ok(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":101}}`) // another id
		c.ok(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"101"}}`)
		c.ok(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{}}`)
		c.want(`{"jsonrpc":"2.0","id":2,"result":{}}`)
	})
}

// Translation.md 9: questions appear on the stream and answers come by POST.
func TestQuestions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &script{call: func(ctx context.Context, req exchange.Request, back exchange.Peer) (exchange.Response, error) {
			req.Sent()
			r, err := back.Call(ctx, exchange.Request{Method: "elicitation/create", Params: []byte(`{"message":"?"}`)})
			if err != nil {
				return exchange.Response{Result: []byte(`{"failed":true}`)}, nil
			}
			return exchange.Response{Result: r.Result}, nil
		}}
		_, s := serve(t, h, &legacy.Options{AskTimeout: time.Minute})
		c := connect(t, s).begin()
		c.ok(call9)
		c.want(`{"jsonrpc":"2.0","id":1,"method":"elicitation/create","params":{"message":"?"}}`)
		c.ok(`{"jsonrpc":"2.0","id":1,"result":{"action":"accept"}}`)
		c.want(`{"jsonrpc":"2.0","id":9,"result":{"action":"accept"}}`)

		c.ok(call9) // clients.md 13: some declare what they never answer
		c.want(`{"jsonrpc":"2.0","id":2,"method":"elicitation/create","params":{"message":"?"}}`,
			`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}`,
			`{"jsonrpc":"2.0","id":9,"result":{"failed":true}}`)
	})
}

// Report R11: ids collide across clients all the time.
func TestTwentyClients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var delay atomic.Int64
		h := &script{call: func(_ context.Context, req exchange.Request, _ exchange.Peer) (exchange.Response, error) {
			req.Sent()
			time.Sleep(time.Duration(delay.Add(7919)%50) * time.Millisecond)
			return exchange.Response{Result: echo(req)}, nil
		}}
		_, s := serve(t, h, nil)
		var wg sync.WaitGroup
		for n := range 20 {
			c := connect(t, s).begin()
			wg.Go(func() {
				left := map[string]bool{}
				for id := range 50 {
					params := fmt.Sprintf(`{"client":%d,"id":%d}`, n, id)
					c.ok(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":%s}`, id, params))
					left[fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":%s}`, id, params)] = true
				}
				for range 50 {
					got := c.next()
					if !left[got] {
						t.Errorf("client %d got %s", n, got)
					}
					delete(left, got)
				}
			})
		}
		wg.Wait()
	})
}

// Report R35: memory for a reader that does not read is bounded, its stream is cut at the bound, and others
// do not notice.
func TestSlowReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen log
		flood := make(chan struct{})
		accepted := 0
		h := &script{call: func(ctx context.Context, req exchange.Request, back exchange.Peer) (exchange.Response, error) {
			req.Sent()
			if !strings.Contains(string(req.Params), "flood") {
				return exchange.Response{}, nil
			}
			defer close(flood)
			_ = back.Notify(ctx, exchange.Request{Method: "x", Params: []byte(`"` + strings.Repeat("x", 1<<20) + `"`)})
			time.Sleep(time.Millisecond) // the write of that is stuck
			for range 10_000 {
				if err := back.Notify(ctx, exchange.Request{Method: "notifications/message", Params: make1KiB()}); err != nil {
					return exchange.Response{}, err
				}
				accepted++
			}
			return exchange.Response{}, nil
		}}
		_, s := serve(t, h, &legacy.Options{StreamBytes: 100 << 10, Observe: seen.observe})
		slow, other := connect(t, s).begin(), connect(t, s).begin()
		start := time.Now()
		slow.ok(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"flood"}}`)
		<-flood
		if accepted < 90 || accepted > 100 {
			t.Errorf("%d messages of 1 KiB were taken, want about 100", accepted)
		}
		other.ok(call9)
		other.want(`{"jsonrpc":"2.0","id":9,"result":{}}`)
		synctest.Wait()
		if got := seen.kind(exchange.SeenDropped); len(got) == 0 || got[0].Detail != exchange.ReasonStreamCut {
			t.Errorf("observed %+v, want %s", got, exchange.ReasonStreamCut)
		}
		if status, _ := slow.send(call9); status != 404 {
			t.Errorf("got %d, want 404: the session has ended", status)
		}
		if took := time.Since(start); took > time.Second {
			t.Errorf("took %v, want less than a second", took)
		}
		for got := slow.next(); got != ""; got = slow.next() { // what is left arrives, and then the end
		}
	})
}

func make1KiB() []byte { return []byte(`{"data":"` + strings.Repeat("x", 1000) + `"}`) }

func TestOneLargeMessagePasses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		large := `{"data":"` + strings.Repeat("x", 300<<10) + `"}`
		h := &script{call: func(_ context.Context, req exchange.Request, _ exchange.Peer) (exchange.Response, error) {
			req.Sent()
			return exchange.Response{Result: []byte(large)}, nil
		}}
		_, s := serve(t, h, &legacy.Options{StreamBytes: 1 << 10})
		c := connect(t, s).begin()
		c.ok(call9)
		c.want(`{"jsonrpc":"2.0","id":9,"result":` + large + `}`)
	})
}

// A reader that stops in the middle of a write holds nothing for longer than WriteTimeout.
func TestWriteTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &script{call: func(_ context.Context, req exchange.Request, _ exchange.Peer) (exchange.Response, error) {
			req.Sent()
			return exchange.Response{Result: []byte(`{"data":"` + strings.Repeat("x", 1<<20) + `"}`)}, nil
		}}
		_, s := serve(t, h, &legacy.Options{WriteTimeout: 7 * time.Second})
		c := connect(t, s).begin()
		start := time.Now()
		c.ok(call9)
		for h.endings() == 0 {
			time.Sleep(time.Second)
			synctest.Wait()
		}
		if took := time.Since(start); took != 7*time.Second {
			t.Errorf("took %v, want 7s", took)
		}
		_, _ = io.Copy(io.Discard, c.stream.Body)
	})
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
		idle.want("")
		wantUnavailable(t, s)
		if status, body := busy.send(`{"jsonrpc":"2.0","id":10,"method":"ping"}`); status != 503 || !strings.Contains(body, `"id":10`) {
			t.Errorf("a new request: got %d %s, want 503 with its id", status, body)
		}
		busy.want(`{"jsonrpc":"2.0","id":1,"method":"roots/list"}`)
		busy.ok(`{"jsonrpc":"2.0","id":1,"result":{"roots":[]}}`)
		busy.want(`{"jsonrpc":"2.0","id":9,"result":{"roots":[]}}`, "")
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
