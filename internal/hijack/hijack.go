// Package hijack serves event streams over HTTP/1.1 outside of net/http.
//
// net/http keeps for each request what the next one on its connection needs: buffers, the goroutine of the connection, one that
// waits for the client to leave. A stream that is silent for days needs none of it. [Streams] stands before a handler and takes the
// connection of a stream over when its head is written. The handler notices nothing: it goes on in its own goroutine with the
// ResponseWriter it has, its request's context ends when the client leaves, and deadlines are those of the connection. Everything
// else (HTTP/2, HTTP/1.0, answers that are no event stream, servers that let nobody hijack) stays where it is.
//
// Handlers outside of Streams see the request end when its stream begins. The connection of a stream that was taken over is closed
// after it and says so in its head (RFC 9112, section 9.6).
package hijack

import (
	"context"
	"log/slog"
	"net/http"
	"runtime/debug"
	"sync"
)

// Streams is an http.Handler that takes event streams over. It must be made with New.
type Streams struct {
	next http.Handler
	may  func(*http.Request) bool
	log  *slog.Logger

	mu     sync.Mutex
	open   map[*response]struct{} // taken over, and not at its end
	closed bool                   // nothing more is taken over
	idle   chan struct{}          // closed when open is empty and closed is set
}

// New returns next with its event streams taken over. A request for which may reports false is served as if Streams were not there;
// the others cost a goroutine each, and their panics are logged here and not by net/http.
func New(next http.Handler, may func(*http.Request) bool, log *slog.Logger) *Streams {
	return &Streams{next: next, may: may, log: log, open: make(map[*response]struct{}), idle: make(chan struct{})}
}

// ServeHTTP serves next. It returns when the response is over or its connection was taken over.
func (s *Streams) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.ProtoMajor != 1 || r.ProtoMinor < 1 || !s.may(r) {
		s.next.ServeHTTP(w, r)
		return
	}
	x := newResponse(s, w, r)
	go x.serve(x.request(r)) // ends with the handler
	<-x.left
	if x.aborted {
		panic(http.ErrAbortHandler) // for net/http, which cuts the connection
	}
}

// Shutdown takes no more streams over and waits until those that were have ended. It cuts what is left of them when ctx ends, and
// returns its error then; handlers are not waited for.
func (s *Streams) Shutdown(ctx context.Context) error {
	s.mu.Lock()
	if !s.closed {
		s.closed = true
		s.settle()
	}
	s.mu.Unlock()
	select {
	case <-s.idle:
		return nil
	default:
	}
	select {
	case <-s.idle:
		return nil
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for x := range s.open {
		x.cut()
	}
	return context.Cause(ctx)
}

// enter adds x to the streams that are open, unless there are to be no more.
func (s *Streams) enter(x *response) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.open[x] = struct{}{}
	return true
}

func (s *Streams) leave(x *response) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, x)
	if s.closed {
		s.settle()
	}
}

// settle closes idle if nothing is open. The caller holds mu and has set closed.
func (s *Streams) settle() {
	select {
	case <-s.idle:
	default:
		if len(s.open) == 0 {
			close(s.idle)
		}
	}
}

// serve runs the handler and ends the response.
func (x *response) serve(r *http.Request) {
	defer func() {
		v := recover()
		if v != nil && v != http.ErrAbortHandler { // the stack is only known here
			x.s.log.Error("panic while a request was served", "panic", v, "stack", string(debug.Stack()))
		}
		if x.conn != nil {
			x.finish(v != nil)
			return
		}
		x.aborted = v != nil
		x.follow()
		x.cancel()
		close(x.left)
	}()
	x.s.next.ServeHTTP(x, r)
}
