package upstream

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
	"github.com/mcp-dualstack/bridge/negotiate"
)

// A pooled is one client's use of the pool. Where the client has a standing stream it watches: it hears
// the changes that any session of its principal hears, and ends when the session that all share ends.
type pooled struct {
	p      *pool
	key    poolKey // of requests that the server may ask during
	auth   string
	back   exchange.Peer // nil: it does not watch
	server exchange.Server
	calls  inFlight
	watch  *share // nil if it does not watch

	mu    sync.Mutex
	level int                 // of the log messages that the client wants; 0: none
	uris  map[string]struct{} // that it subscribed to
	left  bool                // it has stopped watching
}

// session opens a session of the pool. Without a standing stream it costs nothing once a handshake has
// shown who the server is. The errors are those of acquire, and upstream_busy at Options.MaxWatchers.
func (p *pool) session(ctx context.Context, c exchange.Client, served negotiate.Set) (exchange.Session, error) {
	s := &pooled{p: p, key: p.keyOf(c), auth: c.Authorization, back: c.Back}
	if s.back != nil {
		if err := s.startWatching(ctx); err != nil {
			return nil, err
		}
	}
	server, err := p.server(ctx, s)
	if err != nil {
		_ = s.Close() // nothing is in flight
		return nil, err
	}
	server.Served = served
	s.server = server
	return s, nil
}

func (p *pool) keyOf(c exchange.Client) poolKey {
	if p.o.Sharing == "shared" {
		return poolKey{} // for everybody
	}
	key := poolKey{principal: c.Principal, class: classify(c.Capabilities, p.o.MaskCapabilities)}
	if p.o.HTTP.PassThrough && c.Authorization != "" {
		key.principal += fmt.Sprintf(" %x", view(c.Authorization)) // a session has the credentials that it was opened with
	}
	return key
}

// server returns the snapshot, after a handshake if there is none.
func (p *pool) server(ctx context.Context, s *pooled) (exchange.Server, error) {
	p.mu.Lock()
	snapshot := p.snapshot
	p.mu.Unlock()
	if snapshot != nil && !p.o.HTTP.PassThrough { // there it is another caller's
		return *snapshot, nil
	}
	key := s.keyFor(exchange.Request{})
	if p.exclusive(key) {
		m, err := p.acquire(ctx, key, 0, s.auth)
		if err != nil {
			return exchange.Server{}, err
		}
		p.put(m, true)
		return p.annotated(m.sess.Server()), nil
	}
	sh, err := p.join(ctx, key, s.auth)
	if err != nil {
		return exchange.Server{}, err
	}
	defer p.leave(sh)
	return p.annotated(sh.m.sess.Server()), nil
}

// annotated returns a server whose instructions say what the options hide from it.
func (p *pool) annotated(s exchange.Server) exchange.Server {
	if note := p.o.masking(); note != "" {
		s.Instructions = withNote(s.Instructions, note)
		s.Initialize = jsonrpc.Set(s.Initialize, s.Instructions, "instructions")
	}
	return s
}

// Server says who answers, as the newest handshake of the pool showed it.
func (s *pooled) Server() exchange.Server { return s.server }

// keyFor returns the key of a request: without capabilities if the server may not ask during it.
func (s *pooled) keyFor(req exchange.Request) poolKey {
	if s.p.o.MayAsk != nil {
		name, _ := jsonrpc.String(jsonrpc.Get(req.Params, "name"))
		if req.Method != "tools/call" || !slices.Contains(s.p.o.MayAsk, name) {
			return poolKey{principal: s.key.principal}
		}
	}
	return s.key
}

// Call asks the server on a session of the pool. Log messages come if the request says from which level on
// (_meta io.modelcontextprotocol/logLevel) or the client has set a level. Besides those of a connection the error is
// upstream_busy when no session became free in time.
func (s *pooled) Call(ctx context.Context, req exchange.Request, back exchange.Peer) (exchange.Response, error) {
	if ctx.Err() != nil {
		return exchange.Response{}, context.Cause(ctx)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if err := s.calls.enter(&cancel); err != nil {
		return exchange.Response{}, err
	}
	defer s.calls.leave(&cancel)
	if s.watch != nil && s.watch.m.lost() {
		return exchange.Response{}, exchange.Fail(exchange.ReasonLost, errMemberGone)
	}
	if req.Sent != nil { // sessions of the pool have no order between them
		req.Sent()
		req.Sent = nil
	}
	switch req.Method {
	case methodSetLevel:
		return s.setLevel(req), nil
	case methodSubscribe, methodUnsubscribe:
		return s.subscription(ctx, req)
	}
	req, level := s.levelFor(req)
	resp, err := s.once(ctx, req, back, level)
	if s.again(err, req.Method) {
		return s.once(ctx, req, back, level)
	}
	return resp, err
}

// again reports whether a call that ended with err may be made on another session: it did not run because the server has
// forgotten the session, or it may run twice. A session with links repeats these itself.
func (s *pooled) again(err error, method string) bool {
	if s.Done() != nil {
		return false
	}
	return errors.Is(err, errForgotten) || isLost(err) && repeatable(method) && !s.p.linked
}

// once makes a call on the session that its key has.
func (s *pooled) once(ctx context.Context, req exchange.Request, back exchange.Peer, level int) (exchange.Response, error) {
	key := s.keyFor(req)
	if s.p.exclusive(key) {
		return s.callAlone(ctx, key, req, back, level)
	}
	sh, err := s.p.join(ctx, key, s.auth)
	if err != nil {
		return exchange.Response{}, err
	}
	defer s.p.leave(sh)
	return sh.m.callShared(ctx, req, back, level)
}

// callAlone makes a call on a session of its own, for a further page of a list on the one that made the page before.
func (s *pooled) callAlone(ctx context.Context, key poolKey, req exchange.Request, back exchange.Peer, level int) (exchange.Response, error) {
	req, want := unseal(req)
	m, err := s.p.acquireNear(ctx, key, want, s.auth)
	if errors.Is(err, errMemberGone) {
		return exchange.Response{Error: jsonrpc.Errorf(jsonrpc.CodeInvalidParams, "the cursor has expired; start the list over")}, nil
	}
	if err != nil {
		return exchange.Response{}, err
	}
	resp, err := m.callAlone(ctx, req, back, level)
	if err == nil && !key.single() {
		resp = m.seal(req.Method, resp)
	}
	s.p.finish(m, err)
	return resp, err
}

// levelFor returns from which level on the client wants log messages of a request, and the request without
// the key that says so.
func (s *pooled) levelFor(req exchange.Request) (exchange.Request, int) {
	if raw := jsonrpc.Get(req.Params, "_meta", negotiate.MetaLogLevel); raw != nil {
		req.Params = jsonrpc.Delete(req.Params, "_meta", negotiate.MetaLogLevel)
		return req, levelOf(raw)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return req, s.level
}

// setLevel answers logging/setLevel for the server: each session has its own level, and this client's
// applies to its calls from here on (translation.md 6.5).
func (s *pooled) setLevel(req exchange.Request) exchange.Response {
	if jsonrpc.Get(s.server.Capabilities, "logging") == nil {
		return exchange.Response{Error: jsonrpc.Errorf(jsonrpc.CodeMethodNotFound, "Method not found: the server has no logging")}
	}
	level := levelOf(jsonrpc.Get(req.Params, "level"))
	if level == 0 {
		return exchange.Response{Error: jsonrpc.Errorf(jsonrpc.CodeInvalidParams, "level is none of %s", strings.Join(logLevels, ", "))}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.level = level
	return exchange.Response{Result: []byte("{}")}
}

// Notify drops the note: the sessions of the pool made their own handshake and belong to nobody.
func (s *pooled) Notify(context.Context, exchange.Request) error { return s.calls.open() }

// Done is closed when the session that all share has ended, on which this client watches; nil if it does
// not watch.
func (s *pooled) Done() <-chan struct{} {
	if s.watch == nil {
		return nil
	}
	return s.watch.m.done
}

// Close cancels the calls of this client and ends its subscriptions. The sessions stay in the pool.
func (s *pooled) Close() error {
	if s.calls.close() && s.watch != nil {
		s.stopWatching()
	}
	return nil
}
