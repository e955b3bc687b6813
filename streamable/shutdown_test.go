package streamable_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/streamable"
)

// held opens what R31 names: GET streams, a listen, and a call of two seconds. It returns the streams and a session.
func held(b *bed) (gets []*listener, listen, call *listener, session string) {
	b.script.call = func(ctx context.Context, req exchange.Request, back exchange.Peer) (exchange.Response, error) {
		if req.Method == "subscriptions/listen" {
			_ = back.Notify(ctx, exchange.Request{Method: "notifications/subscriptions/acknowledged"})
			return wait(ctx, req, back)
		}
		select {
		case <-time.After(2 * time.Second):
			return result(`{"done":true}`), nil
		case <-ctx.Done():
			return exchange.Response{}, context.Cause(ctx)
		}
	}
	for range 3 {
		session = b.session("2025-06-18")
		gets = append(gets, b.listen(session))
	}
	body, headers := modern("9", "subscriptions/listen", "")
	listen = b.open(http.MethodPost, body, headers...)
	listen.event()
	return gets, listen, b.open(http.MethodPost, callOne, session), session
}

// R31.
func TestShutdownWithOpenStreams(t *testing.T) {
	inBubble(t, &script{}, streamable.Options{}, func(t *testing.T, b *bed) {
		gets, listen, call, s := held(b)
		old := b.session("2025-03-26")
		begun := time.Now()
		done := make(chan error, 1)
		go func() { done <- b.front.Shutdown(t.Context()) }()
		synctest.Wait()

		for name, r := range map[string]reply{
			"initialize": b.post(initialize("2025-06-18")),
			"call":       b.post(callOne, s),
			"stateless":  b.postModern("1", "tools/list", ""),
			"GET":        b.send(http.MethodGet, "", s),
		} {
			if r.status != 503 || r.header.Get("Retry-After") == "" || !strings.Contains(r.body, "shutting_down") {
				t.Errorf("%s: got %d, Retry-After %q, %s", name, r.status, r.header.Get("Retry-After"), r.body)
			}
		}
		if r := b.post(`[{"jsonrpc":"2.0","id":1,"method":"tools/list"}]`, old); r.status != 503 {
			t.Errorf("batch: got %d, want 503", r.status)
		}
		if r := b.post(`{"jsonrpc":"2.0","method":"notifications/x"}`, s); r.status != 202 {
			t.Errorf("notification: got %d, want 202", r.status)
		}
		if r := b.post(callOne, "Mcp-Session-Id: nope"); r.status != 404 {
			t.Errorf("unknown session: got %d, want 404", r.status)
		}
		want(t, "call", call.event(), message("TAG.2.1", doneFive))
		want(t, "listen", listen.event(), message("", `{"jsonrpc":"2.0","id":9,"result":{"resultType":"complete","_meta":{"io.modelcontextprotocol/subscriptionId":9}}}`))
		want(t, "listen afterwards", listen.event(), "")
		for _, get := range gets {
			want(t, "GET", get.event(), "")
		}
		if err := <-done; err != nil || time.Since(begun) != 2*time.Second {
			t.Errorf("ended with %v after %v", err, time.Since(begun))
		}
		if n := b.script.closes(); n != 5 {
			t.Errorf("upstream sessions closed: %d, want 5", n)
		}
		if sessions, _, _ := b.front.Held(); sessions != 0 {
			t.Errorf("%d sessions left", sessions)
		}
	})
}

// A handshake that is under way when the shutdown begins leaves no session behind.
func TestShutdownDuringInitialize(t *testing.T) {
	inBubble(t, &script{}, streamable.Options{}, func(t *testing.T, b *bed) {
		opened := make(chan struct{})
		b.script.open = func(context.Context, exchange.Client) error {
			<-opened
			return nil
		}
		got := make(chan reply)
		go func() { got <- b.post(initialize("2025-06-18")) }()
		synctest.Wait()
		done := make(chan error)
		go func() { done <- b.front.Shutdown(t.Context()) }()
		synctest.Wait()
		close(opened)
		if r := <-got; r.status != 503 || r.header.Get("Mcp-Session-Id") != "" {
			t.Errorf("got %d, session %q", r.status, r.header.Get("Mcp-Session-Id"))
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
		if n := b.script.closes(); n != 1 {
			t.Errorf("upstream sessions closed: %d, want 1", n)
		}
	})
}

// The server may end before its session is in the table.
func TestUpstreamEndsAtOnce(t *testing.T) {
	inBubble(t, &script{done: make(chan struct{})}, streamable.Options{MaxSessions: 1}, func(t *testing.T, b *bed) {
		close(b.script.done)
		for range 3 {
			s := b.session("2025-06-18")
			synctest.Wait()
			if r := b.post(callOne, s); r.status != 404 {
				t.Errorf("got %d, want 404", r.status)
			}
		}
		if sessions, _, _ := b.front.Held(); sessions != 0 {
			t.Errorf("%d sessions left", sessions)
		}
	})
}

func TestShutdownRunsOutOfTime(t *testing.T) {
	inBubble(t, &script{}, streamable.Options{}, func(t *testing.T, b *bed) {
		_, _, call, _ := held(b)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		begun := time.Now()
		err := b.front.Shutdown(ctx)
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(begun) != time.Second {
			t.Errorf("ended with %v after %v", err, time.Since(begun))
		}
		if n := b.script.closes(); n != 4 {
			t.Errorf("upstream sessions closed: %d, want 4", n)
		}
		call.stop()
	})
}

// Close does not wait for readers or for bodies.
func TestCloseAtOnce(t *testing.T) {
	inBubble(t, &script{}, streamable.Options{}, func(t *testing.T, b *bed) {
		held(b)
		synctest.Wait()
		ended := make(chan error, 1)
		b.script.call = func(ctx context.Context, req exchange.Request, back exchange.Peer) (exchange.Response, error) {
			_ = back.Notify(ctx, note("notifications/progress", `{}`))
			resp, err := wait(ctx, req, back)
			ended <- err
			return resp, err
		}
		body, headers := modern("1", "tools/call", `"name":"x"`)
		b.open(http.MethodPost, body, headers...).event()
		conn, err := b.http.Dial(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := conn.Write([]byte("POST /mcp HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{")); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		begun := time.Now()
		if err := b.front.Close(); err != nil || time.Since(begun) != 0 {
			t.Errorf("ended with %v after %v", err, time.Since(begun))
		}
		if err := b.front.Close(); err != nil {
			t.Errorf("second time: %v", err)
		}
		if f, ok := errors.AsType[*exchange.Failure](<-ended); !ok || f.Reason != exchange.ReasonClosed {
			t.Errorf("stateless call ended by %v", f)
		}
	})
}

func TestIdleSessionsAreSwept(t *testing.T) {
	inBubble(t, &script{}, streamable.Options{}, func(t *testing.T, b *bed) {
		b.session("2025-06-18")
		streaming := b.session("2025-06-18")
		get := b.listen(streaming)
		busy := b.session("2025-06-18")
		b.script.call = wait
		call := b.open(http.MethodPost, callOne, busy)
		call.stop() // the call runs on
		time.Sleep(31 * time.Minute)
		synctest.Wait()
		if n := b.script.closes(); n != 1 {
			t.Errorf("upstream sessions closed: %d, want that of the idle one", n)
		}
		get.stop()
		time.Sleep(31 * time.Minute)
		synctest.Wait()
		if n := b.script.closes(); n != 2 {
			t.Errorf("upstream sessions closed: %d, want 2", n)
		}
	})
}

func TestOptionsAreChecked(t *testing.T) {
	defer func() {
		if s, _ := recover().(string); s != "streamable: KeepAlive is negative\nMaxCalls is negative" {
			t.Errorf("got panic %q", s)
		}
	}()
	streamable.New(&script{}, &streamable.Options{KeepAlive: -1, MaxCalls: -1})
}
