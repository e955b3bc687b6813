package streamable_test

import (
	"context"
	"net/http"
	"testing"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/negotiate"
	"github.com/mcp-dualstack/bridge/streamable"
)

var modernServer = exchange.Server{Revision: negotiate.Rev20260728, Served: negotiate.Modern}

func TestStatelessCall(t *testing.T) {
	inBubble(t, &script{server: modernServer}, streamable.Options{}, func(t *testing.T, b *bed) {
		var got exchange.Request
		b.script.call = func(_ context.Context, req exchange.Request, _ exchange.Peer) (exchange.Response, error) {
			got = req
			return result(`{"resultType":"complete"}`), nil
		}
		r := b.postModern(`"x"`, "tools/call", `"name":"echo"`, "Mcp-Param-Region: eu", "Mcp-Session-Id: whatever")
		if r.status != http.StatusOK || r.header.Get("Mcp-Session-Id") != "" {
			t.Errorf("got status %d, session %q", r.status, r.header.Get("Mcp-Session-Id"))
		}
		want(t, "body", r.body, `{"jsonrpc":"2.0","id":"x","result":{"resultType":"complete"}}`)
		want(t, "type", r.header.Get("Content-Type"), "application/json")
		want(t, "header", got.Header.Get("Mcp-Param-Region"), "eu")
		if len(got.Header) != 1 {
			t.Errorf("header fields passed on: %v", got.Header)
		}
		if c := b.script.last(); c.Back != nil || c.Session != "" || c.Revision != negotiate.Rev20260728 {
			t.Errorf("opened for %+v", c)
		}
		if n := b.script.closes(); n != 1 {
			t.Errorf("closed %d times, want 1", n)
		}
	})
}
