package streamable

import (
	"crypto/rand"
	"net/http"
	"sync"
	"time"

	"github.com/mcp-dualstack/bridge/exchange"
	core "github.com/mcp-dualstack/bridge/internal/session"
)

// A session is one handshake-era client: its conversation and its streams.
type session struct {
	f         *Front
	id        string
	tag       string // what the ids of its events begin with
	principal string
	core      *core.Session
	standing  standing
	carried   int // streams being carried; guarded by f.mu
	once      sync.Once
	failure   error // why there is no session; set before Initialize of the core returns

	mu       sync.Mutex
	closed   bool
	open     int // HTTP exchanges that use it now
	used     time.Time
	numbers  uint64             // POST streams made
	streams  map[uint64]*stream // POST streams that can be resumed
	finished []finished         // of them those that are over, oldest first
	kept     int                // bytes in finished
}

// newSession makes a session for which room was reserved. It is not in the table yet.
func (f *Front) newSession(r *http.Request, principal string) *session {
	s := &session{
		f:         f,
		id:        rand.Text(), // at least 128 random bits, base32
		tag:       rand.Text()[:6],
		principal: principal,
		used:      time.Now(),
		streams:   make(map[uint64]*stream),
	}
	s.standing.init(s)
	s.core = core.New(core.Options{
		Handler:    f.h,
		Standing:   &s.standing,
		Client:     f.client(r, s.principal, s.id),
		Enabled:    f.o.Enabled,
		MaxCalls:   f.o.MaxCalls,
		AskTimeout: f.o.AskTimeout,
		Observe:    f.o.Observe,
		Ends:       &f.servers,
		Ended:      func() { s.end(exchange.Fail(exchange.ReasonLost, nil)) },
		Failed:     func(err error) { s.failure = err },
		Logger:     f.o.Logger,
	})
	return s
}

// client describes who sent r, as far as HTTP tells.
func (f *Front) client(r *http.Request, principal, session string) exchange.Client {
	return exchange.Client{
		Principal: principal,
		Transport: exchange.StreamableHTTP,
		Session:   session,

		Authorization: f.o.Authorization(r),

		Addr:      f.o.Addr(r),
		UserAgent: r.UserAgent(),
	}
}

// keep enters s in the table. It reports false, and s has ended, when the front is shutting down.
func (f *Front) keep(s *session) bool {
	f.mu.Lock()
	draining := f.draining
	if !draining {
		f.sessions[s.id] = s
		f.watch()
	}
	f.mu.Unlock()
	if draining {
		s.end(exchange.Fail(exchange.ReasonClosed, nil))
		return false
	}
	if s.isClosed() { // its server has ended meanwhile, when it was not in the table
		f.forget(s)
	}
	return true
}

func (f *Front) forget(s *session) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.sessions, s.id)
}

func (s *session) isClosed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

// discard ends a session that never began.
func (f *Front) discard(s *session) { s.end(nil) }

// lookup returns the session r names, as used by one more HTTP exchange, which must release it; nil if there is
// none, it is somebody else's, or it has been idle for too long.
func (f *Front) lookup(r *http.Request, id string) *session {
	f.mu.Lock()
	s := f.sessions[id]
	f.mu.Unlock()
	if s == nil || s.principal != f.o.Principal(r) {
		return nil
	}
	if s.expire(time.Now()) {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.open++
	return s
}

// Knows reports whether that principal has a session of that id.
func (f *Front) Knows(id, principal string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.sessions[id]
	return s != nil && s.principal == principal
}

func (s *session) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open--
	s.used = time.Now()
}

// end ends the session and its streams and waits for its calls. cause nil means that the client wished it;
// otherwise calls in flight get it as their error. It may be called more than once and waits every time.
func (s *session) end(cause error) {
	s.once.Do(func() {
		s.mu.Lock()
		s.closed = true
		s.mu.Unlock()
		s.core.Close(cause)
		s.standing.end()
		s.f.mu.Lock()
		s.f.vacate(s)
		s.f.mu.Unlock()
	})
}

func (f *Front) all() []*session {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := make([]*session, 0, len(f.sessions))
	for _, s := range f.sessions {
		all = append(all, s)
	}
	return all
}

// dropped reports a message that did not reach the client.
func (f *Front) dropped(s *session, detail string) {
	o := exchange.Observation{Kind: exchange.SeenDropped, Transport: exchange.StreamableHTTP, Detail: detail}
	name := exchange.StreamableHTTP
	if s != nil {
		o.Session, o.Principal, name = s.id, s.principal, s.core.Describe()
	}
	f.o.Observe(o)
	f.o.Logger.Debug("message for a client dropped", "session", name, "reason", detail)
}
