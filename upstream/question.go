package upstream

import (
	"context"
	"errors"
	"slices"
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

// newQuestion returns the question in m, which ends with ctx: it is put to the peer of the call that it belongs to, and to back
// if there is none. The mutex of the connection guards it all.
func newQuestion(ctx context.Context, m *jsonrpc.Message, back exchange.Peer, cl *call) *question {
	q := &question{id: string(m.ID), method: m.Method, params: m.Params, peer: back}
	q.ctx, q.cancel = context.WithCancelCause(ctx)
	if cl != nil && cl.back != nil {
		if cl.over == nil {
			cl.over = make(chan struct{})
		}
		q.peer, q.call, q.callOver = cl.back, cl, cl.over
		cl.asked = append(cl.asked, q)
	}
	q.peer = addressed(q.peer)
	return q
}

// put asks and returns what came of it. Is the call that the question belongs to cancelled, or its client gone, that is not before
// the server knows of the cancellation: one that hears of it first ends its work at once (translation.md 7.3.6). ended is
// the end of the connection.
func (q *question) put(ended <-chan struct{}) (resp exchange.Response, err error) {
	err = exchange.Fail(exchange.ReasonNoChannel, nil)
	if q.peer != nil {
		resp, err = q.peer.Call(q.ctx, exchange.Request{Method: q.method, Params: q.params})
	}
	if q.call == nil {
		return resp, err
	}
	// The client may have gone before its call was told, so the error counts too.
	if _, gone := errors.AsType[*exchange.CancelError](err); !gone && q.call.ctx.Err() == nil {
		return resp, err
	}
	t := time.NewTimer(cancellationWait)
	defer t.Stop()
	select {
	case <-q.callOver:
	case <-ended:
	case <-t.C:
	}
	return resp, err
}

const cancellationWait = time.Second

// questions are those of a connection that have not been answered. The zero value is none; the mutex of the connection guards
// them.
type questions struct {
	byID  map[string]*question // by the server's raw id
	count int                  // those with an id that another has taken over included
}

func (l *questions) add(q *question) {
	if l.byID == nil {
		l.byID = make(map[string]*question)
	}
	l.byID[q.id] = q
	l.count++
}

// forget takes a question out and reports whether the server has withdrawn it.
func (l *questions) forget(q *question) (withdrawn bool) {
	l.count--
	if l.byID[q.id] == q {
		delete(l.byID, q.id)
	}
	if q.call != nil {
		if i := slices.Index(q.call.asked, q); i >= 0 {
			q.call.asked = slices.Delete(q.call.asked, i, i+1)
		}
	}
	return q.withdrawn
}

// withdraw takes the params of a notifications/cancelled and reports whether they are about a question.
func (l *questions) withdraw(params []byte) bool {
	q := l.byID[string(jsonrpc.Get(params, "requestId"))]
	if q == nil {
		return false
	}
	reason, _ := jsonrpc.String(jsonrpc.Get(params, "reason"))
	q.withdrawn = true
	q.cancel(&exchange.CancelError{Reason: reason})
	return true
}

// tooManyQuestions refuses a question over Options.MaxQuestions.
func tooManyQuestions() *exchange.Error {
	return negotiate.Refused(jsonrpc.CodeInternal, reasonTooManyQuestions, "too many requests to the client wait for an answer")
}

const reasonTooManyQuestions = "too_many_questions"

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
