package streamable_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/streamable"
)

func TestInitializeOpensASession(t *testing.T) {
	inBubble(t, &script{server: legacyServer}, streamable.Options{}, func(t *testing.T, b *bed) {
		r := b.post(initialize("2025-06-18"))
		if r.status != http.StatusOK || len(r.header.Get("Mcp-Session-Id")) < 26 {
			t.Errorf("got status %d, session %q", r.status, r.header.Get("Mcp-Session-Id"))
		}
		want(t, "type", r.header.Get("Content-Type"), "text/event-stream")
		want(t, "body", r.body, message("TAG.1.1", `{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"2"}}}`)+"\n")
		c := b.script.last()
		if c.Transport != exchange.StreamableHTTP || c.Session != r.header.Get("Mcp-Session-Id") || c.Requested != "2025-06-18" || c.Back == nil {
			t.Errorf("opened for %+v", c)
		}
	})
}

func TestSessionCall(t *testing.T) {
	inBubble(t, &script{server: legacyServer}, streamable.Options{}, func(t *testing.T, b *bed) {
		s := b.session("2025-06-18")
		r := b.post(`{"jsonrpc":"2.0","id":"a","method":"tools/list"}`, s)
		want(t, "body", r.body, message("TAG.2.1", `{"jsonrpc":"2.0","id":"a","result":{"method":"tools/list"}}`)+"\n")
		r = b.post(`{"jsonrpc":"2.0","id":"a","method":"tools/list"}`, s, "Accept: application/json")
		want(t, "json body", r.body, `{"jsonrpc":"2.0","id":"a","result":{"method":"tools/list"}}`)
		want(t, "json type", r.header.Get("Content-Type"), "application/json")
	})
}

func TestStandingStream(t *testing.T) {
	inBubble(t, &script{server: legacyServer}, streamable.Options{}, func(t *testing.T, b *bed) {
		s := b.session("2025-06-18")
		l := b.listen(s)
		back := b.script.last().Back
		if err := back.Notify(t.Context(), note("notifications/message", `{"data":1}`)); err != nil {
			t.Fatal(err)
		}
		want(t, "event", l.event(), message("TAG.0.1", `{"jsonrpc":"2.0","method":"notifications/message","params":{"data":1}}`))
	})
}

func TestDeleteEndsASession(t *testing.T) { // R09
	inBubble(t, &script{server: legacyServer}, streamable.Options{}, func(t *testing.T, b *bed) {
		cancelled := make(chan error, 1)
		s := b.session("2025-06-18")
		b.script.call = func(ctx context.Context, req exchange.Request, back exchange.Peer) (exchange.Response, error) {
			resp, err := wait(ctx, req, back)
			cancelled <- err
			return resp, err
		}
		call := b.open(http.MethodPost, `{"jsonrpc":"2.0","id":2,"method":"tools/call"}`, s)
		get := b.listen(s)
		if r := b.send(http.MethodDelete, "", s); r.status != http.StatusNoContent || r.body != "" {
			t.Errorf("delete: got %d %q", r.status, r.body)
		}
		want(t, "call stream", call.event(), "")
		want(t, "GET stream", get.event(), "")
		if err := <-cancelled; !strings.Contains(err.Error(), "cancelled") {
			t.Errorf("call ended by %v", err)
		}
		if n := b.script.closes(); n != 1 {
			t.Errorf("upstream session closed %d times, want 1", n)
		}
		for _, method := range []string{http.MethodPost, http.MethodGet, http.MethodDelete} {
			if r := b.send(method, `{"jsonrpc":"2.0","id":3,"method":"tools/list"}`, s); r.status != http.StatusNotFound {
				t.Errorf("%s after the end: got %d, want 404", method, r.status)
			}
		}
		if r := b.send(http.MethodDelete, ""); r.status != http.StatusBadRequest {
			t.Errorf("delete without id: got %d, want 400", r.status)
		}
	})
}
