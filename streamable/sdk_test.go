package streamable_test

import (
	"context"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/negotiate"
	"github.com/mcp-dualstack/bridge/streamable"
)

// The go-sdk client polls for the result of a long call, more often than the five times that it comes back to a
// stream that does not go on, and its standing stream outlives as many planned ends.
func TestGoSDKClientPolls(t *testing.T) {
	h := &script{server: exchange.Server{
		Revision: negotiate.Rev20251125, Served: negotiate.Legacy,
		Initialize: []byte(`{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"2"}}`),
	}}
	h.call = func(ctx context.Context, req exchange.Request, _ exchange.Peer) (exchange.Response, error) {
		select {
		case <-time.After(100 * time.Second):
			return result(`{"content":[{"type":"text","text":"late"}]}`), nil
		case <-ctx.Done():
			return exchange.Response{}, context.Cause(ctx)
		}
	}
	inBubble(t, h, streamable.Options{PollAfter: 10 * time.Second, MaxStreamAge: 5 * time.Second}, func(t *testing.T, b *bed) {
		client := mcp.NewClient(&mcp.Implementation{Name: "c", Version: "1"}, nil)
		s, err := client.Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: b.http.URL + "/mcp", HTTPClient: b.client}, &mcp.ClientSessionOptions{ProtocolVersion: "2025-11-25"})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		begun := time.Now()
		r, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: "slow"})
		if err != nil {
			t.Fatal(err)
		}
		if text, _ := r.Content[0].(*mcp.TextContent); text == nil || text.Text != "late" {
			t.Errorf("got %+v", r.Content)
		}
		if took := time.Since(begun); took < 100*time.Second || took > 102*time.Second {
			t.Errorf("took %v, want 100 s", took)
		}
	})
}
