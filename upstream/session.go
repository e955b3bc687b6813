package upstream

import (
	"context"
	"sync"

	"github.com/mcp-dualstack/bridge/exchange"
)

// A legacySession is the conversation of one handshake-era client on a connection of its own.
type legacySession struct {
	c      *conn
	server exchange.Server

	mu          sync.Mutex
	initialized bool
}

const noteInitialized = "notifications/initialized"

// Server says who answers.
func (s *legacySession) Server() exchange.Server { return s.server }

// Call asks the server, after it has been told that the client is ready.
func (s *legacySession) Call(ctx context.Context, req exchange.Request, back exchange.Peer) (exchange.Response, error) {
	if err := s.ready(exchange.Request{Method: noteInitialized}); err != nil {
		return exchange.Response{}, err
	}
	resp, err := s.c.call(ctx, req, back)
	if unknown, ok := methodNotFound(req.Method, err); ok { // over HTTP+SSE
		return unknown, nil
	}
	return resp, err
}

// Notify tells the server. What the connector says itself is dropped here.
func (s *legacySession) Notify(ctx context.Context, note exchange.Request) error {
	switch note.Method {
	case noteInitialized:
		return s.ready(note)
	case "notifications/cancelled": // fronts end the call's ctx
		return nil
	}
	return s.c.notify(ctx, note)
}

// ready sends notifications/initialized once: when the client does, or before its first request, which
// mu keeps behind it. It does not wait for room in the queue: one small line always fits.
func (s *legacySession) ready(note exchange.Request) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.initialized {
		return nil
	}
	if err := s.c.tell(note); err != nil {
		return err
	}
	s.initialized = true
	return nil
}

func (s *legacySession) settled(ctx context.Context) bool { return s.c.settled(ctx) }

// Done is closed when the server has gone by itself.
func (s *legacySession) Done() <-chan struct{} { return s.c.lost }

// Close ends the connection. It does not wait for the child to exit; Upstream.Close does.
func (s *legacySession) Close() error {
	s.c.close()
	return nil
}

// A modernSession is one client's use of the connection that all modern clients share.
type modernSession struct {
	u      *Upstream
	server exchange.Server
	calls  inFlight

	mu sync.Mutex
	c  *conn // the connection of the last call
}

func newModernSession(u *Upstream, c *conn, server exchange.Server) *modernSession {
	return &modernSession{u: u, c: c, server: server}
}

// Server says who answers.
func (s *modernSession) Server() exchange.Server { return s.server }

// Call asks the server, a new child if the last one has gone.
func (s *modernSession) Call(ctx context.Context, req exchange.Request, back exchange.Peer) (exchange.Response, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if err := s.calls.enter(&cancel); err != nil {
		return exchange.Response{}, err
	}
	defer s.calls.leave(&cancel)
	if req.Method == methodListen {
		return s.listen(ctx, req, back)
	}
	resp, err := s.once(ctx, req, back)
	if isLost(err) && repeatable(req.Method) {
		req.Sent = nil // it has been called
		return s.once(ctx, req, back)
	}
	return resp, err
}

func (s *modernSession) once(ctx context.Context, req exchange.Request, back exchange.Peer) (exchange.Response, error) {
	c, err := s.conn(ctx)
	if err != nil {
		return exchange.Response{}, err
	}
	resp, err := c.call(ctx, req, back)
	if err == nil && wrongVersion(resp) {
		return s.u.revised(ctx, c, req, back, resp.Error)
	}
	return resp, err
}

// conn returns a connection that is alive.
func (s *modernSession) conn(ctx context.Context) (*conn, error) {
	s.mu.Lock()
	c := s.c
	s.mu.Unlock()
	if c.alive() {
		return c, nil
	}
	v, c, err := s.u.resolve(ctx, true)
	if err != nil {
		return nil, err
	}
	if !v.Modern {
		return nil, eraFailure(s.server.Revision, v.Served)
	}
	s.mu.Lock()
	s.c = c
	s.mu.Unlock()
	return c, nil
}

// Notify drops the note: the core protocol of 2026-07-28 has none from the client that a shared
// connection could carry (translation.md 6.2).
func (s *modernSession) Notify(context.Context, exchange.Request) error {
	return s.calls.open()
}

// Done is nil: the conversation has no state that could be lost, and a new child carries it on.
func (s *modernSession) Done() <-chan struct{} { return nil }

// Close cancels the calls of this client. The connection stays.
func (s *modernSession) Close() error {
	s.calls.close()
	return nil
}
