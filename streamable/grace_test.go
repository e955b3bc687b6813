package streamable_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/streamable"
)

// The head of an answer waits for the answer for a moment and no longer: keep-alives and resumption need it.
func TestGrace(t *testing.T) {
	const grace = 10 * time.Millisecond
	tests := []struct {
		name string
		o    streamable.Options
		call time.Duration // until the answer
		note bool          // a notification comes at once
		head time.Duration // when the head is there
	}{
		{"none", streamable.Options{}, 5 * time.Millisecond, false, 0},
		{"a quick answer", streamable.Options{Grace: grace}, 5 * time.Millisecond, false, 5 * time.Millisecond},
		{"a slow answer", streamable.Options{Grace: grace}, time.Second, false, grace},
		{"a notification first", streamable.Options{Grace: grace}, time.Second, true, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := &script{call: func(ctx context.Context, req exchange.Request, back exchange.Peer) (exchange.Response, error) {
				if tt.note {
					_ = back.Notify(ctx, exchange.Request{Method: "notifications/message", Params: []byte(`{"level":"info","data":1}`)})
				}
				time.Sleep(tt.call)
				return result(`{"content":[]}`), nil
			}}
			inBubble(t, s, tt.o, func(t *testing.T, b *bed) {
				session := b.session("2025-11-25")
				start := time.Now()
				resp := b.do(t.Context(), "POST", `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"x"}}`, session)
				if got := time.Since(start); got != tt.head {
					t.Errorf("the head came after %v, want %v", got, tt.head)
				}
				body := read(t, resp).body
				if got := time.Since(start); got != tt.call {
					t.Errorf("the answer came after %v, want %v", got, tt.call)
				}
				if !strings.HasPrefix(body, "id: ") || !tt.note && !strings.HasSuffix(plain(body), message("TAG.2.1", `{"jsonrpc":"2.0","id":7,"result":{"content":[]}}`)+"\n") {
					t.Errorf("got %s, want a priming event and the answer", body)
				}
			})
		})
	}
}
