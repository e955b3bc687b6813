package legacy

import (
	"errors"
	"math/rand/v2"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
	"github.com/mcp-dualstack/bridge/internal/sse"
)

// A writer writes the events of one stream. It is used by the goroutine of the GET only.
type writer struct {
	s *stream
	w http.ResponseWriter
}

// maxKeptBytes is the largest buffer that is kept for other streams.
const maxKeptBytes = 64 << 10

var buffers = sync.Pool{New: func() any { return new([]byte) }}

// begin writes the head of the response and the endpoint event.
func (o *writer) begin(endpoint string) error {
	h := o.w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store, no-transform")
	h.Set("X-Accel-Buffering", "no")
	o.w.WriteHeader(http.StatusOK)
	err := o.event("endpoint", []byte(endpoint))
	return errors.Join(err, o.flush())
}

// queued writes the queued messages and flushes when there are no more.
func (o *writer) queued() error {
	msg := o.s.out.pop()
	if msg == nil {
		return nil
	}
	for ; msg != nil; msg = o.s.out.pop() {
		// Some readers never connect without an event name (clients.md 2).
		if err := o.event("message", jsonrpc.OneLine(msg)); err != nil {
			return err
		}
	}
	o.s.last.Store(time.Now().UnixNano())
	return o.flush()
}

// comment writes what keeps an idle connection open.
func (o *writer) comment() error {
	if err := o.write(sse.AppendComment(nil, "keep-alive")); err != nil {
		return err
	}
	return o.flush()
}

func (o *writer) event(name string, data []byte) error {
	buf := buffers.Get().(*[]byte)
	*buf = sse.AppendEvent((*buf)[:0], sse.Event{Name: name, Data: data})
	err := o.write(*buf)
	if cap(*buf) <= maxKeptBytes {
		buffers.Put(buf)
	}
	return err
}

func (o *writer) write(b []byte) error {
	if err := o.arm(); err != nil {
		return err
	}
	_, err := o.w.Write(b)
	return err
}

// flush sends what has been written. It takes the deadline away: HTTP/2 would end the stream by it, though nothing is being written.
func (o *writer) flush() error {
	if err := o.arm(); err != nil {
		return err
	}
	if err := o.s.w.Flush(); err != nil {
		return err
	}
	return o.deadline(time.Time{})
}

// arm gives the next write its deadline. Without one a server's WriteTimeout would count from the request on.
func (o *writer) arm() error { return o.deadline(time.Now().Add(o.s.front.o.WriteTimeout)) }

// deadline sets the write deadline, zero for none. When the stream is to end in a hurry that goes before.
func (o *writer) deadline(t time.Time) error {
	o.s.wmu.Lock()
	defer o.s.wmu.Unlock()
	if until := o.s.until; !until.IsZero() {
		if !time.Now().Before(until) {
			return os.ErrDeadlineExceeded
		}
		if t.IsZero() || until.Before(t) {
			t = until
		}
	}
	if err := o.s.w.SetWriteDeadline(t); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	return nil
}

func jitter(most time.Duration) time.Duration {
	if most <= 0 {
		return 0
	}
	return rand.N(most)
}
