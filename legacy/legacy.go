// Package legacy serves the HTTP+SSE transport of 2024-11-05: a GET stream that names an endpoint, and
// POSTs to that endpoint whose answers appear on the stream.
//
// A session is one stream and ends with it. Whatever handshake-era revision a client negotiates is
// served on it; revision and transport are independent (clients.md 4).
package legacy

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"sync"
	"time"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/negotiate"
)

// Options configure a Front. The zero value of each field is its default.
type Options struct {
	Enabled    negotiate.Set // revisions that may be negotiated; zero: all legacy ones
	BridgeInfo []byte        // raw Implementation object for clients that come back without initialize; nil: a name without a version

	PublicURL   *url.URL // where clients reach the bridge: scheme, host and path prefix; nil: not known
	SSEPath     string   // of the GET route, for messages to people; empty: /sse
	MessagePath string   // of the POST route below the prefix; empty: /messages
	EndpointURL string   // auto, absolute or relative (translation.md 9.1); empty: auto

	// Forwarded is a trusted proxy's word about the URL that the client used: its scheme and host, empty if
	// not said, and the path prefix that the proxy stripped. ok is false if no trusted proxy spoke. nil: none is trusted.
	Forwarded func(*http.Request) (scheme, host, prefix string, ok bool)

	Principal func(*http.Request) string          // the authenticated caller; nil: nobody is authenticated
	Addr      func(*http.Request) netip.Addr      // of the client, after trusted proxies; nil: RemoteAddr
	Refuse    func(method string) *exchange.Error // the refusal of the current retirement stage, asked at every request; nil: none
	Observe   func(exchange.Observation)          // nil: nobody listens
	Logger    *slog.Logger                        // nil: silent

	KeepAlive    time.Duration // longest silence on a stream before a comment; zero: 15 s
	WriteTimeout time.Duration // of one write to a stream; zero: 30 s
	IdleTimeout  time.Duration // without a message either way before a stream is ended; zero: never
	AskTimeout   time.Duration // for the client to answer a question of the server's; zero: 10 min

	MaxSessions  int   // zero: 1024
	MaxCalls     int   // in flight per session; zero: 256
	MaxBodyBytes int64 // of a POST; zero: 8 MiB

	// StreamBytes is how much may wait for a slow reader before its stream is cut; zero: 1 MiB. Answers may take
	// eight times as much. One message of any size may always wait.
	StreamBytes int
}

const (
	defaultSSEPath      = "/sse"
	defaultMessagePath  = "/messages"
	defaultKeepAlive    = 15 * time.Second
	defaultWriteTimeout = 30 * time.Second
	defaultMaxSessions  = 1024
	defaultMaxBodyBytes = 8 << 20
	defaultStreamBytes  = 1 << 20

	retryAfter = "5" // seconds, when there is no room or the bridge shuts down
)

var defaultBridgeInfo = []byte(`{"name":"mcp-dualstack-bridge","version":"unknown"}`)

// withDefaults returns a copy of o with the defaults filled in.
func (o *Options) withDefaults() Options {
	var d Options
	if o != nil {
		d = *o
	}
	if d.Enabled == 0 {
		d.Enabled = negotiate.Legacy
	}
	d.Enabled &= negotiate.Legacy
	if d.BridgeInfo == nil {
		d.BridgeInfo = defaultBridgeInfo
	}
	if d.Principal == nil {
		d.Principal = func(*http.Request) string { return "" }
	}
	if d.Addr == nil {
		d.Addr = remoteAddr
	}
	if d.Observe == nil {
		d.Observe = func(exchange.Observation) {}
	}
	if d.Logger == nil {
		d.Logger = slog.New(slog.DiscardHandler)
	}
	or(&d.SSEPath, defaultSSEPath)
	or(&d.MessagePath, defaultMessagePath)
	or(&d.EndpointURL, endpointAuto)
	or(&d.KeepAlive, defaultKeepAlive)
	or(&d.WriteTimeout, defaultWriteTimeout)
	or(&d.MaxSessions, defaultMaxSessions)
	or(&d.MaxBodyBytes, defaultMaxBodyBytes)
	or(&d.StreamBytes, defaultStreamBytes)
	return d
}

func or[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

func remoteAddr(r *http.Request) netip.Addr {
	ap, _ := netip.ParseAddrPort(r.RemoteAddr)
	return ap.Addr().Unmap()
}

// A Front serves legacy clients from one Handler. Its methods may be called concurrently.
type Front struct {
	o       Options
	handler exchange.Handler

	draining chan struct{} // closed when no new work is taken
	idle     chan struct{} // closed when draining and there are no streams

	mu      sync.Mutex
	streams map[string]*stream // by session id, until their GET returns
}

// New returns a Front for h; nil Options mean all defaults.
func New(h exchange.Handler, o *Options) *Front {
	return &Front{
		o:        o.withDefaults(),
		handler:  h,
		streams:  make(map[string]*stream),
		draining: make(chan struct{}),
		idle:     make(chan struct{}),
	}
}

// Shutdown takes no new streams and requests (503) and returns when the streams have ended, each after its calls
// in flight. When ctx ends first the calls left get session_closed as their error, and Shutdown
// returns the cause after their streams have ended.
func (f *Front) Shutdown(ctx context.Context) error {
	f.drain()
	select {
	case <-f.idle:
		return nil
	case <-ctx.Done():
	}
	f.endAll()
	<-f.idle
	return context.Cause(ctx)
}

// Close ends all streams and returns when they have ended. Calls in flight get session_closed as their error.
func (f *Front) Close() error {
	f.drain()
	f.endAll()
	<-f.idle
	return nil
}

func (f *Front) drain() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.isDraining() {
		return
	}
	close(f.draining)
	if len(f.streams) == 0 {
		close(f.idle)
	}
}

func (f *Front) isDraining() bool {
	select {
	case <-f.draining:
		return true
	default:
		return false
	}
}

func (f *Front) endAll() {
	f.mu.Lock()
	var all []*stream
	for _, s := range f.streams {
		all = append(all, s)
	}
	f.mu.Unlock()
	for _, s := range all {
		s.end(exchange.Fail(exchange.ReasonClosed, nil))
		s.hurry(lastWrites)
	}
}

var (
	errDraining = errors.New("the bridge is shutting down")
	errFull     = errors.New("too many sessions")
)

// enter takes in a stream.
func (f *Front) enter(s *stream) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.isDraining() {
		return errDraining
	}
	if len(f.streams) >= f.o.MaxSessions {
		return errFull
	}
	f.streams[s.id] = s
	return nil
}

// retire makes the session of s unknown to those who post.
func (f *Front) retire(s *stream) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s.retired = true
}

// leave is for a stream whose GET is about to return.
func (f *Front) leave(s *stream) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.streams, s.id)
	if len(f.streams) == 0 && f.isDraining() {
		close(f.idle)
	}
}

// find returns the stream of a session, nil if there is none of that principal's.
func (f *Front) find(id, principal string) *stream {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.streams[id]
	if s == nil || s.retired || s.principal != principal {
		return nil
	}
	return s
}
