package upstream

import (
	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
)

// request deals with a request of the server's: ping is answered here, the rest goes to a client.
func (c *conn) request(m *jsonrpc.Message) {
	if m.Method == "ping" {
		c.answer(jsonrpc.AppendResult(nil, m.ID, nil))
		return
	}
	q, refusal := c.accept(m)
	if refusal != nil {
		c.noise.report("request refused: "+m.Method, nil)
		c.answer(jsonrpc.AppendError(nil, m.ID, refusal))
		return
	}
	if q != nil {
		c.wg.Go(func() { c.ask(q) }) // ends with q.ctx at the latest, and run waits for it
	}
}

// accept enters a question and decides who is asked: with exactly one call in flight its client on
// that call's stream, otherwise the standing stream (translation.md 9).
func (c *conn) accept(m *jsonrpc.Message) (*question, *exchange.Error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.ended != nil:
		return nil, nil
	case c.revision.Modern(): // 2026-07-28 stdio, Receiving Messages: servers must not
		return nil, jsonrpc.Errorf(jsonrpc.CodeMethodNotFound, "Method not found: a client of 2026-07-28 answers no requests")
	case c.questions.count >= c.o.MaxQuestions:
		return nil, tooManyQuestions()
	}
	q := newQuestion(c.ctx, m, c.back, c.only())
	c.questions.add(q)
	return q, nil
}

// ask puts the question and writes the answer.
func (c *conn) ask(q *question) {
	defer q.cancel(nil)
	resp, err := q.put(c.ctx.Done())
	c.mu.Lock()
	withdrawn := c.questions.forget(q)
	c.mu.Unlock()
	if !withdrawn {
		c.answer(appendAnswer([]byte(q.id), q.method, resp, err))
	}
}
