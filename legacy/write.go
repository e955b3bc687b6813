package legacy

import (
	"errors"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
	"github.com/mcp-dualstack/bridge/internal/sse"
)

// A writer writes the events of one stream. It is used by the goroutine of the GET only.
type writer struct {
	st   *stream
	w    http.ResponseWriter
	sent [][]byte // since the last flush
}

const (
	batchBytes   = 32 << 10       // of events that are written at once
	turnBytes    = 8 * batchBytes // of events that are written before the loop looks at everything else
	smallBytes   = 1 << 10        // what a server buffers at least
	maxKeptBytes = 64 << 10       // the largest buffer that is kept for other streams
)

var buffers = sync.Pool{New: func() any { return new([]byte) }}

func giveBuffer(buf *[]byte) {
	if cap(*buf) <= maxKeptBytes {
		buffers.Put(buf)
	}
}

// begin writes the head of the response and the endpoint event.
func (o *writer) begin(endpoint sse.Event) error {
	h := o.w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store, no-transform")
	h.Set("X-Accel-Buffering", "no")
	o.w.WriteHeader(http.StatusOK)
	err := o.event(endpoint)
	return errors.Join(err, o.flush())
}

// queued writes the queued messages of s, many at a time, flushes, and reports whether there were any. Of a server that says as much
// as the client reads it leaves some for the next time. What may not have been sent when a write fails is queued again, for the
// stream after this one.
func (o *writer) queued(s *session) (wrote bool, err error) {
	defer func() {
		if err != nil {
			s.out.restore(o.sent)
		}
		clear(o.sent)
		o.sent = o.sent[:0]
	}()
	msg := s.out.pop()
	if msg == nil {
		return false, nil
	}
	buf := buffers.Get().(*[]byte)
	defer giveBuffer(buf)
	b := (*buf)[:0]
	for written := 0; msg != nil; msg = s.out.pop() {
		o.sent = append(o.sent, msg)
		// Some readers never connect without an event name (clients.md 2).
		b = sse.AppendEvent(b, sse.Event{Name: "message", Data: jsonrpc.OneLine(msg)})
		*buf = b
		if len(b) < batchBytes {
			continue
		}
		if err := o.write(b); err != nil {
			return true, err
		}
		written += len(b)
		b = b[:0]
		if written >= turnBytes {
			s.out.wake()
			break
		}
	}
	if len(b) > 0 {
		if err := o.write(b); err != nil {
			return true, err
		}
	}
	s.last.Store(time.Now().UnixNano())
	if 0 < len(b) && len(b) < smallBytes { // it went into a buffer and took no time
		return true, o.push()
	}
	return true, o.flush()
}

// comment writes what keeps an idle connection open.
func (o *writer) comment() error {
	if err := o.write(sse.AppendComment(nil, "keep-alive")); err != nil {
		return err
	}
	return o.flush()
}

func (o *writer) event(e sse.Event) error {
	buf := buffers.Get().(*[]byte)
	defer giveBuffer(buf)
	*buf = sse.AppendEvent((*buf)[:0], e)
	return o.write(*buf)
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
	return o.push()
}

// push is flush within the deadline of the last write.
func (o *writer) push() error {
	if err := o.st.w.Flush(); err != nil {
		return err
	}
	return o.deadline(time.Time{})
}

// arm gives the next write its deadline. Without one a server's WriteTimeout would count from the request on.
func (o *writer) arm() error { return o.deadline(time.Now().Add(o.st.front.o.WriteTimeout)) }

// deadline sets the write deadline, zero for none. When the stream is to end in a hurry that goes before.
func (o *writer) deadline(t time.Time) error {
	o.st.wmu.Lock()
	defer o.st.wmu.Unlock()
	if limit := o.st.limit; !limit.IsZero() {
		if !time.Now().Before(limit) {
			return os.ErrDeadlineExceeded
		}
		if t.IsZero() || limit.Before(t) {
			t = limit
		}
	}
	if err := o.st.w.SetWriteDeadline(t); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	return nil
}
