//go:build !nolegacy

package bridge

import (
	"time"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/retire"
)

// A windDown is how live sessions end in a stage: after idle without a message or call, at the latest at the deadline, both up to
// spread later.
type windDown struct {
	idle       time.Duration
	deadline   time.Time
	spread     time.Duration
	tombstones bool // end too
}

const (
	drainIdle   = 30 * time.Second // retirement.md 6
	goneTimeout = 30 * time.Second // for the calls in flight when the routes are gone at once
)

// windDown returns how live sessions end, nil if they do not.
func (t *retirement) windDown(s *retire.State) *windDown {
	o := &t.s.Retirement
	switch {
	case s.Stage == retire.Gone && !s.Tombstone:
		return &windDown{deadline: time.Now().Add(goneTimeout), spread: o.DrainSpread, tombstones: true}
	case s.Stage.Reached(retire.Drain):
		since := s.Since
		if since.IsZero() {
			since = time.Now()
		}
		return &windDown{idle: drainIdle, deadline: since.Add(o.DrainTimeout), spread: o.DrainSpread}
	}
	return nil
}

// follow winds live sessions down as the stage wants, from now on and after each change, until the keeper is closed.
func (t *retirement) follow(wind func(*windDown)) {
	if t.fixed {
		return
	}
	t.keeper.Subscribe(func(old, now *retire.State) {
		if old.Stage != now.Stage || old.Tombstone != now.Tombstone || !old.Since.Equal(now.Since) {
			wind(t.windDown(now))
		}
	})
	wind(t.windDown(t.state()))
}

// stays reports whether a session of c does not end with the others.
func (t *retirement) stays(c exchange.Client) bool {
	return !t.ask(t.state(), retire.AtRequest, c, false).Refuse
}
