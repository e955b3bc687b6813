package upstream

import (
	"context"
	"errors"
	"time"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
	"github.com/mcp-dualstack/bridge/negotiate"
)

// text deals with the data of an event: on the stream of p, or on the standing one if p is nil.
func (s *streamSession) text(data []byte, p *post) {
	each(data, s.batches(), func(m *jsonrpc.Message) bool {
		s.message(m, p)
		return true
	}, func(m *jsonrpc.Message, err *jsonrpc.Error) { s.unreadable(m, err, p) })
}

// batches reports whether the server may send arrays (translation.md 2).
func (s *streamSession) batches() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.revision == negotiate.None || s.revision.Has(negotiate.Batching)
}

func (s *streamSession) message(m *jsonrpc.Message, p *post) {
	switch m.Kind {
	case jsonrpc.Response:
		s.response(m, p)
	case jsonrpc.Request:
		s.request(m, p)
	case jsonrpc.Notification:
		s.note(m, p)
	}
}

// response ends the call it answers. An error without an id belongs to the exchange it came with.
func (s *streamSession) response(m *jsonrpc.Message, p *post) {
	id, ok := ownID(m.ID)
	switch {
	case ok:
		s.settle(id, outcomeOf(m))
	case m.ID == nil && p != nil:
		s.settle(p.id, outcomeOf(m))
	default:
		s.noise.report("response with an id that was never sent", nil)
	}
}

// unreadable deals with what is no JSON-RPC message: it may be the answer that somebody waits for, or a question.
func (s *streamSession) unreadable(m *jsonrpc.Message, err *jsonrpc.Error, p *post) {
	if m.ID != nil && m.Method != "" {
		s.reply(jsonrpc.AppendError(nil, m.ID, err))
		return
	}
	if id, ok := spoiltID(m.Raw); ok {
		s.settle(id, outcome{err: exchange.Fail(exchange.ReasonInvalid, err)})
		return
	}
	s.noise.report("message skipped: "+err.Message, nil)
}

// note hands a notification of the server's to the one peer it is for (translation.md 6.3, 6.4, 9).
func (s *streamSession) note(m *jsonrpc.Message, p *post) {
	switch m.Method {
	case "notifications/cancelled":
		s.withdraw(m.Params)
		return
	case "notifications/progress":
		s.progress(m)
		return
	}
	peer := s.back
	if p != nil && p.back != nil && !ofSession(m.Method) {
		if p.ctx.Err() != nil {
			return // what was cancelled is heard of no more
		}
		peer = p.back
	}
	if peer == nil {
		s.noise.report("notification dropped, nobody certain to give it to: "+m.Method, nil)
		return
	}
	// An error says that it will not arrive, which the front reports.
	_ = peer.Notify(s.ctx, exchange.Request{Method: m.Method, Params: m.Params})
}

// ofSession reports whether a notification is about the session, whatever stream it comes on.
func ofSession(method string) bool {
	switch method {
	case "notifications/tools/list_changed", "notifications/prompts/list_changed", "notifications/resources/list_changed",
		"notifications/resources/updated", "notifications/elicitation/complete", "notifications/tasks/status":
		return true
	}
	return false
}

// progress restores the client's own token. Progress of a call that has ended is dropped.
func (s *streamSession) progress(m *jsonrpc.Message) {
	id, ok := tokenID(jsonrpc.Get(m.Params, negotiate.MetaProgressToken))
	if !ok {
		return
	}
	s.mu.Lock()
	p := s.calls[id]
	s.mu.Unlock()
	if p == nil || p.token == nil || p.back == nil || p.ctx.Err() != nil {
		return
	}
	params := jsonrpc.Set(m.Params, p.token, negotiate.MetaProgressToken)
	_ = p.back.Notify(s.ctx, exchange.Request{Method: m.Method, Params: params}) // as in note
}

// withdraw takes the server's cancellation of a question.
func (s *streamSession) withdraw(params []byte) {
	reason, _ := jsonrpc.String(jsonrpc.Get(params, "reason"))
	s.mu.Lock()
	defer s.mu.Unlock()
	if q := s.questions[string(jsonrpc.Get(params, "requestId"))]; q != nil {
		q.withdrawn = true
		q.cancel(&exchange.CancelError{Reason: reason})
	}
}

// request deals with a request of the server's: ping is answered here, the rest goes to the client.
func (s *streamSession) request(m *jsonrpc.Message, p *post) {
	if m.Method == "ping" {
		s.reply(jsonrpc.AppendResult(nil, m.ID, nil))
		return
	}
	if !s.admit(m, p) {
		refusal := negotiate.Refused(jsonrpc.CodeInternal, reasonTooManyQuestions, "too many requests to the client wait for an answer")
		s.reply(jsonrpc.AppendError(nil, m.ID, refusal))
	}
}

// admit enters a question and puts it, unless too many wait already.
func (s *streamSession) admit(m *jsonrpc.Message, p *post) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended != nil {
		return true
	}
	if s.asked >= s.o.MaxQuestions {
		return false
	}
	q := &question{id: string(m.ID), method: m.Method, params: m.Params, peer: s.back}
	q.ctx, q.cancel = context.WithCancelCause(s.ctx)
	if p == nil {
		p = s.only()
	}
	if p != nil && p.back != nil {
		q.peer, q.call, q.callOver = p.back, p.call, p.over
		if s.calls[p.id] == p {
			p.asked = append(p.asked, q)
		} else {
			q.cancel(errCallOver)
		}
	}
	q.peer = addressed(q.peer)
	s.questions[q.id] = q
	s.asked++
	s.wg.Go(func() { s.ask(q) }) // ends with q.ctx at the latest
	return true
}

// only returns the call in flight if there is exactly one: what comes on the standing stream is then taken for its.
// The caller holds mu.
func (s *streamSession) only() *post {
	var found *post
	for _, p := range s.calls {
		if p.internal {
			continue
		}
		if found != nil {
			return nil
		}
		found = p
	}
	return found
}

// ask puts the question and posts the answer.
func (s *streamSession) ask(q *question) {
	defer q.cancel(nil)
	var resp exchange.Response
	err := error(exchange.Fail(exchange.ReasonNoChannel, nil))
	if q.peer != nil {
		resp, err = q.peer.Call(q.ctx, exchange.Request{Method: q.method, Params: q.params})
	}
	s.afterCancellation(q, err)
	s.mu.Lock()
	s.asked--
	if s.questions[q.id] == q {
		delete(s.questions, q.id)
	}
	withdrawn := q.withdrawn
	s.mu.Unlock()
	if !withdrawn {
		s.answer(appendAnswer([]byte(q.id), q.method, resp, err))
	}
}

// afterCancellation waits until the cancellation of the question's call has been sent, if that is why there is no
// better answer (translation.md 7.3.6).
func (s *streamSession) afterCancellation(q *question, err error) {
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
	case <-s.ctx.Done():
	case <-t.C:
	}
}

// reply answers a request of the server's while others are read. Of too many at once, some get no answer.
func (s *streamSession) reply(msg []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended != nil || s.replies >= s.o.MaxQuestions {
		return
	}
	s.replies++
	s.wg.Go(func() { // bounded by ResponseTimeout
		s.answer(msg)
		s.mu.Lock()
		s.replies--
		s.mu.Unlock()
	})
}

func (s *streamSession) answer(msg []byte) {
	if err := s.say(s.ctx, msg); err != nil && s.ctx.Err() == nil {
		s.log.Warn("upstream did not take an answer", "err", err)
	}
}
