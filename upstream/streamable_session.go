package upstream

import (
	"context"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
	"github.com/mcp-dualstack/bridge/negotiate"
)

// A streamSession is one client's conversation with a Streamable HTTP server of the handshake era (2025-03-26
// to 2025-11-25 transports). A request is a POST, and what comes with its response belongs to it; the rest comes
// on the standing stream of a GET.
type streamSession struct {
	l         *leg
	o         *Options
	log       *slog.Logger
	noise     *noise
	back      exchange.Peer // for what belongs to no call; nil: nobody
	authorize string        // the client's own credentials, in pass-through mode
	spawn     func(func()) bool
	release   func()          // called once when the session holds nothing any more
	server    exchange.Server // complete before the session is handed out

	ctx     context.Context // ends with the session
	cancel  context.CancelCauseFunc
	wg      sync.WaitGroup // every goroutine the session started; the end of ctx ends them
	lost    chan struct{}  // closed when the server's side has ended by itself
	greeted chan struct{}  // closed when the server knows that the client is ready
	once    sync.Once      // of Close

	mu        sync.Mutex
	ended     *exchange.Failure  // why the session is over; nil while it is not
	id        string             // Mcp-Session-Id; empty: the server gave none
	revision  negotiate.Revision // None until the handshake is done
	lastID    int64
	calls     map[int64]*post
	questions questions
	ghosts    ghosts
	lingering int           // responses of cancelled calls that are still read
	replies   int           // answers of the connector's own on their way
	greeting  *greeting     // nil before the first attempt
	listening bool          // the standing stream is open
	deleted   bool          // the server was asked to end the session
	deaf      chan struct{} // closed when the standing stream ends; nil unless somebody waits for that
}

// A greeting is an attempt to send notifications/initialized.
type greeting struct {
	done chan struct{} // closed when err is set
	err  error
}

func (g *greeting) failed() bool {
	select {
	case <-g.done:
		return g.err != nil
	default:
		return false
	}
}

// Server says who answers.
func (s *streamSession) Server() exchange.Server { return s.server }

// Call asks the server, after it has been told that the client is ready.
func (s *streamSession) Call(ctx context.Context, req exchange.Request, back exchange.Peer) (exchange.Response, error) {
	if ctx.Err() != nil {
		return exchange.Response{}, context.Cause(ctx)
	}
	if err := s.greet(ctx, exchange.Request{Method: noteInitialized}); err != nil {
		return exchange.Response{}, err
	}
	if d := s.l.o.CallTimeout; d > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, d, errCallTimeout)
		defer cancel()
	}
	resp, err := s.call(ctx, req, newCall(ctx, req, back))
	if unknown, ok := methodNotFound(req.Method, err); ok {
		return unknown, nil
	}
	return resp, err
}

var errCallTimeout error = exchange.Fail(exchange.ReasonTimeout, nil)

// Notify tells the server and waits until it has taken the note. What the connector says itself is dropped.
func (s *streamSession) Notify(ctx context.Context, note exchange.Request) error {
	switch note.Method {
	case noteInitialized:
		return s.greet(ctx, note)
	case "notifications/cancelled": // fronts end the call's ctx
		return nil
	}
	err := s.say(ctx, jsonrpc.AppendNotification(nil, note.Method, note.Params))
	if err == nil && note.Sent != nil {
		note.Sent()
	}
	return err
}

// greet sends notifications/initialized once: when the client does, or before its first request, which waits until
// the server has taken it. An attempt that failed is followed by another.
func (s *streamSession) greet(ctx context.Context, note exchange.Request) error {
	s.mu.Lock()
	if s.ended != nil {
		defer s.mu.Unlock()
		return s.ended
	}
	g := s.greeting
	if g == nil || g.failed() {
		g = &greeting{done: make(chan struct{})}
		s.greeting = g
		s.wg.Go(func() {
			g.err = s.say(s.ctx, jsonrpc.AppendNotification(nil, noteInitialized, note.Params))
			if g.err == nil {
				close(s.greeted)
			}
			close(g.done)
		})
	}
	s.mu.Unlock()
	select {
	case <-g.done:
		return g.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Done is closed when the server has forgotten the session.
func (s *streamSession) Done() <-chan struct{} { return s.lost }

// Close cancels what is in flight and ends the session at the server. It does not wait for that;
// Remote.Close does.
func (s *streamSession) Close() error {
	s.once.Do(func() {
		open := s.end(exchange.Fail(exchange.ReasonClosed, nil))
		if !s.spawn(func() { s.leave(open) }) { // bounded by CloseGrace
			s.wg.Wait()
			s.release()
		}
	})
	return nil
}

// part is Close for a session that nobody calls any more but whose news somebody wants: what the server said on
// the standing stream is heard before it is cut.
func (s *streamSession) part() {
	s.once.Do(func() {
		spawned := s.spawn(func() { // bounded by CloseGrace and partingTime
			s.hearOut()
			s.leave(s.end(exchange.Fail(exchange.ReasonClosed, nil)))
		})
		if !spawned {
			s.end(exchange.Fail(exchange.ReasonClosed, nil))
			s.wg.Wait()
			s.release()
		}
	})
}

// partingTime is how long the standing stream is still read once the server has answered the DELETE. A server that
// ends the stream, as most do, is not waited for.
const partingTime = 100 * time.Millisecond

// hearOut deletes the session and reads its standing stream to the end. A note and the result of the call
// that caused it come on two connections, and the result may be faster.
func (s *streamSession) hearOut() {
	s.mu.Lock()
	if !s.listening || s.ended != nil {
		s.mu.Unlock()
		return
	}
	deaf := make(chan struct{})
	s.deaf = deaf
	s.mu.Unlock()
	ctx, cancel := context.WithTimeout(s.ctx, s.o.CloseGrace)
	s.delete(ctx)
	cancel()
	t := time.NewTimer(partingTime)
	defer t.Stop()
	select {
	case <-deaf:
	case <-s.ctx.Done():
	case <-t.C:
	}
}

// leave says goodbye: it takes back what was in flight and deletes the session.
func (s *streamSession) leave(open []*post) {
	defer s.release()
	s.wg.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), s.o.CloseGrace)
	defer cancel()
	if s.forgotten() {
		return
	}
	var told sync.WaitGroup
	for _, p := range open[:min(len(open), maxGoodbyes)] {
		if !p.internal {
			told.Go(func() { _ = s.deliver(ctx, cancelled(p.id, "")) }) // nobody is left to hear of an error
		}
	}
	told.Wait()
	s.delete(ctx)
}

// delete asks the server to end the session, once.
func (s *streamSession) delete(ctx context.Context) {
	s.mu.Lock()
	needless := s.id == "" || s.deleted
	s.deleted = true
	s.mu.Unlock()
	if needless {
		return
	}
	resp, err := s.l.do(ctx, send{method: http.MethodDelete, header: s.header(nil), authorization: s.authorize})
	if err != nil {
		s.log.Debug("delete upstream session", "err", s.l.sendFailure(err))
		return
	}
	drain(resp) // 405: the server does not let clients end a session
}

// maxGoodbyes bounds the calls that are taken back one by one when a session ends; deleting it ends the rest.
const maxGoodbyes = 16

func (s *streamSession) forgotten() bool {
	select {
	case <-s.lost:
		return true
	default:
		return false
	}
}

// end fails every call with the reason, and everything that comes later; it returns the calls. Only the first reason
// counts.
func (s *streamSession) end(reason *exchange.Failure) []*post {
	s.mu.Lock()
	if s.ended != nil {
		s.mu.Unlock()
		return nil
	}
	s.ended = reason
	open := make([]*post, 0, len(s.calls))
	for _, p := range s.calls {
		open = append(open, p)
		s.finish(p, outcome{err: reason})
		p.overNow()
	}
	s.mu.Unlock()
	s.cancel(reason)
	return open
}

// header returns the fields of a message: the version of this leg and the session, once there are any
// (2025-06-18 transports, Protocol Version Header). more is added.
func (s *streamSession) header(more http.Header) http.Header {
	h := http.Header{headerAccept: {acceptBoth}}
	s.mu.Lock()
	if s.id != "" {
		h[negotiate.HeaderSession] = []string{s.id}
	}
	if s.revision != negotiate.None {
		h[negotiate.HeaderVersion] = []string{s.revision.String()}
	}
	s.mu.Unlock()
	for name, values := range more {
		h[name] = values
	}
	return h
}

// orderGrace is how long a request has a head start on the wire before the next of the same client
// follows: on two connections nothing else keeps their order.
const orderGrace = time.Millisecond
