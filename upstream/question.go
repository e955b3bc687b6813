package upstream

import (
	"context"
	"errors"
	"time"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
	"github.com/mcp-dualstack/bridge/negotiate"
)

// A question is a request of the server's that waits for a client.
type question struct {
	id        string // the server's raw id
	method    string
	params    []byte
	peer      exchange.Peer   // nil: nobody can be asked
	ctx       context.Context // of this running exchange
	cancel    context.CancelCauseFunc
	call      *call         // that it belongs to; nil if none
	callOver  chan struct{} // call.over
	withdrawn bool          // the server needs no answer any more; guarded by mu of the connection
}

// An attributor is a peer that knows better who is asked, from what is in flight at that moment.
type attributor interface{ attribute() exchange.Peer }

// addressed returns who is asked by a question to p. It is called as the question arrives, in the order in which the server
// speaks: later the call that it belongs to may have ended, and another be the only one.
func addressed(p exchange.Peer) exchange.Peer {
	if a, ok := p.(attributor); ok {
		return a.attribute()
	}
	return p
}

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
	case c.asked >= c.o.MaxQuestions:
		return nil, negotiate.Refused(jsonrpc.CodeInternal, reasonTooManyQuestions, "too many requests to the client wait for an answer")
	}
	q := &question{id: string(m.ID), method: m.Method, params: m.Params, peer: c.back}
	q.ctx, q.cancel = context.WithCancelCause(c.ctx)
	if cl := c.only(); cl != nil && cl.back != nil {
		if cl.over == nil {
			cl.over = make(chan struct{})
		}
		q.peer, q.call, q.callOver = cl.back, cl, cl.over
		cl.asked = append(cl.asked, q)
	}
	q.peer = addressed(q.peer)
	if c.questions == nil {
		c.questions = make(map[string]*question)
	}
	c.questions[q.id] = q
	c.asked++
	return q, nil
}

const reasonTooManyQuestions = "too_many_questions"

// ask puts the question and writes the answer.
func (c *conn) ask(q *question) {
	defer q.cancel(nil)
	var resp exchange.Response
	err := error(exchange.Fail(exchange.ReasonNoChannel, nil))
	if q.peer != nil {
		resp, err = q.peer.Call(q.ctx, exchange.Request{Method: q.method, Params: q.params})
	}
	c.afterCancellation(q, err)
	if c.forget(q) {
		return
	}
	c.answer(appendAnswer([]byte(q.id), q.method, resp, err))
}

// afterCancellation waits until the cancellation of the question's call has been handed over, if that
// is why there is no better answer: a server that hears of it first ends its work at once
// (translation.md 7.3.6). The client may have gone before its call was told, hence the second case.
func (c *conn) afterCancellation(q *question, err error) {
	if q.call == nil {
		return
	}
	_, gone := errors.AsType[*exchange.CancelError](err)
	if q.call.ctx.Err() == nil && !gone {
		return
	}
	t := time.NewTimer(cancellationWait)
	defer t.Stop()
	select {
	case <-q.callOver:
	case <-c.ctx.Done():
	case <-t.C:
	}
}

const cancellationWait = time.Second

// forget takes the question out and reports whether the server has withdrawn it.
func (c *conn) forget(q *question) (withdrawn bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked--
	if c.questions[q.id] == q {
		delete(c.questions, q.id)
	}
	return q.withdrawn
}

// appendAnswer returns the response to a question. Nobody's answer is a cancelled elicitation; the other
// requests know only errors for it (translation.md 7.3.6, 9).
func appendAnswer(id []byte, method string, resp exchange.Response, err error) []byte {
	if err == nil {
		if resp.Error != nil {
			return jsonrpc.AppendError(nil, id, resp.Error)
		}
		return jsonrpc.AppendResult(nil, id, resp.Result)
	}
	if e, ok := errors.AsType[*exchange.Error](err); ok {
		return jsonrpc.AppendError(nil, id, e)
	}
	if f, ok := errors.AsType[*exchange.Failure](err); ok && (f.Reason == exchange.ReasonClientTimeout || f.Reason == exchange.ReasonNoChannel) {
		return jsonrpc.AppendError(nil, id, exchange.PublicError(f))
	}
	if method == "elicitation/create" {
		return jsonrpc.AppendResult(nil, id, []byte(`{"action":"cancel"}`))
	}
	return jsonrpc.AppendError(nil, id, jsonrpc.Errorf(jsonrpc.CodeInternal, "client did not answer"))
}
