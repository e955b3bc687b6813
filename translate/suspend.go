package translate

import (
	"context"
	"errors"
	"sync"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
	"github.com/mcp-dualstack/bridge/negotiate"
)

// A suspendSession is the session of a modern client with a handshake-era server. The session below stays open until
// every call made on it has returned, which may be long after Close.
type suspendSession struct {
	s         *suspender
	below     exchange.Session
	server    exchange.Server
	payload   *payload
	schemas   *schemas
	scopes    *scopes
	declared  declared
	client    exchange.Client
	principal principalHash

	mu     sync.Mutex
	closed bool
	users  int // calls of the session below
	visits map[*context.CancelCauseFunc]struct{}
}

// newSuspend returns the session of a modern client with the legacy server of s (translation.md 7.1 to 7.3).
func newSuspend(h *handler, c exchange.Client, s exchange.Session) (exchange.Session, error) {
	server := readable(s.Server())
	pay := h.payload(c.Revision, server.Revision)
	pay.info = server.Info
	return &suspendSession{
		s: h.suspender, below: s, server: modernServer(server, pay), schemas: h.schemas, scopes: h.scopes, client: c,
		declared: readDeclared(c.Capabilities), principal: hashPrincipal(c.Principal), payload: pay,
	}, nil
}

// modernServer returns a handshake-era server as modern clients see it (translation.md 4, 6.1): without what is not
// bridged, and with a server/discover result of the bridge's.
func modernServer(s exchange.Server, p *payload) exchange.Server {
	caps := handshakeServer(s.Capabilities)
	s.Capabilities, s.Served, s.Initialize = caps, negotiate.All, nil
	s.Discover = jsonrpc.Set([]byte(`{"resultType":"complete"}`), negotiate.All.JSON(), "supportedVersions")
	s.Discover = jsonrpc.Set(s.Discover, caps, "capabilities")
	if s.Instructions != nil {
		s.Discover = jsonrpc.Set(s.Discover, s.Instructions, "instructions")
	}
	s.Discover = p.complete("server/discover", s.Discover)
	s.Revision = negotiate.Rev20260728
	return s
}

// Server says who answers, as of 2026-07-28.
func (s *suspendSession) Server() exchange.Server { return s.server }

// Done is nil: what a client of this era may lose is said by the answer of its next request.
func (s *suspendSession) Done() <-chan struct{} { return nil }

// Notify drops the note (translation.md 6.2).
func (s *suspendSession) Notify(context.Context, exchange.Request) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errClosed
	}
	return nil
}

// Close cancels the requests in flight, but not the calls that wait for the client's answers.
func (s *suspendSession) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	for cancel := range s.visits {
		(*cancel)(errClosed)
	}
	idle := s.users == 0
	s.mu.Unlock()
	if idle {
		return s.below.Close()
	}
	return nil
}

// hold keeps the session below open. It returns false after Close.
func (s *suspendSession) hold() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.users++
	return true
}

// release lets go of what hold kept.
func (s *suspendSession) release() {
	s.mu.Lock()
	s.users--
	last := s.closed && s.users == 0
	s.mu.Unlock()
	if last {
		if err := s.below.Close(); err != nil {
			s.s.log.Debug("close upstream session", "err", err)
		}
	}
}

// visiting returns ctx as it ends with the session.
func (s *suspendSession) visiting(ctx context.Context) (context.Context, func(), error) {
	ctx, cancel := context.WithCancelCause(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		cancel(nil)
		return nil, nil, errClosed
	}
	if s.visits == nil {
		s.visits = make(map[*context.CancelCauseFunc]struct{}, 1)
	}
	s.visits[&cancel] = struct{}{}
	return ctx, func() {
		s.mu.Lock()
		delete(s.visits, &cancel)
		s.mu.Unlock()
		cancel(nil)
	}, nil
}

// Call asks the server, or carries on what an earlier request of the client began.
func (s *suspendSession) Call(ctx context.Context, req exchange.Request, back exchange.Peer) (exchange.Response, error) {
	if req.Sent != nil {
		req.Sent() // order means nothing to a stateless client
	}
	if req.Method == "server/discover" {
		return exchange.Response{Result: s.server.Discover}, nil
	}
	ctx, done, err := s.visiting(ctx)
	if err != nil {
		return exchange.Response{}, err
	}
	defer done()
	if req.Method == methodListen {
		return s.listen(ctx, req.Params, back)
	}
	if req.Method == "tools/call" && req.Header != nil {
		if refusal := s.schemas.check(ctx, s.client.Principal, req, lister{s.below, s}); refusal != nil {
			return exchange.Response{Error: refusal}, nil
		}
	}
	v := newVisit(req.Params, s.declared, back)
	state := jsonrpc.Get(req.Params, "requestState")
	if jsonrpc.IsNull(state) {
		state = nil
	}
	if methodNumber(req.Method) == 0 {
		return s.plain(ctx, req, state, v)
	}
	if state == nil {
		return s.begin(ctx, attempt{req: req, journal: s.s.journalOf(req)}, v)
	}
	t, refusal := s.s.check(state, claim{s.principal, req.Method, salientDigest(req.Params)})
	if refusal != nil {
		return exchange.Response{Error: refusal}, nil
	}
	switch t.kind {
	case kindSuspend:
		return s.s.retry(ctx, t, req.Params, v)
	case kindURL:
		return s.revisit(ctx, t, req, v)
	case kindJournal:
		return s.rerun(ctx, t, req, v)
	}
	return exchange.Response{Error: s.s.refuseState(req.Method, reasonStateInvalid, "another kind")}, nil
}

// cleaned returns a request as the server is sent it: without the envelope and what only rounds and tasks need
// (translation.md 6.2, 10). What is left keeps its bytes.
func (s *suspendSession) cleaned(req exchange.Request) exchange.Request {
	params := jsonrpc.DeleteFunc(req.Params, func(name string) bool {
		return name == "inputResponses" || name == "requestState" || name == "task"
	})
	return exchange.Request{Method: req.Method, Params: withoutReserved(params)}
}

// plain serves a request that may not suspend.
func (s *suspendSession) plain(ctx context.Context, req exchange.Request, state []byte, v *visit) (exchange.Response, error) {
	if state != nil {
		return exchange.Response{Error: s.s.refuseState(req.Method, reasonStateInvalid, "a method that cannot suspend")}, nil
	}
	if isTaskMethod(req.Method) {
		return exchange.Response{Error: notBridged(req.Method)}, nil
	}
	if !s.hold() {
		return exchange.Response{}, errClosed
	}
	defer s.release()
	s.raise(ctx, v)
	resp, err := s.withRoom(func() (exchange.Response, error) {
		return s.below.Call(ctx, s.cleaned(req), bystander{s, v})
	})
	if err != nil {
		return exchange.Response{}, err
	}
	if req.Method == "tools/list" && resp.Error == nil {
		s.schemas.learn(s.client.Principal, resp.Result)
	}
	return s.modern(req.Method, req.Params, resp), nil
}

// A lister is the session below as it is asked for tools on the bridge's own account.
type lister struct {
	exchange.Session
	s *suspendSession
}

// Call asks the server.
func (l lister) Call(ctx context.Context, req exchange.Request, back exchange.Peer) (exchange.Response, error) {
	return l.Session.Call(ctx, l.s.cleaned(req), back)
}

// An attempt is a call about to be made.
type attempt struct {
	req     exchange.Request // the client's
	urls    *urlState        // not nil after URLs have been visited
	journal *journal         // not nil for a tool that is run again in each round
}

// begin makes a call that may suspend, within the bounds of translation.md 7.3.7.
func (s *suspendSession) begin(ctx context.Context, a attempt, v *visit) (exchange.Response, error) {
	if s.declared.any() && a.journal == nil {
		if err := s.s.admit(s.principal); err != nil {
			return exchange.Response{}, err
		}
	}
	return s.withRoom(func() (exchange.Response, error) { return s.once(ctx, a, v) })
}

// withRoom makes a call. When the pool of upstream sessions is full, the oldest suspended call of the same principal makes
// room if it has waited long enough, and the call is made again: it has not reached the server. A session may take as
// long to end as the pool lets a call wait, hence the second attempt.
func (s *suspendSession) withRoom(f func() (exchange.Response, error)) (exchange.Response, error) {
	resp, err := f()
	if !isBusy(err) || !s.s.makeRoom(s.principal) {
		return resp, err
	}
	if resp, err = f(); isBusy(err) {
		return f()
	}
	return resp, err
}

// isBusy reports whether there was no room for a call. A server that answered so may have carried it out.
func isBusy(err error) bool {
	f, ok := errors.AsType[*exchange.Failure](err)
	return ok && f.Reason == exchange.ReasonBusy && !f.Answered
}

func (s *suspendSession) once(ctx context.Context, a attempt, v *visit) (exchange.Response, error) {
	s.raise(ctx, v)
	c := newCall(ctx, s.s, s, a.req)
	if c.urls = a.urls; c.urls != nil && c.affinity != nil {
		c.affinity.Want = c.urls.session
	}
	if c.journal = a.journal; c.journal != nil {
		c.round = c.journal.round
	}
	if err := c.start(s.cleaned(a.req), v); err != nil {
		return exchange.Response{}, err
	}
	return c.attend(ctx, v)
}

// raise asks the server for the log messages that the client wants to hear because of its next call
// (translation.md 6.5). Whether it does has no effect on the call.
func (s *suspendSession) raise(ctx context.Context, v *visit) {
	if v.level == 0 || jsonrpc.IsNull(jsonrpc.Get(s.server.Capabilities, "logging")) {
		return
	}
	params := jsonrpc.Set(nil, jsonrpc.Quote(levels[v.level-1]), "level")
	resp, err := s.below.Call(ctx, exchange.Request{Method: methodSetLevel, Params: params}, silent{})
	if err == nil && resp.Error != nil {
		err = resp.Error
	}
	if err != nil {
		s.s.log.Debug("raise the upstream's log level", "err", err)
	}
}
