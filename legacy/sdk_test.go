package legacy_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/legacy"
)

// The go-sdk client asks for server/discover first and falls back (clients.md 5); then everything works, questions
// to the client included.
func TestGoSDKClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen log
		h := &script{call: func(ctx context.Context, req exchange.Request, back exchange.Peer) (exchange.Response, error) {
			req.Sent()
			switch req.Method {
			case "tools/list":
				return exchange.Response{Result: []byte(`{"tools":[{"name":"ask","inputSchema":{"type":"object"}}]}`)}, nil
			case "tools/call":
				r, err := back.Call(ctx, exchange.Request{Method: "elicitation/create", Params: []byte(`{"message":"sure?","requestedSchema":{"type":"object","properties":{}}}`)})
				if err != nil || r.Error != nil {
					return exchange.Response{}, err
				}
				text := strings.ReplaceAll(string(r.Result), `"`, `'`)
				return exchange.Response{Result: []byte(`{"content":[{"type":"text","text":"` + text + `"}]}`)}, nil
			}
			return exchange.Response{Result: []byte(`{}`)}, nil
		}}
		_, s := serve(t, h, &legacy.Options{Observe: seen.observe})
		c := mcp.NewClient(&mcp.Implementation{Name: "sdk", Version: "1"}, &mcp.ClientOptions{
			ElicitationHandler: func(_ context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
				return &mcp.ElicitResult{Action: "decline"}, nil
			},
		})
		session, err := c.Connect(t.Context(), &mcp.SSEClientTransport{Endpoint: s.URL + "/sse", HTTPClient: s.Client()}, nil)
		if err != nil {
			t.Fatal(err)
		}
		tools, err := session.ListTools(t.Context(), nil)
		if err != nil || len(tools.Tools) != 1 {
			t.Fatalf("got %+v, %v, want one tool", tools, err)
		}
		result, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "ask"})
		if err != nil {
			t.Fatal(err)
		}
		if text := result.Content[0].(*mcp.TextContent).Text; !strings.Contains(text, "decline") {
			t.Errorf("got %s, want the client's answer", text)
		}
		if got := h.clients(); len(got) != 1 || got[0].Requested != "2025-11-25" {
			t.Errorf("opened for %+v, want once for 2025-11-25", got)
		}
		if got := seen.kind(exchange.SeenDiscover); len(got) != 1 || got[0].Version != "2026-07-28" {
			t.Errorf("observed %+v, want one discover", got)
		}
		if err := session.Close(); err != nil {
			t.Error(err)
		}
	})
}
