package legacy

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/internal/pulse"
	core "github.com/mcp-dualstack/bridge/internal/session"
	"github.com/mcp-dualstack/bridge/internal/sse"
)

// A stream is the GET of one client. Its goroutine is the only one that writes to the client. It carries one session, its
// own or the one that the client comes back to.
type stream struct {
	front   *Front
	session atomic.Pointer[session] // nil: another stream carries it. Changed under the front's mu only
	wake    chan struct{}           // capacity 1: there is something to look at
	alarm   pulse.Alarm
	until   time.Time    // when it is old enough; zero: never
	lot     float64      // its place in what is spread over streams, from 0 to 1
	drained atomic.Bool  // it is to end when it has nothing left to do
	doom    atomic.Int64 // unix nanoseconds from which on it is to end; zero: not

	wmu   sync.Mutex
	w     *http.ResponseController // nil after the GET has returned
	limit time.Time                // no write may last longer; zero: no limit but WriteTimeout
}

// lastWrites is how long the writes that end a stream may take when the bridge is in a hurry.
const lastWrites = time.Second

// Stream returns the handler of the GET route.
func (f *Front) Stream() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { f.ServeStream(w, r, Opening{}) })
}

// ServeStream serves GET as the retirement wants the stream to begin.
func (f *Front) ServeStream(w http.ResponseWriter, r *http.Request, how Opening) {
	if r.Method != http.MethodGet {
		f.refuse(w, r, notAllowed(http.MethodGet))
		return
	}
	if !acceptsStream(r.Header) {
		f.refuse(w, r, notAcceptable())
		return
	}
	st := &stream{front: f, wake: make(chan struct{}, 1), lot: rand.Float64(), w: http.NewResponseController(w)} // #nosec G404 -- a lot, not a secret
	var s *session
	var refused *refusal
	core.Aside(func() { s, refused = f.open(st, r, how.Tombstone) })
	if refused == errNoPlot && how.Full != nil {
		f.seeBound(r, refused)
		how.Full.ServeHTTP(w, r)
		return
	}
	if refused != nil {
		f.refuse(w, r, refused)
		return
	}
	defer f.leave()
	f.clock.Add(&st.alarm, st.wake)
	defer st.alarm.Remove()
	core.Aside(func() {
		kind := exchange.SeenStream
		if how.Tombstone {
			kind = exchange.SeenTombstone
		}
		s.observe(kind, "")
		s.seeVersion(r)
	})
	st.serve(s, w, r, how.Retry)
}

// Why a stream ends, beside the end of its session.
var (
	errGone     = errors.New("the client has gone")
	errReplaced = errors.New("another stream carries the session")
	errOld      = errors.New("the stream is old")
)

// serve writes the stream until it ends, and then ends the session, unless that goes on without it.
func (st *stream) serve(s *session, w http.ResponseWriter, r *http.Request, retry time.Duration) {
	f := st.front
	out := &writer{st: st, w: w}
	var err error
	core.Aside(func() {
		err = out.begin(sse.Event{Name: "endpoint", ID: f.newCursor(s), Data: []byte(f.endpoint(r, s.id)), Retry: retry})
	})
	if err == nil {
		err = st.loop(r.Context().Done(), out)
	}
	if errors.Is(err, http.ErrNotSupported) {
		f.o.Logger.Error("streams need a response writer that can flush, or unwraps to one")
	}
	defer st.release()
	s = st.session.Load()
	if s == nil || f.await(s, st, err) {
		f.o.Logger.Debug("stream left", "err", err)
		return
	}
	cause := context.Cause(s.ctx)
	if s.ctx.Err() == nil && err == errOld {
		cause = exchange.Fail(exchange.ReasonClosed, err)
	}
	if r.Context().Err() != nil || err != nil && err != errOld { // the client is gone
		cause = nil
	}
	s.close(cause, out)
	f.o.Logger.LogAttrs(context.Background(), slog.LevelDebug, "stream ended",
		slog.String("session", s.short()), slog.Any("cause", cause), slog.Any("err", err))
}

// loop writes what comes until the session ends (nil), the client is gone, another stream takes over, or a write fails.
func (st *stream) loop(gone <-chan struct{}, out *writer) error {
	f := st.front
	due := time.Now().Add(f.clock.Pause(f.o.KeepAlive))
	for {
		s := st.session.Load()
		if s == nil {
			return errReplaced
		}
		wrote, err := out.queued(s)
		if err != nil {
			return err
		}
		now := time.Now()
		if !wrote && !now.Before(due) {
			if s.isIdle() {
				s.end(exchange.Fail(exchange.ReasonClosed, nil))
				return nil
			}
			if err := out.comment(); err != nil {
				return err
			}
			wrote = true
		}
		if wrote {
			due = now.Add(f.clock.Pause(f.o.KeepAlive))
		}
		if st.drained.Load() && s.core.Busy() == 0 {
			s.end(exchange.Fail(exchange.ReasonClosed, errDraining))
			return nil
		}
		if !st.until.IsZero() && !now.Before(st.until) {
			return errOld
		}
		doom, over := st.doomed(s, now)
		if over {
			s.end(exchange.Fail(exchange.ReasonClosed, errRetired))
			return nil
		}
		st.setAlarm(earlier(due, doom))
		select {
		case <-s.out.ready:
			if s.core.Busy() > 0 {
				runtime.Gosched() // who is about to queue a message does it now: one write for all
			}
		case <-st.wake:
		case <-s.ctx.Done():
			if st.session.Load() == s { // else this one ended because the client has its old one again
				return nil
			}
		case <-gone:
			return errGone
		}
	}
}

func (st *stream) setAlarm(due time.Time) { st.alarm.Set(earlier(due, st.until)) }

// earlier returns the earlier of a and b, a if b is zero.
func earlier(a, b time.Time) time.Time {
	if !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// look makes the stream's goroutine look at what has changed.
func (st *stream) look() {
	select {
	case st.wake <- struct{}{}:
	default:
	}
}

// drain ends the stream when its session has no calls.
func (st *stream) drain() {
	st.drained.Store(true)
	st.look()
}

// hurry makes the write that is going on, and each after it, end within d.
func (st *stream) hurry(d time.Duration) {
	st.wmu.Lock()
	defer st.wmu.Unlock()
	if limit := time.Now().Add(d); st.limit.IsZero() || limit.Before(st.limit) {
		st.limit = limit
	}
	if st.w != nil {
		_ = st.w.SetWriteDeadline(st.limit) // where there are none, writes end on their own
	}
}

// release lets go of the response.
func (st *stream) release() {
	st.wmu.Lock()
	defer st.wmu.Unlock()
	st.w = nil
}
