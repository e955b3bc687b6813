package streamable

import (
	"context"
	"errors"
	"net/http"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
	"github.com/mcp-dualstack/bridge/internal/sse"
	"github.com/mcp-dualstack/bridge/negotiate"
)

// initialize opens a session (translation.md 3, row 5). The header waits for it: only a session that
// exists has an id. Whoever leaves before has never heard of the session, so it ends.
func (f *Front) initialize(c *carrier, r *http.Request, m *jsonrpc.Message, in form) {
	if id := r.Header.Get(negotiate.HeaderSession); id != "" {
		if s := f.lookup(r, id); s != nil {
			s.release()
			c.refuseInitialize(r, m, refusedExists)
			return
		}
	}
	if x := f.begin(); x != nil {
		c.refuseInitialize(r, m, x)
		return
	}
	defer f.end()
	principal := f.o.Principal(r)
	if x := f.reserve(principal); x != nil {
		c.refuseInitialize(r, m, x)
		return
	}
	s := f.newSession(r, principal)
	ctx, cancel := f.context(r)
	defer cancel()
	response, opened := s.core.Initialize(ctx, m)
	if !opened {
		f.discard(s)
		c.initializeRefused(response, s.failure, in)
		return
	}
	s.standing.negotiated(s.core.Revision())
	if r.Context().Err() != nil {
		f.discard(s)
		return
	}
	if !f.keep(s) {
		c.refuseInitialize(r, m, refusedShutdown)
		return
	}
	f.o.Logger.Info("session opened", "session", s.core.Describe(), "revision", s.core.Revision().String())
	c.w.Header()[negotiate.HeaderSession] = []string{s.id}
	if in.stream && !(f.o.JSONResponses && in.json) {
		st := s.newStream(c)
		st.Finish(response)
		s.carry(c, st)
		return
	}
	c.json(http.StatusOK, response)
}

// initializeRefused answers with the error: there is no session, so no event has an id. The status is 200
// unless the server behind the bridge asks for credentials (translation.md 13, pass-through mode), or there is no room for a
// further session: 503 then, so that proxies and clients that can wait do.
func (c *carrier) initializeRefused(response []byte, err error, in form) {
	f, ok := errors.AsType[*exchange.Failure](err)
	switch {
	case ok && f.Challenge != "":
		c.answer(response, answer{status: f.Status, challenge: f.Challenge})
	case ok && f.RetryAfter > 0:
		c.answer(response, answer{status: http.StatusServiceUnavailable, retryAfter: f.RetryAfter})
	case in.json:
		c.json(http.StatusOK, response)
	default:
		c.startStream()
		_ = c.write(sse.AppendEvent(nil, sse.Event{Name: "message", Data: response})) // there is nobody to tell
	}
}

// context returns a context that ends with r or with the front.
func (f *Front) context(r *http.Request) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(r.Context())
	stop := context.AfterFunc(f.ctx, cancel)
	return ctx, func() {
		stop()
		cancel()
	}
}
