package upstream

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
	"github.com/mcp-dualstack/bridge/negotiate"
)

// A stateless is a server of 2026-07-28 behind a URL, as all its clients share it (2026-07-28 streamable-http). Each
// request is a POST, and to close its response is to cancel it.
type stateless struct {
	l       *leg
	o       *Options
	log     *slog.Logger
	noise   *noise
	schemas *schemas
	doubt   func() // the server turned out not to be what it was taken for

	lastID atomic.Int64
}

func newStateless(l *leg, o *Options, doubt func()) *stateless {
	m := &stateless{
		l: l, o: o, log: o.Logger, doubt: doubt,
		noise: &noise{log: o.Logger, level: slog.LevelWarn, text: "upstream said something unexpected"},
	}
	m.schemas = newSchemas(m)
	return m
}

// call sends a request of 2026-07-28, repaired once where the server refused its headers or its version, which proves that it
// did not run (translation.md 11, 4). auth is the caller's own authorization in pass-through mode. The errors are
// the cause of ctx and *exchange.Failure.
func (m *stateless) call(ctx context.Context, auth string, req exchange.Request, back exchange.Peer) (exchange.Response, error) {
	repaired := false
	for {
		resp, err := m.mirrored(ctx, auth, req, back)
		if err != nil || resp.Error == nil {
			return resp, err
		}
		switch e := resp.Error; {
		case e.Code == jsonrpc.CodeHeaderMismatch:
			if repaired || req.Method != "tools/call" {
				return exchange.Response{}, exchange.Fail(exchange.ReasonHeaders, e)
			}
			m.schemas.forget(auth)
		case e.Code == jsonrpc.CodeUnsupportedVersion:
			if repaired || negotiate.ReadSet(jsonrpc.Get(e.Data, "supported"))&negotiate.Modern == 0 {
				m.doubt()
				return exchange.Response{}, exchange.Fail(exchange.ReasonVersion, e)
			}
		default:
			return resp, nil
		}
		repaired = true
		req.Sent = nil // it has been called: the refusal is an answer
	}
}

// mirrored sends a request with the headers that its body calls for.
func (m *stateless) mirrored(ctx context.Context, auth string, req exchange.Request, back exchange.Peer) (exchange.Response, error) {
	var params []negotiate.Param
	if req.Method == "tools/call" {
		params = m.schemas.of(ctx, auth, req)
		if ctx.Err() != nil {
			return exchange.Response{}, context.Cause(ctx)
		}
	}
	header, refusal := m.header(req, params)
	if refusal != nil {
		return exchange.Response{Error: refusal}, nil
	}
	return m.send(ctx, auth, header, req, back)
}

// send sends a request: once, and once more if nothing of it was sent or if it may run twice.
func (m *stateless) send(ctx context.Context, auth string, header http.Header, req exchange.Request, back exchange.Peer) (exchange.Response, error) {
	wrote, began := headStart(req.Sent)
	for attempt := 0; ; attempt++ {
		cl := newCall(ctx, req, back)
		cl.id = m.lastID.Add(1)
		s := send{method: http.MethodPost, header: header, body: requestBody(cl, req), authorization: auth, wrote: wrote}
		r, err := m.l.ask(ctx, s, cl.id, m.o.MaxMessageBytes, func(msg *jsonrpc.Message) { m.other(msg, cl) })
		if r.resp != nil {
			began()
		}
		if err == nil {
			return m.conclude(r)
		}
		if ctx.Err() != nil {
			return exchange.Response{}, context.Cause(ctx)
		}
		if attempt > 0 || !again(err, req.Method) || pauseFor(ctx, redialDelay) != nil {
			return exchange.Response{}, m.l.sendFailure(err)
		}
	}
}

// conclude returns the outcome of a reply. A refusal that no server of this revision gives calls the verdict into doubt.
func (m *stateless) conclude(r reply) (exchange.Response, error) {
	resp, err := m.l.outcome(r)
	switch r.resp.StatusCode {
	case http.StatusBadRequest, http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusGone:
		if r.answer == nil {
			m.doubt()
		}
	}
	return resp, err
}

// other deals with what comes on the response stream of a call before its answer.
func (m *stateless) other(msg *jsonrpc.Message, cl *call) {
	if msg.Kind == jsonrpc.Request {
		m.noise.report("request of a modern server dropped: "+msg.Method, nil) // there is no way to answer it
		return
	}
	params := msg.Params
	switch msg.Method {
	case "notifications/progress":
		if id, ok := tokenID(jsonrpc.Get(params, negotiate.MetaProgressToken)); !ok || id != cl.id || cl.token == nil {
			return
		}
		params = jsonrpc.Set(params, cl.token, negotiate.MetaProgressToken)
	case "notifications/message":
		if !cl.logs {
			return
		}
	case "notifications/tools/list_changed":
		m.schemas.forgetAll()
	}
	if cl.back == nil || cl.ctx.Err() != nil {
		return
	}
	// An error says that it will not arrive, which the front reports.
	_ = cl.back.Notify(cl.ctx, exchange.Request{Method: msg.Method, Params: params})
}

// A statelessSession is one client's use of a server of 2026-07-28.
type statelessSession struct {
	m      *stateless
	server exchange.Server
	auth   string

	mu     sync.Mutex
	closed bool
	calls  map[*context.CancelCauseFunc]struct{}
}

// Server says who answers.
func (s *statelessSession) Server() exchange.Server { return s.server }

// Call asks the server.
func (s *statelessSession) Call(ctx context.Context, req exchange.Request, back exchange.Peer) (exchange.Response, error) {
	if ctx.Err() != nil {
		return exchange.Response{}, context.Cause(ctx)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if err := s.enter(&cancel); err != nil {
		return exchange.Response{}, err
	}
	defer s.leave(&cancel)
	if d := s.m.l.o.CallTimeout; d > 0 && req.Method != methodListen {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeoutCause(ctx, d, errCallTimeout)
		defer stop()
	}
	resp, err := s.m.call(ctx, s.auth, req, back)
	if err == nil && req.Method == "tools/list" && resp.Error == nil {
		resp.Result = s.m.schemas.learn(s.auth, resp.Result)
	}
	return resp, err
}

func (s *statelessSession) enter(cancel *context.CancelCauseFunc) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errSessionClosed
	}
	if s.calls == nil {
		s.calls = make(map[*context.CancelCauseFunc]struct{}, 1)
	}
	s.calls[cancel] = struct{}{}
	return nil
}

func (s *statelessSession) leave(cancel *context.CancelCauseFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.calls, cancel)
}

// Notify drops the note: the core protocol of 2026-07-28 has none from the client over HTTP (translation.md 6.2).
func (s *statelessSession) Notify(context.Context, exchange.Request) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errSessionClosed
	}
	return nil
}

// Done is nil: the server keeps nothing that could be lost.
func (s *statelessSession) Done() <-chan struct{} { return nil }

// Close cancels what is in flight.
func (s *statelessSession) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for cancel := range s.calls {
		(*cancel)(errSessionClosed)
	}
	return nil
}

var errNotModern = errors.New("server/discover does not offer 2026-07-28")
