package upstream

import (
	"time"

	"github.com/mcp-dualstack/bridge/exchange"
)

// A pace spaces out the restarts of a server that keeps ending.
type pace struct{ delay time.Duration }

const (
	minRestartDelay = 100 * time.Millisecond
	maxRestartDelay = 10 * time.Second
	steadyAfter     = 60 * time.Second // of life, after which a restart is the first again
)

// pause waits before a restart: not at all for the first, then longer each time.
func (u *Upstream) pause(known *Verdict) error {
	if known == nil {
		return nil
	}
	u.mu.Lock()
	if u.shared != nil && time.Since(u.shared.since) >= steadyAfter {
		u.pace.delay = 0
	}
	delay := u.pace.delay
	u.pace.delay = min(max(2*delay, minRestartDelay), maxRestartDelay)
	u.shared = nil
	u.mu.Unlock()
	t := time.NewTimer(delay)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-u.ctx.Done():
		return exchange.Fail(exchange.ReasonClosed, nil)
	}
}
