package streamable

import (
	"crypto/rand"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/mcp-dualstack/bridge/exchange"
	core "github.com/mcp-dualstack/bridge/internal/session"
	"github.com/mcp-dualstack/bridge/negotiate"
)

// A session is one handshake-era client: its conversation and its streams.
type session struct {
	f         *Front
	id        string
	tag       string // what the ids of its events begin with
	principal string
	core      *core.Session
	standing  standing
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

// A finished stream can still be had for a while.
type finished struct {
	*stream
	at    time.Time
	bytes int
}

// newSession reserves a place for a session; nil when there is none. It is not in the table yet.
func (f *Front) newSession(r *http.Request) *session {
	f.mu.Lock()
	full := f.reserved >= f.o.MaxSessions
	if !full {
		f.reserved++
	}
	f.mu.Unlock()
	if full {
		return nil
	}
	s := &session{
		f:         f,
		id:        rand.Text(), // at least 128 random bits, base32
		tag:       rand.Text()[:6],
		principal: f.o.Principal(r),
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

func (s *session) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open--
	s.used = time.Now()
}

// expire ends s if it has been idle for too long and reports whether it has ended.
func (s *session) expire(now time.Time) bool {
	s.mu.Lock()
	idle := s.open == 0 && now.Sub(s.used) >= s.f.o.IdleTimeout
	closed := s.closed
	s.mu.Unlock()
	if closed {
		return true
	}
	if !idle || s.core.Busy() > 0 {
		return false
	}
	s.f.o.Logger.Info("session ended, idle", "session", s.core.Describe())
	s.end(nil)
	return true
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
		delete(s.f.sessions, s.id)
		s.f.reserved--
		s.f.mu.Unlock()
	})
}

// newStream returns the stream of a POST, resumable if the revision has that.
func (s *session) newStream(c *carrier) *stream {
	st := newStream(s.f, c)
	st.owner = s
	s.mu.Lock()
	defer s.mu.Unlock()
	s.numbers++
	st.number = s.numbers
	if s.core.Revision().Has(negotiate.Resumption) {
		st.prefix = s.prefix(st.number)
		s.streams[st.number] = st
	}
	return st
}

// prefix is what ids of events on a stream begin with: "tag.stream.".
func (s *session) prefix(stream uint64) string {
	var space [64]byte
	b := append(append(space[:0], s.tag...), '.')
	return string(append(strconv.AppendUint(b, stream, 10), '.'))
}

// parseEventID reads the id of an event of this session.
func (s *session) parseEventID(id string) (stream, event uint64, ok bool) {
	rest, ok := strings.CutPrefix(id, s.tag+".")
	if !ok {
		return 0, 0, false
	}
	a, b, ok := strings.Cut(rest, ".")
	stream, err1 := strconv.ParseUint(a, 10, 64)
	event, err2 := strconv.ParseUint(b, 10, 64)
	return stream, event, ok && err1 == nil && err2 == nil
}

// stream returns the POST stream of that number, nil if it is not kept.
func (s *session) stream(number uint64) *stream {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.prune(time.Now())
	return s.streams[number]
}

// retire keeps a finished stream for a while.
func (s *session) retire(st *stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.streams[st.number] == nil {
		return
	}
	now := time.Now()
	bytes := st.size()
	s.finished = append(s.finished, finished{st, now, bytes})
	s.kept += bytes
	s.prune(now)
}

// prune lets go of finished streams, oldest first, that are too old, too many or too large together. The
// newest stays whatever its size. The caller holds mu.
func (s *session) prune(now time.Time) {
	o := &s.f.o
	for n := len(s.finished); n > 0; n-- {
		old := s.finished[0]
		over := n > 1 && (n > o.ReplayStreams || s.kept > o.ReplayBytes)
		if !over && now.Sub(old.at) <= o.ReplayAge {
			return
		}
		delete(s.streams, old.number)
		s.kept -= old.bytes
		s.finished[0] = finished{}
		s.finished = s.finished[1:]
	}
}

// watch starts the sweep unless it runs. The caller holds f.mu.
func (f *Front) watch() {
	if f.sweeping || f.draining {
		return
	}
	f.sweeping = true
	f.wg.Go(f.sweep) // ends with the last session or with the front
}

// sweepInterval is how often sessions are looked at. Expiry does not depend on it: lookup decides by the clock.
const sweepInterval = 30 * time.Second

// sweep ends idle sessions and lets go of what is too old to replay, until there are no sessions.
func (f *Front) sweep() {
	t := time.NewTicker(min(sweepInterval, f.o.IdleTimeout))
	defer t.Stop()
	for {
		select {
		case now := <-t.C:
			for _, s := range f.all() {
				if !s.expire(now) {
					s.tidy(now)
				}
			}
		case <-f.ctx.Done():
			return
		}
		f.mu.Lock()
		if len(f.sessions) == 0 {
			f.sweeping = false
			f.mu.Unlock()
			return
		}
		f.mu.Unlock()
	}
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

func (s *session) tidy(now time.Time) {
	s.mu.Lock()
	s.prune(now)
	live := slices.Collect(maps.Values(s.streams))
	s.mu.Unlock()
	for _, st := range live {
		st.tidy(now)
	}
	s.standing.tidy(now)
}

// dropped reports a message that did not reach the client.
func (f *Front) dropped(s *session, detail string) {
	o := exchange.Observation{Kind: exchange.SeenDropped, Transport: exchange.StreamableHTTP, Detail: detail}
	name := exchange.StreamableHTTP
	if s != nil {
		o.Session, name = s.id, s.core.Describe()
	}
	f.o.Observe(o)
	f.o.Logger.Debug("message for a client dropped", "session", name, "reason", detail)
}
