package legacy

import (
	"crypto/rand"
	"net/http"
	"net/netip"
	"time"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
	"github.com/mcp-dualstack/bridge/negotiate"
)

// Values of Options.Reattach.
const (
	reattachAuthenticated = "authenticated"
	reattachAll           = "all"
	reattachOff           = "off"
)

// reattachWindow is how long a session outlives its stream (retirement.md R8).
const reattachWindow = 60 * time.Second

// maxIDs is how many ids a session answers to: its own, and the newest of those it got with streams.
const maxIDs = 8

// A trace is what a client that comes back without a word is known by (retirement.md R8).
type trace struct {
	principal string
	network   netip.Prefix // /24 or /48
	userAgent string
}

func (f *Front) traceOf(r *http.Request, principal string) trace {
	a := f.o.Addr(r)
	bits := 48
	if a.Is4() {
		bits = 24
	}
	p, _ := a.Prefix(bits) // none of an address that is not known
	return trace{principal, p, r.UserAgent()}
}

// reattaches reports whether that principal's clients are given their sessions back.
func (f *Front) reattaches(principal string) bool {
	switch f.o.Reattach {
	case reattachAll:
		return true
	case reattachAuthenticated:
		return principal != ""
	}
	return false
}

// newCursor gives s a new id for the endpoint event, by which a stream can name it; empty where nobody is re-attached.
// The one before is worth nothing any more.
func (f *Front) newCursor(s *session) string {
	if !f.reattaches(s.principal) {
		return ""
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if s.retired {
		return ""
	}
	delete(f.cursors, s.cursor)
	s.cursor = rand.Text()
	f.cursors[s.cursor] = s
	return s.cursor
}

// named returns the session that the Last-Event-ID of r names, nil if there is none of that principal's. The caller holds mu.
func (f *Front) named(r *http.Request, principal string) *session {
	id := r.Header.Get(negotiate.HeaderLastEventID)
	if id == "" {
		return nil
	}
	s := f.cursors[id]
	if s == nil || s.owner() != principal || s.ctx.Err() != nil {
		return nil
	}
	return s
}

// carry makes st the stream of s. The one there is, if any, ends without it. The caller holds mu.
func (f *Front) carry(s *session, st *stream) {
	if old := s.stream.Load(); old != nil {
		old.session.Store(nil)
		old.look()
		old.hurry(0) // what it is writing to nobody is queued again
	}
	if s.found != nil {
		close(s.found)
		s.found = nil
		f.unlose(s)
	}
	s.stream.Store(st)
	st.session.Store(s)
	st.look()
}

// unlose takes s from those that wait for a stream. The caller holds mu.
func (f *Front) unlose(s *session) {
	delete(f.lost[s.trace], s)
	if len(f.lost[s.trace]) == 0 {
		delete(f.lost, s.trace)
	}
}

// await lets s, whose stream st ends for that reason, wait for another one. It reports false when s ends with it: nobody is
// re-attached, there has been no conversation, or it is to end anyway.
func (f *Front) await(s *session, st *stream, reason error) bool {
	may := reason != nil && f.reattaches(s.principal) && !s.core.Fresh() &&
		(f.winding.Load() == nil || f.stays(s)) // else its client comes back to something else
	f.mu.Lock()
	defer f.mu.Unlock()
	if s.stream.Load() != st {
		return true // another one has it already
	}
	if !may || s.ctx.Err() != nil || f.isDraining() {
		f.hide(s) // before mu is free: what is about to be closed is given to nobody
		return false
	}
	s.stream.Store(nil)
	st.session.Store(nil)
	s.found = make(chan struct{})
	if f.lost[s.trace] == nil {
		f.lost[s.trace] = make(map[*session]struct{})
	}
	f.lost[s.trace][s] = struct{}{}
	f.active++
	go f.watch(s, s.found) // ends with the wait; Shutdown and Close wait for it
	return true
}

// watch ends a session that waits for a stream when its time is up or it is to end.
func (f *Front) watch(s *session, found chan struct{}) {
	defer f.leave()
	timer := time.NewTimer(reattachWindow)
	defer timer.Stop()
	select {
	case <-found:
		return
	case <-timer.C:
	case <-s.ctx.Done():
	}
	f.mu.Lock()
	back := s.found != found
	if !back {
		s.found = nil
		f.hide(s)
		f.unlose(s)
	}
	f.mu.Unlock()
	if !back {
		s.close(nil, nil)
	}
}

// home returns the session that messages posted to s are for. The first message that says anything about it decides: a client
// that begins has s, one that goes on gets back the one session of its trace that has lost its stream, if there is
// exactly one (retirement.md R8).
func (f *Front) home(s *session, messages []jsonrpc.Message) *session {
	f.mu.Lock()
	if s.moved != nil || s.decided {
		defer f.mu.Unlock()
		if s.moved != nil {
			return s.moved
		}
		return s
	}
	begins, decided := opening(messages)
	s.decided = decided
	st := s.stream.Load()
	var old *session
	if decided && !begins && st != nil && len(f.lost[s.trace]) == 1 {
		for old = range f.lost[s.trace] {
			f.move(s, old, st)
		}
	}
	f.mu.Unlock()
	if old == nil {
		return s
	}
	s.core.Close(nil) // it has nothing open
	for msg := s.out.pop(); msg != nil; msg = s.out.pop() {
		_ = old.push(msg, true) // the answer to a ping; old may have ended meanwhile
	}
	s.out.close()
	s.end(nil)
	f.o.Logger.Info("client has its session again", "session", old.short())
	old.observe(exchange.SeenReattached, "")
	return old
}

// opening reports whether the first message that tells is one a client begins with, and whether there is one.
func opening(messages []jsonrpc.Message) (begins, decided bool) {
	for i := range messages {
		switch m := &messages[i]; {
		case m.Method == "ping", m.Method == "subscriptions/listen":
		case m.Method == "initialize", m.Method == "server/discover", negotiate.LegacyClaim(m):
			return true, true
		default:
			return false, true
		}
	}
	return false, false
}

// move puts old in the place of s on st. The caller holds mu.
func (f *Front) move(s, old *session, st *stream) {
	for _, id := range s.ids {
		f.sessions[id] = old
	}
	old.ids = append(old.ids, s.ids...)
	if len(old.ids) > maxIDs {
		delete(f.sessions, old.ids[1])
		old.ids = append(old.ids[:1], old.ids[2:]...)
	}
	delete(f.cursors, old.cursor)
	old.cursor = s.cursor
	if old.cursor != "" {
		f.cursors[old.cursor] = old
	}
	old.spoke.Store(true)
	s.stream.Store(nil)
	s.moved, s.retired, s.ids, s.cursor = old, true, nil, ""
	f.vacate(s)
	f.carry(old, st)
}
