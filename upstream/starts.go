package upstream

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/mcp-dualstack/bridge/exchange"
)

// Starts keeps clients that come again and again from starting a server again and again that does not
// live. After a failed start there is a pause, longer each time; then a few attempts are let through.
// The zero value lets everything through.
type starts struct {
	mu    sync.Mutex
	delay time.Duration // the present pause; 0 while starts succeed
	next  time.Time     // end of the pause
	spent int           // attempts since then
	last  error         // why the last start failed
}

const (
	maxStartWait   = time.Second // a longer pause is answered by a failure at once
	startsPerPause = 3           // a probe, a handshake and one to spare
)

// admit waits for the end of a pause. The error is upstream_unavailable, with the time that is left.
func (s *starts) admit(ctx context.Context) error {
	for {
		wait, err := s.reserve()
		if wait == 0 || err != nil {
			return err
		}
		t := time.NewTimer(wait)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return context.Cause(ctx)
		}
	}
}

// reserve returns how long to wait before asking again; 0: not at all, an attempt may be made.
func (s *starts) reserve() (time.Duration, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.delay == 0 {
		return 0, nil
	}
	now := time.Now()
	if !now.Before(s.next) {
		if s.spent < startsPerPause {
			s.spent++
			return 0, nil
		}
		s.lengthen(now)
	}
	wait := s.next.Sub(now)
	if wait > maxStartWait {
		return 0, &exchange.Failure{Reason: exchange.ReasonUnavailable, RetryAfter: wait, Err: s.last}
	}
	return wait, nil
}

// note takes the outcome of a start. Only failures for which the server can be blamed count.
func (s *starts) note(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil {
		s.delay, s.spent, s.last = 0, 0, nil
		return
	}
	now := time.Now()
	f, ok := errors.AsType[*exchange.Failure](err)
	if !ok || f.Reason != exchange.ReasonUnavailable || f.RetryAfter > 0 || now.Before(s.next) {
		return
	}
	s.lengthen(now)
	s.last = err
}

// lengthen begins a longer pause. The caller holds mu.
func (s *starts) lengthen(now time.Time) {
	s.delay = min(max(2*s.delay, minRestartDelay), maxRestartDelay)
	s.next, s.spent = now.Add(s.delay), 0
}

// openNoted opens a session of the handshake era and learns from how that went.
func (u *Upstream) openNoted(ctx context.Context, c exchange.Client) (exchange.Session, error) {
	sess, err := u.openLegacy(ctx, c)
	if err == nil || ctx.Err() == nil {
		u.starts.note(err)
	}
	return sess, err
}
