package legacy_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
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
		t.Cleanup(func() { f.Close() })
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
		t.Cleanup(func() { f.Close() })
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
