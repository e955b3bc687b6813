package legacy

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/internal/session"
	"github.com/mcp-dualstack/bridge/negotiate"
)

// A stream is the GET of one client and the session that lives on it. The GET's goroutine is the
// only one that writes to the client. It is the session's outlet for everything.
type stream struct {
	front     *Front
	id        string // of the session: 130 random bits
	principal string
	session   *session.Session
	out       *outbox
	end       context.CancelCauseFunc // ends the stream; the cause is what calls in flight get

	retired   bool         // guarded by the front's mu: no more messages are taken
	spoke     atomic.Bool  // a message came
	asked     atomic.Bool  // an initialize came, so that this client knows how to begin
	versioned atomic.Bool  // a version header was observed
	last      atomic.Int64 // unix nanoseconds of the last message either way

	wmu   sync.Mutex
	w     *http.ResponseController // nil after the GET has returned
	until time.Time                // no write may last longer; zero: no limit but WriteTimeout
}

// lastWrites is how long the writes that end a stream may take when the bridge is in a hurry.
const lastWrites = time.Second

// Stream returns the handler of the GET route.
func (f *Front) Stream() http.Handler { return http.HandlerFunc(f.serveStream) }

func (f *Front) serveStream(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet {
		f.refuse(w, r, notAllowed(http.MethodGet))
		return
	}
	if !acceptsStream(r.Header) {
		f.refuse(w, r, notAcceptable())
		return
	}
	ctx, end := context.WithCancelCause(r.Context())
	defer end(nil)
	s := f.newStream(w, r, end)
	if err := f.enter(s); err != nil {
		f.refuse(w, r, unavailable(err))
		return
	}
	defer f.leave(s)
	s.observe(exchange.SeenStream, "")
	s.seeVersion(r)
	s.serve(ctx, w, r)
}

func (f *Front) newStream(w http.ResponseWriter, r *http.Request, end context.CancelCauseFunc) *stream {
	s := &stream{
		front:     f,
		id:        rand.Text(),
		principal: f.o.Principal(r),
		out:       newOutbox(f.o.StreamBytes),
		end:       end,
		w:         http.NewResponseController(w),
	}
	s.last.Store(time.Now().UnixNano())
	s.session = session.New(session.Options{
		Handler:  f.handler,
		Standing: s,
		Client: exchange.Client{
			Principal: s.principal,
			Transport: exchange.HTTPSSE,
			Session:   s.id,
			Addr:      f.o.Addr(r),
			UserAgent: r.UserAgent(),
		},
		Enabled:    f.o.Enabled,
		BridgeInfo: f.o.BridgeInfo,
		MaxCalls:   f.o.MaxCalls,
		AskTimeout: f.o.AskTimeout,
		Refuse:     f.o.Refuse,
		Observe:    f.o.Observe,
		Ended:      func() { end(exchange.Fail(exchange.ReasonLost, nil)) },
		Failed:     func(err error) { end(err) },
		Logger:     f.o.Logger,
	})
	return s
}

// Notify queues a notification. The error means that the stream has ended, or was cut just now.
func (s *stream) Notify(_ string, msg []byte) error { return s.push(msg, false) }

// Ask queues a question.
func (s *stream) Ask(_ context.Context, msg []byte) error { return s.push(msg, false) }

// Finish queues an answer. An answer that finds no room cuts the stream, and so is not lost in silence.
func (s *stream) Finish(msg []byte) {
	if msg == nil {
		s.out.wake() // the end of a call may be what a shutdown waits for
		return
	}
	_ = s.push(msg, true) // the stream has ended, which tells the client
}

func (s *stream) push(msg []byte, answer bool) error {
	err := s.out.push(msg, answer)
	if err == errCut {
		s.front.o.Logger.Warn("stream cut: the client reads too slowly", "session", s.short(), "bytes", s.front.o.StreamBytes)
		s.observe(exchange.SeenDropped, exchange.ReasonStreamCut)
		s.end(exchange.Fail(exchange.ReasonStreamCut, err))
		s.hurry(0)
	}
	if err != nil {
		return exchange.Fail(exchange.ReasonStreamCut, err)
	}
	return nil
}

// serve writes the stream until it ends, and then ends the session.
func (s *stream) serve(ctx context.Context, w http.ResponseWriter, r *http.Request) {
	out := &writer{s: s, w: w}
	err := out.begin(s.front.endpoint(r, s.id))
	if err == nil {
		err = s.loop(ctx, out)
	}
	if errors.Is(err, http.ErrNotSupported) {
		s.front.o.Logger.Error("streams need a response writer that can flush, or unwraps to one")
	}
	s.front.retire(s)
	cause := context.Cause(ctx)
	if err != nil || r.Context().Err() != nil { // the client is gone
		cause = nil
	}
	s.session.Close(cause)
	if cause != nil {
		err = out.queued() // the errors of the calls that were in flight
	}
	s.out.close()
	s.release()
	if !s.spoke.Load() {
		s.observe(exchange.SeenSilent, "")
	}
	s.front.o.Logger.LogAttrs(context.Background(), slog.LevelDebug, "stream ended",
		slog.String("session", s.short()), slog.Any("cause", cause), slog.Any("err", err))
}

// loop writes what comes until ctx ends, a drained stream has nothing left to do, or a write fails.
func (s *stream) loop(ctx context.Context, out *writer) error {
	beat := time.NewTimer(s.beat())
	defer beat.Stop()
	draining := s.front.draining
	drained := false
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.out.ready:
			if err := out.queued(); err != nil {
				return err
			}
		case <-beat.C:
			if s.isIdle() {
				s.end(exchange.Fail(exchange.ReasonClosed, nil))
				return nil
			}
			if err := out.comment(); err != nil {
				return err
			}
		case <-draining:
			draining, drained = nil, true
		}
		if drained && s.session.Busy() == 0 {
			s.end(exchange.Fail(exchange.ReasonClosed, errDraining))
			return nil
		}
		beat.Reset(s.beat())
	}
}

// beat returns the time to the next comment: up to a tenth less than KeepAlive, so that streams which
// began together do not all write at once.
func (s *stream) beat() time.Duration {
	d := s.front.o.KeepAlive
	return d - jitter(d/10)
}

func (s *stream) isIdle() bool {
	limit := s.front.o.IdleTimeout
	return limit > 0 && s.session.Busy() == 0 && time.Now().UnixNano()-s.last.Load() >= int64(limit)
}

// hurry makes the write that is going on, and each after it, end within d.
func (s *stream) hurry(d time.Duration) {
	s.wmu.Lock()
	defer s.wmu.Unlock()
	if until := time.Now().Add(d); s.until.IsZero() || until.Before(s.until) {
		s.until = until
	}
	if s.w != nil {
		_ = s.w.SetWriteDeadline(s.until) // where there are none, writes end on their own
	}
}

// release lets go of the response.
func (s *stream) release() {
	s.wmu.Lock()
	defer s.wmu.Unlock()
	s.w = nil
}

// seeVersion reports the first version header of the session.
func (s *stream) seeVersion(r *http.Request) {
	v := r.Header.Get(negotiate.HeaderVersion)
	if v == "" || s.versioned.Swap(true) {
		return
	}
	o := s.observation(exchange.SeenVersionHeader)
	o.Version = v
	s.front.o.Observe(o)
}

func (s *stream) observe(kind, detail string) {
	o := s.observation(kind)
	o.Detail = detail
	s.front.o.Observe(o)
}

func (s *stream) observation(kind string) exchange.Observation {
	c := s.session.Client()
	return exchange.Observation{Kind: kind, Transport: c.Transport, Session: c.Session, Addr: c.Addr, UserAgent: c.UserAgent}
}

// short returns as much of the session id as a log may show: who knows it all can write to the session.
func (s *stream) short() string { return s.id[:8] }
