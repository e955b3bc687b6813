package session

import (
	"context"
	"slices"
	"strings"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
	"github.com/mcp-dualstack/bridge/negotiate"
)

// Reasons of refusals made here, for data.bridge.reason.
const (
	reasonInitialized    = "already_initialized"
	reasonNotInitialized = "not_initialized"
	reasonNoMethod       = "unknown_method"
)

// A call is a client's request in flight.
type call struct {
	id     string
	method string
	reply  Reply
	cancel context.CancelCauseFunc
}

func (s *Session) request(m *jsonrpc.Message, reply Reply) {
	switch m.Method {
	case "ping": // proves this hop only; never crosses (translation.md 6.1)
		reply.Finish(jsonrpc.AppendResult(nil, m.ID, nil))
		return
	case "initialize":
		if !s.spawn(func() {
			response, _ := s.Initialize(s.ctx, m)
			reply.Finish(response)
		}) {
			reply.Finish(nil)
		}
		return
	case "server/discover", "subscriptions/listen": // not methods of the handshake era (6.1, 6.4)
		reply.Finish(jsonrpc.AppendError(nil, m.ID, negotiate.Refused(jsonrpc.CodeMethodNotFound, reasonNoMethod,
			"%s is not a method of the revision negotiated in this session", m.Method)))
		return
	}
	c, ctx, e := s.admit(m, reply)
	if e != nil {
		reply.Finish(jsonrpc.AppendError(nil, m.ID, e))
		return
	}
	wait, done := s.ticket()
	if !s.spawn(func() {
		defer done()
		s.run(ctx, c, m, wait, done)
	}) {
		done()
		reply.Finish(nil)
	}
}

// admit enters a request among those in flight or says why not.
func (s *Session) admit(m *jsonrpc.Message, reply Reply) (*call, context.Context, *exchange.Error) {
	if s.o.Refuse != nil {
		if e := s.o.Refuse(m.Method); e != nil {
			return nil, nil, e
		}
	}
	id := string(m.ID)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.phase == closed:
		return nil, nil, exchange.PublicError(exchange.Fail(exchange.ReasonClosed, nil))
	case s.phase == fresh || s.phase == failed:
		return nil, nil, negotiate.Refused(jsonrpc.CodeInvalidRequest, reasonNotInitialized,
			"%s before initialize: send initialize first", m.Method)
	case len(s.inFlight) >= s.o.MaxCalls:
		return nil, nil, exchange.PublicError(exchange.Fail(exchange.ReasonTooManyCalls, nil))
	}
	if s.calls == nil {
		s.calls = make(map[string][]*call)
	}
	if len(s.calls[id]) > 0 {
		s.observe(exchange.Observation{Kind: exchange.SeenDuplicateID})
	}
	ctx, cancel := context.WithCancelCause(s.ctx)
	c := &call{id: id, method: m.Method, reply: reply, cancel: cancel}
	s.calls[id] = append(s.calls[id], c)
	s.inFlight = append(s.inFlight, c)
	return c, ctx, nil
}

func (s *Session) run(ctx context.Context, c *call, m *jsonrpc.Message, wait <-chan struct{}, sent func()) {
	defer c.cancel(nil)
	var resp exchange.Response
	var err error
	select {
	case <-wait:
		resp, err = s.forward(ctx, m, c.reply, sent)
	case <-ctx.Done():
	}
	s.leave(c)
	if ctx.Err() != nil && (err != nil || resp.Result == nil && resp.Error == nil) {
		err = context.Cause(ctx)
	}
	switch {
	case cancelled(err):
		c.reply.Finish(nil)
	case err != nil:
		s.o.Logger.Warn("call without an answer", "session", s.o.Client.Session, "method", c.method, "err", err)
		c.reply.Finish(jsonrpc.AppendError(nil, m.ID, exchange.PublicError(err)))
	case resp.Error != nil:
		c.reply.Finish(jsonrpc.AppendError(nil, m.ID, resp.Error))
	default:
		c.reply.Finish(jsonrpc.AppendResult(nil, m.ID, resp.Result))
	}
}

func (s *Session) forward(ctx context.Context, m *jsonrpc.Message, out Outlet, sent func()) (exchange.Response, error) {
	s.mu.Lock()
	up := s.up
	s.mu.Unlock()
	if up == nil {
		return exchange.Response{}, exchange.Fail(exchange.ReasonUnavailable, nil)
	}
	req := exchange.Request{Method: m.Method, Params: negotiate.StripReserved(m, negotiate.MetaRelatedTask), Sent: sent}
	return up.Call(ctx, req, &peer{s: s, out: out})
}

// leave removes a call from those in flight.
func (s *Session) leave(c *call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	same := slices.DeleteFunc(s.calls[c.id], func(o *call) bool { return o == c })
	if len(same) == 0 {
		delete(s.calls, c.id)
	} else {
		s.calls[c.id] = same
	}
	s.inFlight = slices.DeleteFunc(s.inFlight, func(o *call) bool { return o == c })
}

func (s *Session) notification(m *jsonrpc.Message) {
	if m.Method == "notifications/cancelled" {
		s.cancelCall(m.Params)
		return
	}
	wait, done := s.ticket()
	s.spawn(func() {
		defer done()
		select {
		case <-wait:
		case <-s.ctx.Done():
			return
		}
		s.mu.Lock()
		up := s.up
		s.mu.Unlock()
		if up == nil { // nothing upstream is touched before the handshake
			return
		}
		note := exchange.Request{Method: m.Method, Params: negotiate.StripReserved(m, negotiate.MetaRelatedTask)}
		if err := up.Notify(s.ctx, note); err != nil && s.ctx.Err() == nil {
			s.o.Logger.Warn("notification not handed over", "session", s.o.Client.Session, "method", m.Method, "err", err)
		}
	})
}

// cancelCall cancels the newest call of the id (translation.md 2). It overtakes everything queued: the
// call may be what the queue waits for.
func (s *Session) cancelCall(params []byte) {
	id := string(jsonrpc.Get(params, "requestId"))
	reason, _ := jsonrpc.String(jsonrpc.Get(params, "reason"))
	s.mu.Lock()
	var c *call
	if same := s.calls[id]; len(same) > 0 {
		c = same[len(same)-1]
	}
	s.mu.Unlock()
	if c != nil {
		c.cancel(&exchange.CancelError{Reason: reason})
	}
}

// Suspendable returns the outlet of the oldest call in flight during which a server may ask, or nil
// (translation.md 9: where a question goes that has no link and no standing stream).
func (s *Session) Suspendable() Outlet {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.inFlight {
		switch c.method {
		case "tools/call", "prompts/get", "resources/read":
			return c.reply
		}
	}
	return nil
}

// Describe names the session for a log: client transport and shortened id.
func (s *Session) Describe() string {
	id := s.o.Client.Session
	if len(id) > 8 {
		id = id[:8]
	}
	return strings.TrimSpace(s.o.Client.Transport + " " + id)
}
