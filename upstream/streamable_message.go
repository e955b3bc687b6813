package upstream

import (
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
	case ok && p != nil && p.id == id:
		s.settle(id, outcomeOf(m))
	case ok:
		s.settleElsewhere(id, outcomeOf(m))
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
		s.mu.Lock()
		s.questions.withdraw(m.Params)
		s.mu.Unlock()
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
