package streamable

import (
	"context"
	"errors"
	"net/http"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcp-dualstack/bridge/internal/pulse"
	core "github.com/mcp-dualstack/bridge/internal/session"
	"github.com/mcp-dualstack/bridge/internal/sse"
	"github.com/mcp-dualstack/bridge/negotiate"
)

// A carrier writes the response of one HTTP exchange. Its goroutine is the HTTP handler; nothing else
// writes.
type carrier struct {
	f    *Front
	w    http.ResponseWriter
	rc   *http.ResponseController
	ctx  context.Context // of the request
	gone <-chan struct{} // closed when the client has gone, once the request's body was read
	wake chan struct{}   // capacity 1: its stream has something for it, or it is time to look at the clock

	long  bool          // it is the first flush of a stream that no call ends
	grace time.Duration // for the first message, before the head goes out without it; zero or less: none

	alarm pulse.Alarm
	timed bool         // alarm is on the clock: the exchange takes longer than most
	slow  pulse.Alarm  // while the body is being read
	until atomic.Int64 // unix nanoseconds; when the connection is to be released; zero: never
	drain func()       // guarded by f.mu: ends the stream when the front shuts down; nil: its call does

	stop context.CancelCauseFunc // guarded by f.mu: ends the call when the front is closed; nil: whoever writes does

	helper func() // writes while the handler carries the call out itself; nil: the handler does nothing but write

	mu   sync.Mutex
	over bool // the handler has returned, or the connection was given up
	body bool // the body is being read

	interrupted bool // was the reading of it

	turn   turn          // to write, if there is a helper
	helped chan struct{} // closed when the helper has returned; nil: it has not begun
}

var (
	errGone     = errors.New("the client has gone")
	errReplaced = errors.New("cut off, or another connection has taken over")

	valuesStream   = []string{mediaStream}
	valuesJSON     = []string{mediaJSON}
	valuesNoCache  = []string{"no-store, no-transform"}
	valuesNoBuffer = []string{"no"}
	keepAlive      = sse.AppendComment(nil, "keep-alive")
)

// deadline sets the time until which writing may take, zero for ever, unless the connection was given up.
func (c *carrier) deadline(t time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.over {
		_ = c.rc.SetWriteDeadline(t) // a writer without deadlines has none to keep
	}
}

// abort gives the connection up: what is being read or written ends with an error.
func (c *carrier) abort() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.over {
		c.over = true
		_ = c.rc.SetReadDeadline(time.Unix(1, 0))
		_ = c.rc.SetWriteDeadline(time.Unix(1, 0))
	}
}

// finished makes abort do nothing any more: the connection may serve another exchange.
func (c *carrier) finished() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over = true
}

// Who writes the response of an exchange that can have help.
type turn uint8

const (
	turnOpen    turn = iota // nobody yet
	turnHelper              // the helper, which was started
	turnHandler             // the handler, at the end
)

// help has helper write, in a goroutine of its own, once assist is called, until alone is.
func (c *carrier) help(helper func()) { c.helper = helper }

// assist has the helper begin, if there is one to begin.
func (c *carrier) assist() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.helper == nil || c.turn != turnOpen {
		return
	}
	helped := make(chan struct{})
	c.turn, c.helped = turnHelper, helped
	go func() {
		defer close(helped)
		c.helper()
	}()
}

// alone waits for the helper if it has begun. If not, it reports true: it will not, and the handler writes.
func (c *carrier) alone() bool {
	c.mu.Lock()
	helped := c.helped
	if c.turn == turnOpen {
		c.turn = turnHandler
	}
	c.mu.Unlock()
	if helped == nil {
		return true
	}
	<-helped
	return false
}

func (c *carrier) signal() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// json answers with one JSON text.
func (c *carrier) json(status int, body []byte) {
	h := c.w.Header()
	h["Content-Type"] = valuesJSON
	h["Content-Length"] = []string{strconv.Itoa(len(body))}
	c.deadline(time.Now().Add(c.f.o.WriteTimeout))
	c.w.WriteHeader(status)
	_, _ = c.w.Write(body) // #nosec G705 -- JSON, no page; there is nobody to tell
}

// accepted answers 202 without a body.
func (c *carrier) accepted() { c.w.WriteHeader(http.StatusAccepted) }

// startLong begins an event stream that may be silent for long.
func (c *carrier) startLong() {
	c.long = true
	core.Aside(c.startStream)
}

// startStream begins an event stream.
func (c *carrier) startStream() {
	h := c.w.Header()
	h["Content-Type"] = valuesStream
	h["Cache-Control"] = valuesNoCache
	h["X-Accel-Buffering"] = valuesNoBuffer
	c.w.WriteHeader(http.StatusOK)
}

// write writes b within the write timeout. An error ends the stream.
func (c *carrier) write(b []byte) error {
	c.deadline(time.Now().Add(c.f.o.WriteTimeout))
	_, err := c.w.Write(b) // #nosec G705 -- JSON and event streams, as Content-Type says
	return err
}

// flush sends what was written and lifts the deadline, the server's own included: a stream may be
// silent for as long as it likes.
func (c *carrier) flush() error {
	c.deadline(time.Now().Add(c.f.o.WriteTimeout))
	err := c.push()
	c.deadline(time.Time{})
	return err
}

// push flushes; the head, which goes deep, on another stack than that of a stream that may be silent for long.
func (c *carrier) push() error {
	if !c.long {
		return c.rc.Flush()
	}
	c.long = false
	var err error
	core.Aside(func() { err = c.rc.Flush() })
	return err
}

// carry writes what st has and gets, until st is over or the connection is to be released. The error is errReplaced,
// errGone, or that of a write. The header has been written.
func (c *carrier) carry(st *stream) error {
	defer st.detach(c)
	var due time.Time // of a comment
	dirty := true     // the header
	for {
		wrote, state, err := c.take(st)
		if err != nil {
			return err
		}
		dirty = dirty || wrote
		switch state {
		case streamOver:
			return nil // the server flushes when the handler returns
		case streamReplaced:
			return errReplaced
		}
		if !wrote && c.hurried() {
			continue
		}
		now := time.Now()
		if c.isReleased(now) {
			if done, err := c.farewell(st); done {
				return err
			}
			continue
		}
		if !dirty && !now.Before(due) {
			if err := c.write(keepAlive); err != nil {
				return err
			}
			dirty = true
		}
		if dirty {
			if err := c.flush(); err != nil {
				return err
			}
			dirty, due = false, now.Add(c.f.clock.Pause(c.f.o.KeepAlive))
		}
		c.ring(c.sooner(due))
		select {
		case <-c.wake:
			runtime.Gosched() // who has more to say does it now: one write for all
		case <-c.gone:
			return errGone
		case <-c.f.ctx.Done():
			return errGone
		}
	}
}

// ring wakes the carrier at t, up to a tick of the clock later.
func (c *carrier) ring(t time.Time) {
	if !c.timed {
		c.f.clock.Add(&c.alarm, c.wake)
		c.timed = true
	}
	c.alarm.Set(t)
}

// untimed takes the carrier off the clock.
func (c *carrier) untimed() {
	if c.timed {
		c.alarm.Remove()
		c.timed = false
	}
}

// hurried waits for the first message for as long as the grace allows, once, and reports whether there may be one.
func (c *carrier) hurried() bool {
	if c.grace <= 0 {
		return false
	}
	t := time.NewTimer(c.grace)
	defer t.Stop()
	c.grace = 0
	select {
	case <-c.wake:
		return true
	case <-t.C:
	case <-c.gone:
	case <-c.f.ctx.Done():
	}
	return false
}

// take writes what st has. It keeps no buffer while there is nothing to write.
func (c *carrier) take(st *stream) (wrote bool, state streamState, err error) {
	buf := takeBuffer()
	defer giveBuffer(buf)
	for {
		var out []byte
		out, state = st.take(c, (*buf)[:0])
		*buf = out[:0]
		if len(out) > 0 {
			if err := c.write(out); err != nil {
				return true, state, err
			}
			wrote = true
		}
		if state != streamMore {
			return wrote, state, nil
		}
	}
}

// release lets the connection of a stream go at t, which its client knows how to come back to.
func (c *carrier) release(t time.Time) {
	c.until.Store(t.UnixNano())
	c.signal()
}

func (c *carrier) isReleased(now time.Time) bool {
	until := c.until.Load()
	return until != 0 && now.UnixNano() >= until
}

// sooner returns t, or when the connection is to be released if that comes before.
func (c *carrier) sooner(t time.Time) time.Time {
	if until := c.until.Load(); until != 0 && until < t.UnixNano() {
		return time.Unix(0, until)
	}
	return t
}

// farewell ends the connection, not the stream: it tells a client that knows of it when to come back, and to what
// (2025-11-25 basic/transports, Sending Messages to the Server, point 6, and Listening for Messages from the Server, point
// 4). The event has an id of its own, since go-sdk takes a stream that ends again and again at the same one for broken. It
// reports false when there is something to be sent first.
func (c *carrier) farewell(st *stream) (done bool, err error) {
	if st.owner == nil || !st.owner.core.Revision().Has(negotiate.PrimingEvent) {
		return true, nil
	}
	id, ok := st.mark(c)
	if !ok {
		return false, nil
	}
	return true, c.write(sse.AppendEvent(nil, sse.Event{ID: id, Retry: c.f.o.Retry}))
}

// tick is how often open streams are looked at.
func (o *Options) tick() time.Duration {
	d := o.KeepAlive / 100
	if o.PollAfter > 0 {
		d = min(d, o.PollAfter/50)
	}
	if o.MaxStreamAge > 0 {
		d = min(d, o.MaxStreamAge/50)
	}
	return max(d, time.Millisecond)
}

const maxKeptBuffer = 64 << 10

var buffers = sync.Pool{New: func() any { b := make([]byte, 0, 4<<10); return &b }}

func takeBuffer() *[]byte { return buffers.Get().(*[]byte) }

func giveBuffer(b *[]byte) {
	if cap(*b) <= maxKeptBuffer {
		buffers.Put(b)
	}
}
