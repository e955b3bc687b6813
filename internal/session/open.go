package session

import (
	"context"
	"errors"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
	"github.com/mcp-dualstack/bridge/negotiate"
)

// Reopen takes the first request of a client that came back without an initialize (retirement.md R8). It opens the
// conversation with no capabilities and the bridge's own client info, and hands m over; what Handle takes meanwhile comes after.
// If it fails, that is the error of these requests, and the session is fresh again. If the session is not fresh, Reopen is Handle.
func (s *Session) Reopen(revision negotiate.Revision, m *jsonrpc.Message, reply Reply) {
	done, ok := s.begin(fresh)
	s.Handle(m, reply) // before anything can have failed
	if !ok {
		return
	}
	c := s.o.Client
	c.Revision, c.Requested, c.Reopened = revision, revision.String(), true
	c.Info, c.Capabilities = s.o.BridgeInfo, []byte("{}")
	s.spawn(func() {
		defer done()
		if _, err := s.openUpstream(s.ctx, c); err != nil {
			s.o.Logger.Warn("open upstream session for a client that came back", "session", s.short(), "err", err)
			s.failed(err)
		}
	})
}

// Initialize carries out the handshake and returns the response to the initialize request m, and whether the
// session is open now. A second initialize is refused with -32600 and leaves the session as it was
// (translation.md 3, rows 1 and 5).
func (s *Session) Initialize(ctx context.Context, m *jsonrpc.Message) (response []byte, opened bool) {
	h, e := s.accept(m)
	if e != nil {
		return s.refuseInitialize(m, e), false
	}
	defer h.done()
	response, err := s.handshake(ctx, m, h)
	if err != nil {
		s.failed(err)
	}
	return response, err == nil
}

// initialize is Initialize for Handle: it does not wait, and what is handed to Handle afterwards waits for it.
func (s *Session) initialize(m *jsonrpc.Message, reply Reply) {
	h, e := s.accept(m)
	if e != nil {
		reply.Finish(s.refuseInitialize(m, e))
		return
	}
	if s.spawn(func() {
		defer h.done() // what waits for it is answered after it
		response, err := s.handshake(s.ctx, m, h)
		if cancelled(err) {
			response = nil
		}
		reply.Finish(response)
		if err != nil {
			s.failed(err)
		}
	}) {
		return
	}
	h.done()
	reply.Finish(nil)
}

// refuseInitialize reports that a client which said who it is was refused, and returns the error response.
func (s *Session) refuseInitialize(m *jsonrpc.Message, e *exchange.Error) []byte {
	s.observe(RefusedInitialize(m, e))
	return jsonrpc.AppendError(nil, m.ID, e)
}

// RefusedInitialize returns the observation of an initialize request refused with e: the revision and the client info
// that it names, and the reason.
func RefusedInitialize(m *jsonrpc.Message, e *exchange.Error) exchange.Observation {
	o := exchange.Observation{Kind: exchange.SeenRefused}
	o.Version, _ = jsonrpc.String(jsonrpc.Get(m.Params, "protocolVersion"))
	if info := jsonrpc.Get(m.Params, "clientInfo"); jsonrpc.IsObject(info) {
		o.Info = info
	}
	o.Detail, _ = jsonrpc.String(jsonrpc.Get(e.Data, "bridge", "reason"))
	return o
}

// An acceptedInit is an initialize request with its place in the order of messages.
type acceptedInit struct {
	negotiate.Initialize
	done func()
}

// accept moves the session to opening or says why it cannot.
func (s *Session) accept(m *jsonrpc.Message) (*acceptedInit, *exchange.Error) {
	init, e := negotiate.ReadInitialize(m.Params, s.o.Enabled)
	if e != nil {
		return nil, e
	}
	done, ok := s.begin(fresh, failed)
	if !ok {
		return nil, negotiate.Refused(jsonrpc.CodeInvalidRequest, negotiate.ReasonSessionExists,
			"this session has been initialized already; end it and open a new one to negotiate again")
	}
	return &acceptedInit{init, done}, nil
}

// begin moves a session in one of the phases given to opening, and takes the next place in the order.
func (s *Session) begin(from ...phase) (done func(), ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range from {
		if s.phase == p {
			s.phase = opening
			_, done = s.ticket() // nothing that is before it needs to come first
			return done, true
		}
	}
	return nil, false
}

func (s *Session) handshake(ctx context.Context, m *jsonrpc.Message, h *acceptedInit) (response []byte, err error) {
	c := s.o.Client
	c.Revision, c.Requested = h.Answer, h.Requested
	c.Info, c.Capabilities = h.Info, h.Capabilities
	server, err := s.openUpstream(ctx, c)
	if err != nil {
		return jsonrpc.AppendError(nil, m.ID, exchange.PublicError(err)), err
	}
	return jsonrpc.AppendResult(nil, m.ID, initializeResult(server, h.Answer)), nil
}

func (s *Session) openUpstream(ctx context.Context, c exchange.Client) (exchange.Server, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop := context.AfterFunc(s.ctx, func() { cancel(context.Cause(s.ctx)) })
	defer stop()

	s.mu.Lock()
	s.revision, s.caps = c.Revision, readCapabilities(c.Capabilities)
	s.mu.Unlock()
	c.Back = &peer{s: s, out: s.o.Standing}
	up, err := s.o.Handler.Open(ctx, c)
	if err != nil && s.ctx.Err() != nil {
		err = context.Cause(s.ctx)
	}
	err = s.opened(up, err, c.Reopened)
	if err != nil {
		return exchange.Server{}, err
	}
	s.watch(up.Done())
	return up.Server(), nil
}

// opened takes what Open returned. The error is that of Open, or the cause when the session has been closed meanwhile.
func (s *Session) opened(up exchange.Session, err error, reopened bool) error {
	s.mu.Lock()
	late := s.phase == closed
	switch {
	case late:
	case err == nil:
		s.phase, s.up, s.openErr = open, up, nil
	default:
		s.phase, s.openErr = failed, err
		s.revision, s.caps = negotiate.None, capabilities{}
		if reopened {
			s.phase = fresh
		}
	}
	s.mu.Unlock()
	if late && err == nil {
		s.closeUpstream(up)
		return context.Cause(s.ctx)
	}
	return err
}

func (s *Session) failed(err error) {
	if _, refused := errors.AsType[*exchange.Error](err); refused || s.o.Failed == nil || s.ctx.Err() != nil {
		return
	}
	s.o.Failed(err)
}

// watch tells the front when the server's side ends by itself.
func (s *Session) watch(gone <-chan struct{}) {
	if gone == nil || s.o.Ended == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.phase != closed {
		s.gone = gone
		s.o.Ends.await(gone, s)
	}
}

// initializeResult is the server's own result with the revision the client is to be told
// (translation.md 4), or one made from what is known.
func initializeResult(server exchange.Server, answer negotiate.Revision) []byte {
	version := jsonrpc.Quote(answer.String())
	if server.Initialize != nil {
		return jsonrpc.Set(server.Initialize, version, "protocolVersion")
	}
	r := jsonrpc.Set(nil, version, "protocolVersion")
	caps := server.Capabilities
	if caps == nil {
		caps = []byte("{}")
	}
	r = jsonrpc.Set(r, caps, "capabilities")
	if server.Info != nil {
		r = jsonrpc.Set(r, server.Info, "serverInfo")
	}
	if server.Instructions != nil {
		r = jsonrpc.Set(r, server.Instructions, "instructions")
	}
	return r
}
