package legacy

import (
	"errors"
	"time"

	"github.com/mcp-dualstack/bridge/exchange"
)

var errRetired = errors.New("the transport is being retired")

// A WindDown is how live sessions end when their transport is (retirement.md 6, drain): a session whose client has said nothing for Idle
// and has no call in flight, and every session at Deadline; each up to Spread later, so that not all clients come
// back at once.
type WindDown struct {
	Idle     time.Duration
	Deadline time.Time
	Spread   time.Duration
	// Tombstones says that streams on which everything is refused end too, at once but for Spread.
	Tombstones bool
}

// A winding is a WindDown that has begun.
type winding struct {
	WindDown
	since time.Time
}

// WindDown begins to end sessions like that; nil: it ends no more. Sessions that wait for a stream end at once: their clients come back to
// something else. Sessions that Stage.Stays keeps are left alone. It does not wait.
func (f *Front) WindDown(how *WindDown) {
	if how == nil {
		f.winding.Store(nil)
		return
	}
	f.winding.Store(&winding{*how, time.Now()})
	for _, s := range f.all() {
		if st := s.stream.Load(); st != nil {
			st.look()
		} else if !f.stays(s) {
			s.end(exchange.Fail(exchange.ReasonClosed, errRetired))
		}
	}
}

func (f *Front) stays(s *session) bool {
	return f.o.Stage.Stays != nil && f.o.Stage.Stays(s.client())
}

// endAt ends the stream at t, or earlier if that has been said before.
func (st *stream) endAt(t time.Time) {
	if st.doom.CompareAndSwap(0, t.UnixNano()) {
		st.look()
	}
}

// doomed returns when the stream of s is to be looked at for its end, zero for never, and whether its end has come.
func (st *stream) doomed(s *session, now time.Time) (next time.Time, over bool) {
	if at := st.doom.Load(); at != 0 {
		next = time.Unix(0, at)
		return next, !now.Before(next)
	}
	w := st.front.winding.Load()
	tombstone := s.tombstone.Load()
	if w == nil || tombstone && !w.Tombstones {
		return time.Time{}, false
	}
	spread := time.Duration(st.lot * float64(w.Spread))
	if tombstone {
		next = w.since.Add(spread)
		return next, !now.Before(next)
	}
	next = w.Deadline.Add(spread)
	if s.core.Busy() == 0 {
		idle := max(s.last.Load(), w.since.UnixNano())
		next = earlier(next, time.Unix(0, idle).Add(w.Idle+spread))
	}
	if now.Before(next) {
		return next, false
	}
	if st.front.stays(s) {
		return now.Add(w.Idle + time.Second), false
	}
	return next, true
}
