package session_test

import (
	"context"
	"testing"

	"github.com/mcp-dualstack/bridge/exchange"
)

// waiter is a Reply that tells when the answer is there.
type waiter chan []byte

func (w waiter) Notify(string, []byte) error       { return nil }
func (w waiter) Ask(context.Context, []byte) error { return nil }
func (w waiter) Finish(msg []byte)                 { w <- msg }

// One call from Handle to its answer, with a server that costs nothing.
func BenchmarkHandle(b *testing.B) {
	result := exchange.Response{Result: []byte(`{"content":[]}`)}
	h := &script{call: func(_ context.Context, req exchange.Request, _ exchange.Peer) (exchange.Response, error) {
		req.Sent()
		return result, nil
	}}
	s, _ := begun(b, h, nil)
	m := message(b, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x"}}`)
	reply := make(waiter, 1)
	b.ReportAllocs()
	for b.Loop() {
		s.Handle(m, reply)
		<-reply
	}
}

// What one call may allocate between Handle and its answer.
func TestAllocationsOfHandle(t *testing.T) {
	result := exchange.Response{Result: []byte(`{"content":[]}`)}
	h := &script{call: func(_ context.Context, req exchange.Request, _ exchange.Peer) (exchange.Response, error) {
		req.Sent()
		return result, nil
	}}
	s, _ := begun(t, h, nil)
	m := message(t, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x"}}`)
	reply := make(waiter, 1)
	got := testing.AllocsPerRun(500, func() {
		s.Handle(m, reply)
		<-reply
	})
	if got > 16 {
		t.Errorf("got %v allocations, want at most 16", got)
	}
}
