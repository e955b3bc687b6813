package streamable

import (
	"context"
	"net/http/httptest"
	"testing"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
)

type closedServer struct{}

func (closedServer) Open(context.Context, exchange.Client) (exchange.Session, error) {
	return nil, exchange.Fail(exchange.ReasonClosed, nil)
}

// TestBatchLeaves: the stream of a batch may begin just as its client leaves; it is nobody's then, and no question is put there.
func TestBatchLeaves(t *testing.T) {
	f := New(closedServer{}, nil)
	defer f.Close()
	r := httptest.NewRequest("POST", "/mcp", nil)
	c := f.enter(httptest.NewRecorder(), r)
	defer f.leave(c)
	b := &batch{s: f.newSession(r, ""), c: c, in: form{true, true}, wake: make(chan struct{}, 1), pending: 1,
		messages: make([]*jsonrpc.Message, 1), admitted: []bool{true}, answers: make([][]byte, 1)}
	if err := b.say([]byte(`{"jsonrpc":"2.0","method":"x"}`)); err != nil || !b.connected() {
		t.Fatalf("connected %v, err %v", b.connected(), err)
	}
	b.leave()
	if b.connected() {
		t.Error("it counts as connected though its client has gone")
	}
}
