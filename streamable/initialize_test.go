package streamable_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/negotiate"
	"github.com/mcp-dualstack/bridge/streamable"
)

// R20.
func TestInitializeNamingAnyVersion(t *testing.T) {
	for _, c := range []struct{ requested, answered string }{
		{"2024-11-05", "2024-11-05"},
		{"2025-03-26", "2025-03-26"},
		{"2025-11-25", "2025-11-25"},
		{"2026-07-28", "2025-11-25"},
		{"1900-01-01", "2025-11-25"},
		{"zzz", "2025-11-25"},
	} {
		t.Run(c.requested, func(t *testing.T) {
			b := newBed(t, &script{server: legacyServer}, streamable.Options{})
			r := b.post(initialize(c.requested), "Accept: application/json")
			if !strings.Contains(r.body, `"protocolVersion":"`+c.answered+`"`) {
				t.Errorf("got %s, want %s", r.body, c.answered)
			}
			if got := b.script.last(); got.Revision.String() != c.answered || got.Requested != c.requested {
				t.Errorf("opened for %s, requested %s", got.Revision, got.Requested)
			}
		})
	}
}

func TestInitializeWithoutVersion(t *testing.T) { // R20
	b := newBed(t, &script{}, streamable.Options{})
	r := b.post(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"capabilities":{}}}`)
	if r.status != 200 || !strings.Contains(r.body, `"code":-32602`) || r.header.Get("Mcp-Session-Id") != "" {
		t.Errorf("got %d, session %q: %s", r.status, r.header.Get("Mcp-Session-Id"), r.body)
	}
	if r := b.post(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}`); r.header.Get("Mcp-Session-Id") == "" {
		t.Errorf("empty params: got %d %s", r.status, r.body)
	}
}

// R42.
func TestVersionHeader(t *testing.T) {
	b := newBed(t, &script{}, streamable.Options{})
	for _, v := range []string{"2099-01-01", "2025-11-25", "", "garbage"} {
		if r := b.post(initialize("2025-06-18"), "MCP-Protocol-Version: "+v); r.status != 200 || r.header.Get("Mcp-Session-Id") == "" {
			t.Errorf("initialize with %q: got %d", v, r.status)
		}
	}
	s := b.session("2025-06-18")
	for _, c := range []struct {
		version  string
		status   int
		mismatch int
	}{{"", 200, 0}, {"2025-06-18", 200, 0}, {"2025-11-25", 200, 1}, {"garbage", 400, 1}, {"2026-07-28", 400, 1}, {"1999-01-01", 400, 1}} {
		r := b.post(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, s, "MCP-Protocol-Version: "+c.version)
		if r.status != c.status || b.observed(exchange.SeenMismatch, "") != c.mismatch {
			t.Errorf("%q: got %d with %d mismatches, want %d with %d", c.version, r.status, b.observed(exchange.SeenMismatch, ""), c.status, c.mismatch)
		}
	}
}

func TestInitializeOfALiveAndADeadSession(t *testing.T) {
	b := newBed(t, &script{}, streamable.Options{})
	s := b.session("2025-06-18")
	r := b.post(initialize("2025-06-18"), s)
	if r.status != 400 || !strings.Contains(r.body, `"code":-32600`) || r.header.Get("Mcp-Session-Id") != "" {
		t.Errorf("live: got %d, session %q: %s", r.status, r.header.Get("Mcp-Session-Id"), r.body)
	}
	if r := b.post(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, s); r.status != 200 {
		t.Errorf("the live session afterwards: got %d, want 200", r.status)
	}
	r = b.post(initialize("2025-06-18"), "Mcp-Session-Id: dead")
	if id := r.header.Get("Mcp-Session-Id"); r.status != 200 || id == "" || id == "dead" {
		t.Errorf("dead: got %d, session %q", r.status, id)
	}
}

func TestInitializeRefusedUpstream(t *testing.T) {
	for _, c := range []struct {
		name string
		err  error
		want string
	}{
		{"failure", exchange.Fail(exchange.ReasonEra, nil), `{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"the server behind the bridge does not speak this revision of MCP","data":{"bridge":{"reason":"era_unsupported"}}}}`},
		{"server's own error", &exchange.Error{Raw: []byte(`{"code":7,"message":"no","x":[1]}`)}, `{"jsonrpc":"2.0","id":1,"error":{"code":7,"message":"no","x":[1]}}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBed(t, &script{open: func(context.Context, exchange.Client) error { return c.err }}, streamable.Options{MaxSessions: 1})
			for range 2 { // a refused session takes no place
				r := b.post(initialize("2025-06-18"))
				if r.status != 200 || r.header.Get("Mcp-Session-Id") != "" {
					t.Errorf("got %d, session %q", r.status, r.header.Get("Mcp-Session-Id"))
				}
				want(t, "body", r.body, c.want)
			}
			r := b.post(initialize("2025-06-18"), "Accept: text/event-stream")
			want(t, "as a stream", r.body, message("", c.want)+"\n")
		})
	}
}

// No room for a further session behind the bridge: the status says so too, and when to come again.
func TestInitializeBusyUpstream(t *testing.T) {
	b := newBed(t, &script{open: func(context.Context, exchange.Client) error {
		return &exchange.Failure{Reason: exchange.ReasonBusy, RetryAfter: 5 * time.Second}
	}}, streamable.Options{})
	r := b.post(initialize("2025-11-25"))
	if r.status != http.StatusServiceUnavailable || r.header.Get("Retry-After") != "5" || r.header.Get("Mcp-Session-Id") != "" ||
		!strings.Contains(r.body, `"reason":"upstream_busy"`) {
		t.Errorf("got %d, Retry-After %q: %s", r.status, r.header.Get("Retry-After"), r.body)
	}
}

func TestInitializeChallengedUpstream(t *testing.T) {
	s := &script{open: func(context.Context, exchange.Client) error {
		return &exchange.Failure{Reason: "upstream_auth", Status: 401, Challenge: `Bearer realm="x"`}
	}}
	r := newBed(t, s, streamable.Options{}).post(initialize("2025-06-18"))
	if r.status != 401 || r.header.Get("Www-Authenticate") != `Bearer realm="x"` || !strings.Contains(r.body, "upstream_auth") {
		t.Errorf("got %d, challenge %q: %s", r.status, r.header.Get("Www-Authenticate"), r.body)
	}
}

func TestTooManySessions(t *testing.T) {
	b := newBed(t, &script{}, streamable.Options{MaxSessions: 2})
	s := b.session("2025-06-18")
	b.session("2025-06-18")
	r := b.post(initialize("2025-06-18"))
	if r.status != 503 || r.header.Get("Retry-After") == "" || r.header.Get("Mcp-Session-Id") != "" {
		t.Errorf("got %d, Retry-After %q", r.status, r.header.Get("Retry-After"))
	}
	if r := b.post(`{"jsonrpc":"2.0","id":1,"method":"ping"}`, "Mcp-Session-Id: nope"); r.status != 404 {
		t.Errorf("unknown session: got %d, want 404", r.status)
	}
	b.send(http.MethodDelete, "", s)
	b.session("2025-06-18")
}

// R23, first half: no header but the session's is asked of a session-era client.
func TestSessionWithoutAnyMCPHeader(t *testing.T) {
	b := newBed(t, &script{}, streamable.Options{})
	s := b.session("2025-11-25")
	if r := b.post(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"x"}}`, s, "MCP-Protocol-Version: 2025-11-25"); r.status != 200 {
		t.Errorf("got %d %s", r.status, r.body)
	}
	// mcp-remote sends Mcp-Method in sessions too (clients.md 10).
	if r := b.post(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"x"}}`, s, "Mcp-Method: tools/call"); r.status != 200 {
		t.Errorf("with Mcp-Method: got %d %s", r.status, r.body)
	}
}

// R07.
func TestRequestOvertakesInitialized(t *testing.T) {
	inBubble(t, &script{}, streamable.Options{}, func(t *testing.T, b *bed) {
		s := b.session("2025-06-18")
		for i := range 200 {
			var wg sync.WaitGroup
			wg.Go(func() {
				if r := b.post(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/list"}`, i), s); !strings.Contains(r.body, fmt.Sprintf(`"id":%d,"result"`, i)) {
					t.Errorf("got %d %s", r.status, r.body)
				}
			})
			wg.Go(func() {
				if r := b.post(`{"jsonrpc":"2.0","method":"notifications/initialized"}`, s); r.status != 202 {
					t.Errorf("notification: got %d", r.status)
				}
			})
			wg.Wait()
		}
		synctest.Wait()
		if n := len(b.script.noted()); n != 200 {
			t.Errorf("notifications handed over: %d, want 200", n)
		}
	})
}

func TestClientLeavesDuringInitialize(t *testing.T) {
	inBubble(t, &script{}, streamable.Options{MaxSessions: 1}, func(t *testing.T, b *bed) {
		b.script.open = func(ctx context.Context, _ exchange.Client) error {
			<-ctx.Done()
			return ctx.Err()
		}
		ctx, leave := context.WithCancel(t.Context())
		go func() {
			synctest.Wait()
			leave()
		}()
		req, _ := http.NewRequestWithContext(ctx, http.MethodPost, b.http.URL, strings.NewReader(initialize("2025-06-18")))
		req.Header.Set("Content-Type", "application/json")
		if _, err := b.client.Do(req); err == nil {
			t.Fatal("got an answer")
		}
		synctest.Wait()
		b.script.open = nil
		b.session("2025-06-18") // the place is free again
	})
}

// The server's side ends by itself: the session is gone, its streams end.
func TestUpstreamEndsTheSession(t *testing.T) {
	inBubble(t, &script{done: make(chan struct{})}, streamable.Options{}, func(t *testing.T, b *bed) {
		b.script.call = wait
		s := b.session("2025-06-18")
		get := b.listen(s)
		call := b.open(http.MethodPost, `{"jsonrpc":"2.0","id":2,"method":"tools/call"}`, s)
		close(b.script.done)
		if got := call.event(); !strings.Contains(got, `"reason":"upstream_lost"`) {
			t.Errorf("call: got %q", got)
		}
		want(t, "call stream afterwards", call.event(), "")
		want(t, "GET stream", get.event(), "")
		if r := b.post(`{"jsonrpc":"2.0","id":1,"method":"ping"}`, s); r.status != 404 {
			t.Errorf("got %d, want 404", r.status)
		}
	})
}

func TestRevisionsNotEnabled(t *testing.T) {
	b := newBed(t, &script{}, streamable.Options{Enabled: negotiate.SetOf(negotiate.Rev20250618)})
	r := b.post(initialize("2025-11-25"), "Accept: application/json")
	if !strings.Contains(r.body, `"protocolVersion":"2025-06-18"`) {
		t.Errorf("got %s", r.body)
	}
}
