package session

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
	"github.com/mcp-dualstack/bridge/negotiate"
)

// reasonNotInitialized is for data.bridge.reason.
const reasonNotInitialized = "not_initialized"

// A call is a client's request in flight.
type call struct {
	id     string // callKey of it
	method string
	reply  Reply
	ctx    context.Context // of the running call; ends with the session at the latest
	cancel context.CancelCauseFunc
	wait   <-chan struct{} // closed when it may be handed over
	sent   func()          // says that it has been

	// Guarded by the session's mu.

	cancelled bool     // by the client
	left      bool     // it is no longer in flight
	asked     []string // ids of the questions put to the client because of this call
}

func (s *Session) request(m *jsonrpc.Message, reply Reply) {
	if m.Method == "ping" { // proves this hop only; never crosses (translation.md 6.1)
		reply.Finish(jsonrpc.AppendResult(nil, m.ID, nil))
		return
	}
	switch m.Method {
	case "initialize":
		s.initialize(m, reply)
		return
	case "server/discover", "subscriptions/listen": // not methods of the handshake era (6.1, 6.4)
		reply.Finish(jsonrpc.AppendError(nil, m.ID, negotiate.Refused(jsonrpc.CodeMethodNotFound, negotiate.ReasonUnknownMethod,
			"%s is not a method of the revision negotiated in this session", m.Method)))
		return
	}
	c, twin, e, bound := s.admit(m, reply)
	if bound != "" {
		s.observe(exchange.Observation{Kind: exchange.SeenBound, Detail: bound})
	}
	if e != nil {
		reply.Finish(jsonrpc.AppendError(nil, m.ID, e))
		return
	}
	if twin {
		s.observe(exchange.Observation{Kind: exchange.SeenDuplicateID})
	}
	if !s.spawn(func() { s.run(c, m) }) {
		s.leave(c)
		reply.Finish(nil)
	}
}

// admit enters a request among those in flight or says why not, and which bound was reached if that is why. twin tells that
// another one with its id is there already.
func (s *Session) admit(m *jsonrpc.Message, reply Reply) (c *call, twin bool, e *exchange.Error, bound string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.phase == closed:
		return nil, false, exchange.PublicError(exchange.Fail(exchange.ReasonClosed, nil)), ""
	case s.phase == fresh || s.phase == failed:
		return nil, false, negotiate.Refused(jsonrpc.CodeInvalidRequest, reasonNotInitialized,
			"%s before initialize: send initialize first", m.Method), ""
	case len(s.inFlight) >= s.o.MaxCalls || s.waiting > s.o.MaxCalls:
		return nil, false, exchange.PublicError(exchange.Fail(exchange.ReasonTooManyCalls, nil)), "max_calls"
	case !s.o.Quota.take():
		return nil, false, negotiate.Refused(jsonrpc.CodeInternal, exchange.ReasonTooManyCalls, "too many calls of all clients are in flight; try again later"), "max_calls_in_total"
	}
	c = &call{id: callKey(m.ID), method: m.Method, reply: reply}
	c.ctx, c.cancel = context.WithCancelCause(s.ctx)
	c.wait, c.sent = s.ticket()
	if s.calls == nil {
		s.calls = make(map[string][]*call)
	}
	twin = len(s.calls[c.id]) > 0
	s.calls[c.id] = append(s.calls[c.id], c)
	s.inFlight = append(s.inFlight, c)
	return c, twin, nil, ""
}

func (s *Session) run(c *call, m *jsonrpc.Message) {
	Deepen(0)
	defer c.cancel(nil)
	var resp exchange.Response
	var err error
	select {
	case <-c.wait:
		resp, err = s.forward(c, m)
	case <-c.ctx.Done():
		err = context.Cause(c.ctx)
	}
	s.finish(c, m, resp, err)
	select { // its place in the order is behind those before it, also when it was cancelled there
	case <-c.wait:
	case <-s.ctx.Done():
	}
	c.sent()
}

// finish gives the client the outcome. After a cancellation by the client it gets nothing but the
// withdrawal of questions, whatever the server answered (translation.md 6.3).
func (s *Session) finish(c *call, m *jsonrpc.Message, resp exchange.Response, err error) {
	asked := s.leave(c)
	if err != nil && c.ctx.Err() != nil {
		err = context.Cause(c.ctx)
	}
	switch {
	case cancelled(context.Cause(c.ctx)):
		if s.ctx.Err() == nil {
			s.takeBack(c.reply, asked...)
		}
		c.reply.Finish(nil)
	case err != nil:
		s.o.Logger.Warn("call without an answer", "session", s.short(), "method", c.method, "err", err)
		c.reply.Finish(jsonrpc.AppendError(nil, m.ID, exchange.PublicError(err)))
	case resp.Error != nil:
		c.reply.Finish(jsonrpc.AppendError(nil, m.ID, resp.Error))
	default:
		c.reply.Finish(jsonrpc.AppendResult(nil, m.ID, resp.Result))
	}
}

func (s *Session) forward(c *call, m *jsonrpc.Message) (exchange.Response, error) {
	up, err := s.upstream()
	if up == nil {
		return exchange.Response{}, err
	}
	req := exchange.Request{Method: m.Method, Params: negotiate.StripReserved(m, negotiate.MetaRelatedTask), Sent: c.sent}
	return up.Call(c.ctx, req, &peer{s: s, out: c.reply, call: c})
}

// upstream returns the server's session, or nil and why there is none.
func (s *Session) upstream() (exchange.Session, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.up == nil && s.openErr == nil {
		return nil, exchange.Fail(exchange.ReasonUnavailable, nil)
	}
	return s.up, s.openErr
}

// leave removes a call from those in flight and returns the questions put because of it that still wait.
func (s *Session) leave(c *call) (asked []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c.left = true
	s.o.Quota.give()
	same := slices.DeleteFunc(s.calls[c.id], func(o *call) bool { return o == c })
	if len(same) == 0 {
		delete(s.calls, c.id)
	} else {
		s.calls[c.id] = same
	}
	s.inFlight = slices.DeleteFunc(s.inFlight, func(o *call) bool { return o == c })
	return slices.DeleteFunc(c.asked, s.isClosed)
}

func (s *Session) notification(m *jsonrpc.Message) {
	if m.Method == "notifications/cancelled" {
		s.cancelCall(m.Params)
		return
	}
	wait, done, ok := s.queueNote()
	if !ok {
		s.observe(exchange.Observation{Kind: exchange.SeenRefused, Detail: "notification not forwarded"})
		return
	}
	s.spawn(func() {
		select {
		case <-wait:
		case <-s.ctx.Done():
			return
		}
		defer done()
		up, _ := s.upstream()
		if up == nil {
			return
		}
		note := exchange.Request{Method: m.Method, Params: negotiate.StripReserved(m, negotiate.MetaRelatedTask)}
		if err := up.Notify(s.ctx, note); err != nil && s.ctx.Err() == nil {
			s.o.Logger.Warn("notification not handed over", "session", s.short(), "method", m.Method, "err", err)
		}
	})
}

// queueNote gives a notification its place in the order. ok is false when there is no server to hand it to (nothing upstream is
// touched before the handshake) or too many messages wait already.
func (s *Session) queueNote() (wait <-chan struct{}, done func(), ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.phase != open && s.phase != opening || s.waiting > s.o.MaxCalls {
		return nil, nil, false
	}
	wait, done = s.ticket()
	return wait, done, true
}

// cancelCall cancels the newest call of the id that has not been cancelled (translation.md 2). It overtakes everything queued:
// the call may be what the queue waits for.
func (s *Session) cancelCall(params []byte) {
	id := callKey(jsonrpc.Get(params, "requestId"))
	reason, _ := jsonrpc.String(jsonrpc.Get(params, "reason"))
	if c := s.newest(id); c != nil {
		c.cancel(&exchange.CancelError{Reason: reason})
	}
}

// callKey returns what calls are told apart by: the text of a number, and of a string what it says, for the same string may be
// escaped in several ways. A string that says nothing certain (a lone surrogate) is its text.
func callKey(raw []byte) string {
	if bytes.IndexByte(raw, '\\') < 0 {
		return string(raw)
	}
	s, ok := jsonrpc.String(raw)
	if !ok || strings.ContainsRune(s, utf8.RuneError) {
		return `\` + string(raw)
	}
	return `"` + s + `"`
}

// newest returns the newest call of the id that the client has not cancelled, and marks it as cancelled.
func (s *Session) newest(id string) *call {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range slices.Backward(s.calls[id]) {
		if !c.cancelled {
			c.cancelled = true
			return c
		}
	}
	return nil
}

// Suspendable returns the outlet of the oldest call in flight during which a server may ask and whose outlet
// can be used, or nil (translation.md 9: where a question goes that has no link and no standing stream).
func (s *Session) Suspendable(usable func(Outlet) bool) Outlet {
	for _, reply := range s.interruptible() {
		if usable(reply) {
			return reply
		}
	}
	return nil
}

// interruptible returns the outlets of the calls in flight during which a server may ask, oldest first. They may have locks of
// their own, under which the session is asked: who uses them holds none of its.
func (s *Session) interruptible() []Reply {
	s.mu.Lock()
	defer s.mu.Unlock()
	var replies []Reply
	for _, c := range s.inFlight {
		switch c.method {
		case "tools/call", "prompts/get", "resources/read":
			replies = append(replies, c.reply)
		}
	}
	return replies
}
