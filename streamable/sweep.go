package streamable

import (
	"maps"
	"slices"
	"time"
)

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

// expire ends s if it has been idle for too long and reports whether it has ended.
func (s *session) expire(now time.Time) bool {
	s.mu.Lock()
	closed := s.closed
	idle := !closed && s.open == 0 && now.Sub(s.used) >= s.f.o.IdleTimeout && s.core.Busy() == 0
	s.closed = closed || idle // from here on nobody finds it
	s.mu.Unlock()
	if !idle {
		return closed
	}
	s.f.o.Logger.Info("session ended, idle", "session", s.core.Describe())
	s.end(nil)
	return true
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
