package streamable

import (
	"errors"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/mcp-dualstack/bridge/internal/sse"
)

// A carrier writes the response of one HTTP exchange. Its goroutine is the HTTP handler; nothing else
// writes.
type carrier struct {
	f    *Front
	w    http.ResponseWriter
	rc   *http.ResponseController
	gone <-chan struct{} // closed when the client has gone, once the request's body was read
	wake chan struct{}   // capacity 1: its stream has something for it

	mu   sync.Mutex
	over bool // the handler has returned, or the connection was given up
}

var (
	errGone     = errors.New("the client has gone")
	errReplaced = errors.New("cut off, or another connection has taken over")

	valuesStream   = []string{mediaStream}
	valuesJSON     = []string{mediaJSON}
	valuesNoCache  = []string{"no-cache, no-transform"}
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
	_, _ = c.w.Write(body) // there is nobody to tell
}

// accepted answers 202 without a body.
func (c *carrier) accepted() { c.w.WriteHeader(http.StatusAccepted) }

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
	_, err := c.w.Write(b)
	return err
}

// flush sends what was written and lifts the deadline, the server's own included: a stream may be
// silent for as long as it likes.
func (c *carrier) flush() error {
	c.deadline(time.Now().Add(c.f.o.WriteTimeout))
	err := c.rc.Flush()
	c.deadline(time.Time{})
	return err
}

// carry writes what st has and gets, until st is over. The error is errReplaced, errGone, or that of a
// write. The header has been written.
func (c *carrier) carry(st *stream) error {
	defer st.detach(c)
	buf := takeBuffer()
	defer giveBuffer(buf)
	var timer *time.Timer
	dirty := true // the header
	for {
		out, state := st.take(c, (*buf)[:0])
		*buf = out[:0]
		if len(out) > 0 {
			if err := c.write(out); err != nil {
				return err
			}
			dirty = true
		}
		if state == streamMore {
			continue
		}
		if state == streamOver {
			return nil // the server flushes when the handler returns
		}
		if state == streamReplaced {
			return errReplaced
		}
		if dirty {
			if err := c.flush(); err != nil {
				return err
			}
			dirty = false
		}
		if timer == nil {
			timer = time.NewTimer(c.f.pause())
			defer timer.Stop()
		} else {
			timer.Reset(c.f.pause())
		}
		select {
		case <-c.wake:
		case <-timer.C:
			if err := c.write(keepAlive); err != nil {
				return err
			}
			dirty = true
		case <-c.gone:
			return errGone
		case <-c.f.ctx.Done():
			return errGone
		}
	}
}

// pause is the keep-alive interval less up to a tenth, so that streams opened together do not wake together.
func (f *Front) pause() time.Duration {
	return f.o.KeepAlive - rand.N(f.o.KeepAlive/10+1)
}

const maxKeptBuffer = 64 << 10

var buffers = sync.Pool{New: func() any { b := make([]byte, 0, 4<<10); return &b }}

func takeBuffer() *[]byte { return buffers.Get().(*[]byte) }

func giveBuffer(b *[]byte) {
	if cap(*b) <= maxKeptBuffer {
		buffers.Put(b)
	}
}
