package retire

import (
	"sync"
	"time"
)

// maxTallied bounds the identities of one window that are told apart; a guard has stopped a window long before.
const maxTallied = 4096

// baselineMinutes is how far a Tally looks back for what was usual before a window.
const baselineMinutes = 60

// A Tally counts what a Guard must know: who a brownout refuses, and how Streamable HTTP does meanwhile and did before. Its zero
// value is ready. Methods may be called concurrently and cost a lock and no I/O.
type Tally struct {
	mu      sync.Mutex
	window  string              // that refused is about
	refused map[string]struct{} // identities
	exempt  int64
	minutes [baselineMinutes]minute // a ring, by minute since 1970
	during  minute                  // since the window began
	base    minute                  // the hour before it
}

type minute struct{ number, calls, errors int64 }

// Refused counts a request that a brownout refused. id is the identity that was refused, empty if nobody knows; exempt says that it
// turned out to be exempt.
func (t *Tally) Refused(d Decision, id string, exempt bool) {
	if d.Window == "" {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.enter(d.Window)
	if exempt {
		t.exempt++
	}
	if len(t.refused) < maxTallied {
		t.refused[id] = struct{}{}
	}
}

// Called counts a call over Streamable HTTP. failed says that it was answered by an error or not at all.
func (t *Tally) Called(failed bool) {
	n := time.Now().Unix() / 60
	t.mu.Lock()
	defer t.mu.Unlock()
	m := &t.minutes[n%baselineMinutes]
	if m.number != n {
		*m = minute{number: n}
	}
	m.calls++
	t.during.calls++
	if failed {
		m.errors++
		t.during.errors++
	}
}

// Counters returns what the window has done so far. It is called when the window begins, and then counts from there.
func (t *Tally) Counters(w Window) Counters {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.enter(w.ID)
	return Counters{
		Refused: len(t.refused), ExemptRefused: t.exempt, Calls: t.during.calls, Errors: t.during.errors,
		BaseCalls: t.base.calls, BaseErrors: t.base.errors,
	}
}

// enter begins to count for a window, if it is another one.
func (t *Tally) enter(window string) {
	if t.window == window && t.refused != nil {
		return
	}
	t.window, t.refused, t.exempt, t.during, t.base = window, make(map[string]struct{}), 0, minute{}, minute{}
	now := time.Now().Unix() / 60
	for _, m := range t.minutes {
		if m.number > now-baselineMinutes {
			t.base.calls += m.calls
			t.base.errors += m.errors
		}
	}
}
