package hijack

import (
	"context"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"sync"
	"time"
)

// A response is the http.ResponseWriter of one request. Its methods but SetReadDeadline and SetWriteDeadline are for the handler's goroutine only.
type response struct {
	s       *Streams
	body    *body              // of the request; nil: it has none
	cancel  context.CancelFunc // of the request's context
	follow  func() bool        // makes that end with net/http's; nil once it does not any more
	left    chan struct{}      // closed when net/http may have its goroutine back
	aborted bool               // the handler panicked before the connection was taken over

	begun bool          // the status is known
	out   chunks        // of what has been taken over
	err   error         // of a write to conn: nothing more can be written
	ended chan struct{} // of a stream that was taken over: closed when its handler has returned

	mu    sync.Mutex
	w     http.ResponseWriter // of net/http; nil once the connection was taken over
	conn  net.Conn            // nil before that
	limit time.Time           // of writes; zero: none
	until time.Time           // of reads; likewise
}

func newResponse(s *Streams, w http.ResponseWriter, r *http.Request) *response {
	x := &response{s: s, w: w, left: make(chan struct{})}
	if r.Body != nil && r.Body != http.NoBody {
		x.body = &body{r.Body}
	}
	return x
}

// request returns r for the handler: its context and its body can do without net/http once the connection was taken over.
func (x *response) request(r *http.Request) *http.Request {
	outer := r.Context()
	ctx, cancel := context.WithCancel(context.WithoutCancel(outer))
	x.cancel, x.follow = cancel, context.AfterFunc(outer, cancel)
	r = r.WithContext(ctx)
	if x.body != nil {
		r.Body = x.body
	}
	return r
}

// Header returns the header fields; changes count until the head is written.
func (x *response) Header() http.Header {
	if x.w != nil {
		return x.w.Header()
	}
	return x.out.fields()
}

// WriteHeader takes the connection over if an event stream begins.
func (x *response) WriteHeader(status int) {
	if x.begun {
		if x.w != nil {
			x.w.WriteHeader(status) // which complains
		}
		return
	}
	x.begun = status >= http.StatusOK // those below are not the last
	if status == http.StatusOK && isEventStream(x.w.Header()) && x.take() {
		return
	}
	x.w.WriteHeader(status)
}

func isEventStream(h http.Header) bool {
	media, _, err := mime.ParseMediaType(h.Get("Content-Type"))
	return err == nil && media == "text/event-stream"
}

// take takes the connection over and lets net/http go, or reports that it cannot.
func (x *response) take() bool {
	if !x.s.enter(x) {
		return false
	}
	conn, buffered, err := http.NewResponseController(x.w).Hijack()
	if err != nil { // whoever stands between cannot: nothing has happened
		x.s.leave(x)
		return false
	}
	x.out = begin(x.w.Header())
	x.ended = make(chan struct{})
	x.follow()
	x.follow = nil
	if x.body != nil {
		x.body.drop()
	}
	x.mu.Lock()
	x.w, x.conn = nil, conn
	_ = conn.SetWriteDeadline(x.limit) // net/http has lifted both; it fails with the connection, as what follows will
	_ = conn.SetReadDeadline(x.until)
	x.mu.Unlock()
	go attend(conn, buffered.Reader.Buffered() > 0, x.cancel, x.ended) // ends with the connection
	close(x.left)
	return true
}

// Write buffers p until Flush, or until there is much of it.
func (x *response) Write(p []byte) (int, error) {
	if !x.begun {
		x.WriteHeader(http.StatusOK)
	}
	if x.w != nil {
		return x.w.Write(p)
	}
	if x.err != nil {
		return 0, x.err
	}
	if len(p) >= manyBytes {
		return len(p), x.sent(x.out.writeLarge(x.conn, p))
	}
	if x.out.add(p) < manyBytes {
		return len(p), nil
	}
	return len(p), x.FlushError()
}

// FlushError sends what is buffered.
func (x *response) FlushError() error {
	if !x.begun {
		x.WriteHeader(http.StatusOK)
	}
	if x.w != nil {
		return http.NewResponseController(x.w).Flush()
	}
	if x.err != nil {
		return x.err
	}
	return x.sent(x.out.flush(x.conn, false))
}

// Flush is FlushError for those who do not ask.
func (x *response) Flush() { _ = x.FlushError() }

// sent remembers that a write has failed: part of it may have been sent, so that nothing can follow it.
func (x *response) sent(err error) error {
	if err != nil {
		x.err = err
		x.cancel()
	}
	return err
}

// SetWriteDeadline is http.ResponseController's. It may be called by any goroutine.
func (x *response) SetWriteDeadline(t time.Time) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.limit = t
	if x.w != nil {
		return http.NewResponseController(x.w).SetWriteDeadline(t)
	}
	return x.conn.SetWriteDeadline(t)
}

// SetReadDeadline is http.ResponseController's. It may be called by any goroutine.
func (x *response) SetReadDeadline(t time.Time) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.until = t
	if x.w != nil {
		return http.NewResponseController(x.w).SetReadDeadline(t)
	}
	return x.conn.SetReadDeadline(t)
}

// EnableFullDuplex is http.ResponseController's. A stream that was taken over is full duplex, or rather does not read.
func (x *response) EnableFullDuplex() error {
	if x.w != nil {
		return http.NewResponseController(x.w).EnableFullDuplex()
	}
	return nil
}

// lastWrite is how long the end of a stream may take to be written if the handler has set no deadline.
const lastWrite = 5 * time.Second

// finish ends a stream that was taken over: in the proper way, or, if it was aborted or cannot be written to, by closing the
// connection, so that the client sees that something is missing.
func (x *response) finish(aborted bool) {
	if !aborted && x.err == nil {
		x.mu.Lock()
		if x.limit.IsZero() {
			_ = x.conn.SetWriteDeadline(time.Now().Add(lastWrite)) // fails with the connection, as the write will
		}
		x.mu.Unlock()
		x.err = x.out.flush(x.conn, true)
	}
	x.out.drop()
	x.cancel()
	if aborted || x.err != nil {
		_ = x.conn.Close() // there is nobody to tell
	} else {
		closeWrite(x.conn)
	}
	close(x.ended)
	x.s.leave(x)
}

// cut ends the connection. It may be called by any goroutine.
func (x *response) cut() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.conn != nil {
		_ = x.conn.Close() // there is nobody to tell
	}
	x.cancel()
}

// A body is that of a request. It lets go of net/http when the connection is taken over.
type body struct{ src io.ReadCloser }

func (b *body) Read(p []byte) (int, error) {
	if b.src == nil {
		return 0, fmt.Errorf("read after the stream began: %w", http.ErrBodyReadAfterClose)
	}
	return b.src.Read(p)
}

func (b *body) Close() error {
	if b.src == nil {
		return nil
	}
	return b.src.Close()
}

func (b *body) drop() { b.src = nil }
