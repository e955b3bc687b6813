package upstream

import (
	"context"
	"fmt"
	"testing"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/exchange/exchangetest"
	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
)

// Whose question it is is decided as it arrives: with two calls in flight it is nobody's, although one of them has ended when it
// is put. On HTTP it comes to the session (linked), on stdio and HTTP+SSE through the call that the connection took it for.
func TestQuestionIsAddressedAsItArrives(t *testing.T) {
	for _, test := range []struct {
		name   string
		linked bool
		to     func(m *member, c *sharedCall) (back exchange.Peer, cl *call)
	}{
		{"on the standing stream", true, func(m *member, _ *sharedCall) (exchange.Peer, *call) { return m, nil }},
		{"taken for a call", false, func(m *member, c *sharedCall) (exchange.Peer, *call) {
			return m, &call{ctx: c.ctx, back: c}
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			asked := 0
			peer := &exchangetest.Peer{Answer: func(context.Context, exchange.Request) (exchange.Response, error) {
				asked++
				return exchange.Response{Result: []byte("{}")}, nil
			}}
			m := &member{p: &pool{linked: test.linked}, calls: make(map[*sharedCall]struct{})}
			one := &sharedCall{m: m, ctx: t.Context(), back: peer, suspendable: true}
			two := &sharedCall{m: m, ctx: t.Context(), back: peer, suspendable: true}
			m.calls[one], m.calls[two] = struct{}{}, struct{}{}
			msg, err := jsonrpc.Scan([]byte(`{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{}}`))
			if err != nil {
				t.Fatal(err)
			}
			back, cl := test.to(m, two)
			q := newQuestion(t.Context(), &msg, back, cl)
			m.remove(one)
			resp, failed := q.put(t.Context().Done())
			if failed != nil || resp.Error == nil || resp.Error.Code != jsonrpc.CodeInvalidParams || asked != 0 {
				t.Errorf("got %+v, %v, asked %d times; want -32602 and nobody asked", resp, failed, asked)
			}
		})
	}
}

// TestAnsweredQuestionsAreForgotten: a call may ask for ever without anything being kept of what was answered.
func TestAnsweredQuestionsAreForgotten(t *testing.T) {
	var open questions
	cl := newCall(t.Context(), exchange.Request{Method: "tools/call"}, &exchangetest.Peer{})
	for id := range 3 {
		m, err := jsonrpc.Scan(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"method":"roots/list"}`, id))
		if err != nil {
			t.Fatal(err)
		}
		q := newQuestion(t.Context(), &m, nil, cl)
		open.add(q)
		if id == 0 {
			continue // it stays open
		}
		open.forget(q)
		q.cancel(nil)
	}
	if len(cl.asked) != 1 || cl.asked[0].id != "0" || open.count != 1 {
		t.Errorf("the call keeps %d questions and the connection %d, want the open one", len(cl.asked), open.count)
	}
	cl.asked[0].cancel(nil)
}
