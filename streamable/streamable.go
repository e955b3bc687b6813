// Package streamable serves Streamable HTTP on one endpoint: sessions of 2025-03-26 to 2025-11-25 and
// stateless requests of 2026-07-28.
//
// A POST is told apart by its body (translation.md 3). Messages of a session travel on streams that
// outlive the HTTP responses carrying them: a [stream] has a log, and a carrier writes it to whoever
// holds the connection at the moment. Stateless requests use the same streams without a log.
package streamable

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/internal/pulse"
	core "github.com/mcp-dualstack/bridge/internal/session"
	"github.com/mcp-dualstack/bridge/negotiate"
)

// A Front is the HTTP handler of one Streamable HTTP endpoint, whatever its path. It serves POST, GET
// and DELETE; other methods are answered 405.
type Front struct {
	h exchange.Handler
	o Options

	ctx    context.Context // ends with Close; its cause is a Failure
	cancel context.CancelCauseFunc
	wg     sync.WaitGroup
	clock  *pulse.Clock // of open streams
	bodies *pulse.Clock // of those being read

	servers core.Ends // that have gone

	deaf atomic.Bool // bodies are not read any more

	mu         sync.Mutex
	draining   bool
	sessions   map[string]*session
	reserved   int            // sessions in the map and those being opened
	principals map[string]int // of them those of each authenticated caller
	streams    int            // of sessions, being carried
	sweeping   bool
	carriers   map[*carrier]struct{} // one for every HTTP exchange being handled
	calls      int                   // requests in flight, with or without a connection
	stateless  int                   // of them those of 2026-07-28
	listens    int                   // of them those that last until somebody ends them
	quiet      chan struct{}         // closed and replaced whenever carriers or calls become empty
}

// New returns a Front for the server behind h; nil options mean defaults. It panics if an option is
// negative, with a message that names each.
func New(h exchange.Handler, o *Options) *Front {
	if o == nil {
		o = new(Options)
	}
	if err := o.check(); err != nil {
		panic("streamable: " + err.Error())
	}
	f := &Front{
		h:          h,
		o:          o.defaults(),
		quiet:      make(chan struct{}),
		sessions:   make(map[string]*session),
		principals: make(map[string]int),
		carriers:   make(map[*carrier]struct{}),
	}
	f.ctx, f.cancel = context.WithCancelCause(context.Background())
	f.clock = pulse.New(f.o.tick())
	f.bodies = pulse.New(max(f.o.BodyTimeout/20, time.Millisecond))
	return f
}

// ServeHTTP serves one HTTP exchange.
func (f *Front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c := f.enter(w, r)
	defer f.leave(c)
	if r.ProtoMajor > 1 {
		c.deadline(time.Time{}) // a server's WriteTimeout ends an HTTP/2 stream before anything is written
	}
	switch r.Method {
	case http.MethodPost:
		post := (*Front).post
		if isListen(r.Header) {
			post = (*Front).postAside
		}
		if x := post(f, c, r); x != nil {
			x.serve()
		}
	case http.MethodGet:
		f.get(c, r)
	case http.MethodDelete:
		f.delete(c, r)
	default:
		c.methodNotAllowed()
	}
}

// postAside is post on another stack than that on which a listen waits.
func (f *Front) postAside(c *carrier, r *http.Request) (x *stateless) {
	core.Aside(func() { x = f.post(c, r) })
	return x
}

// isListen reports whether a POST says that it is a listen (2026-07-28 streamable-http, Standard Request Headers). Who says so and
// sends something else is refused or served all the same.
func isListen(h http.Header) bool {
	method := h[negotiate.HeaderMethod]
	return len(method) == 1 && method[0] == methodListen
}

// enter registers an HTTP exchange, so that Close can end it.
func (f *Front) enter(w http.ResponseWriter, r *http.Request) *carrier {
	ctx := r.Context()
	c := &carrier{f: f, w: w, rc: http.NewResponseController(w), ctx: ctx, gone: ctx.Done(), wake: make(chan struct{}, 1)}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.carriers[c] = struct{}{}
	if f.ctx.Err() != nil {
		c.abort()
	}
	return c
}

func (f *Front) leave(c *carrier) {
	c.untimed()
	c.finished()
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.carriers, c)
	f.hush()
}

// hush wakes who waits for the end of carriers or calls. The caller holds mu.
func (f *Front) hush() {
	if f.draining && (len(f.carriers) == 0 || f.calls == f.listens) {
		close(f.quiet)
		f.quiet = make(chan struct{})
	}
}
