// Package legacy serves the HTTP+SSE transport of 2024-11-05: a GET stream that names an endpoint, and
// POSTs to that endpoint whose answers appear on the stream.
//
// A session is one stream and ends with it, unless its client is known well enough to have it back. Whatever handshake-era revision a client negotiates is
// served on it; revision and transport are independent (clients.md 4).
package legacy

import (
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/internal/pulse"
	core "github.com/mcp-dualstack/bridge/internal/session"
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

	Principal func(*http.Request) string // the authenticated caller; nil: nobody is authenticated
	// Authorization returns what is passed on as Client.Authorization, in pass-through mode (credentials.go); nil: nothing is.
	Authorization func(*http.Request) string
	Addr          func(*http.Request) netip.Addr // of the client, after trusted proxies; nil: RemoteAddr
	Stage         Stage                          // what the retirement of these routes does to clients
	Observe       func(exchange.Observation)     // nil: nobody listens
	Logger        *slog.Logger                   // nil: silent

	// Reattach says whose sessions outlive their stream by a minute, so that a client that comes back without an
	// initialize has its own again (retirement.md R8): authenticated (callers with a principal), all or off. Anonymous clients behind
	// one address could inherit each other's. Empty: authenticated.
	Reattach string
	// MaxStreamAge ends a stream that is older, less up to a tenth, so that its client opens another; for clients that are
	// re-attached only, the others would lose their session. Zero: never.
	MaxStreamAge time.Duration

	KeepAlive    time.Duration // longest silence on a stream before a comment; zero: 15 s
	WriteTimeout time.Duration // of one write to a stream; zero: 30 s
	IdleTimeout  time.Duration // without a message either way before a stream is ended; zero: never
	AskTimeout   time.Duration // for the client to answer a question of the server's; zero: 10 min

	BodyTimeout time.Duration // for the whole of a message to arrive; zero: 30 s

	// Bounds. Over one of sessions, and so of streams, the answer to GET is 429 if it is the client's own and 503 if all share
	// it, with Retry-After. Over one of calls it is an error on the stream: some clients end a session whose POST is refused
	// (retirement.md 2.2).
	MaxSessions             int   // those that wait for a stream included; zero: 1024
	MaxSessionsPerPrincipal int   // of one authenticated caller; zero: 256
	MaxTombstones           int   // streams on which everything is refused, beside the sessions; zero: 256
	MaxCalls                int   // in flight in one session; zero: 256
	MaxCallsInTotal         int   // in flight in all sessions; zero: 4096
	MaxBodyBytes            int64 // of a POST; zero: 8 MiB

	// StreamBytes is how much may wait for a slow reader before its stream is cut; zero: 1 MiB. Answers may take
	// eight times as much. One message of any size may always wait.
	StreamBytes int
}

const (
	defaultSSEPath      = "/sse"
	defaultMessagePath  = "/messages"
	defaultKeepAlive    = 15 * time.Second
	defaultWriteTimeout = 30 * time.Second
	defaultBodyTimeout  = 30 * time.Second
	defaultMaxSessions  = 1024
	defaultMaxOwn       = 256
	defaultMaxTombs     = 256
	defaultMaxCalls     = 256
	defaultMaxAllCalls  = 4096
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
	or(&d.Reattach, reattachAuthenticated)
	or(&d.BodyTimeout, defaultBodyTimeout)
	or(&d.MaxSessions, defaultMaxSessions)
	or(&d.MaxSessionsPerPrincipal, defaultMaxOwn)
	or(&d.MaxTombstones, defaultMaxTombs)
	or(&d.MaxCalls, defaultMaxCalls)
	or(&d.MaxCallsInTotal, defaultMaxAllCalls)
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
	clock   *pulse.Clock // of open streams
	quota   *core.Quota  // of calls
	servers core.Ends    // that have gone

	draining chan struct{} // closed when no new work is taken
	idle     chan struct{} // closed when draining and nothing is active
	ends     chan struct{} // capacity 1: while draining, a call has ended

	winding atomic.Pointer[winding] // how live sessions end in the stage drain; nil: they do not

	mu         sync.Mutex
	sessions   map[string]*session // by every id they have
	count      int                 // of sessions but tombstones
	tombstones int
	principals map[string]int      // of them those of each authenticated caller
	cursors    map[string]*session // by the id of their endpoint event
	lost       map[trace]map[*session]struct{}
	active     int // GETs being served and sessions that wait for a stream
}

// New returns a Front for h; nil Options mean all defaults.
func New(h exchange.Handler, o *Options) *Front {
	f := &Front{
		o:          o.withDefaults(),
		handler:    h,
		draining:   make(chan struct{}),
		idle:       make(chan struct{}),
		ends:       make(chan struct{}, 1),
		sessions:   make(map[string]*session),
		principals: make(map[string]int),
		cursors:    make(map[string]*session),
		lost:       make(map[trace]map[*session]struct{}),
	}
	f.clock = pulse.New(f.o.tick())
	f.quota = core.NewQuota(f.o.MaxCallsInTotal)
	return f
}

// tick is how often open streams are looked at.
func (o *Options) tick() time.Duration {
	d := o.KeepAlive / 100
	if o.MaxStreamAge > 0 {
		d = min(d, o.MaxStreamAge/50)
	}
	return max(d, time.Millisecond)
}

// open gives st a session: the one that r names, else a new one. If there is one, f.leave is for when st has ended.
func (f *Front) open(st *stream, r *http.Request, tombstone bool) (*session, *refusal) {
	principal := f.o.Principal(r)
	fresh := f.newSession(r, principal)
	fresh.tombstone.Store(tombstone)
	s, back, refused := f.enter(st, r, fresh)
	if s != fresh {
		fresh.core.Close(nil) // it has nothing open
		fresh.end(nil)
	}
	if refused != nil {
		return nil, refused
	}
	if age := f.o.MaxStreamAge; age > 0 && f.reattaches(principal) {
		st.until = time.Now().Add(age - rand.N(age/10+1)) // #nosec G404 -- jitter, not a secret
	}
	if back {
		f.o.Logger.Info("client has its session again", "session", s.short())
		s.observe(exchange.SeenReattached, "")
	}
	return s, nil
}

// enter takes in a stream, with the session that r names or else the fresh one.
func (f *Front) enter(st *stream, r *http.Request, fresh *session) (s *session, back bool, refused *refusal) {
	f.mu.Lock()
	defer f.mu.Unlock()
	principal := fresh.principal
	if fresh.tombstone.Load() {
		return f.bury(st, fresh)
	}
	s = f.named(r, principal)
	waiting := len(f.lost[fresh.trace]) // one of them may be for this stream
	switch {
	case f.isDraining():
		return nil, false, unavailable(errDraining)
	case s != nil:
		f.carry(s, st)
		f.active++
		return s, true, nil
	case f.count-waiting >= f.o.MaxSessions:
		return nil, false, tooManySessions()
	case principal != "" && f.principals[principal]-waiting >= f.o.MaxSessionsPerPrincipal:
		return nil, false, tooManyOfOne()
	}
	f.sessions[fresh.id] = fresh
	f.occupy(fresh)
	f.active++
	f.carry(fresh, st)
	return fresh, false, nil
}

// occupy takes room for s, whether there is any or not. The caller holds mu.
func (f *Front) occupy(s *session) {
	f.count++
	if s.principal != "" {
		f.principals[s.principal]++
	}
}

// vacate gives the room of s back. The caller holds mu.
func (f *Front) vacate(s *session) {
	if s.tombstone.Load() {
		f.tombstones--
		return
	}
	f.count--
	if s.principal == "" {
		return
	}
	if f.principals[s.principal]--; f.principals[s.principal] == 0 {
		delete(f.principals, s.principal)
	}
}

// retire makes s unknown to those who post and those who come back.
func (f *Front) retire(s *session) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hide(s)
}

// hide is retire for who holds mu.
func (f *Front) hide(s *session) {
	s.retired = true
	delete(f.cursors, s.cursor)
	s.cursor = ""
}

// forget takes out a session that has ended.
func (f *Front) forget(s *session) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, id := range s.ids {
		delete(f.sessions, id)
	}
	s.stream.Store(nil)
	f.vacate(s)
}

// leave is for a GET that is about to return, and for a session that has ended without one.
func (f *Front) leave() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.active--; f.active == 0 && f.isDraining() {
		close(f.idle)
	}
}

// find returns the session of that id, nil if there is none of the sender's of r.
func (f *Front) find(r *http.Request, id string) *session {
	principal := f.o.Principal(r)
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.sessions[id]
	if s == nil || s.retired || s.owner() != principal && !f.adopt(s, r, principal) {
		return nil
	}
	return s
}
