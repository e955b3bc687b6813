package upstream

import (
	"context"
	"time"
)

// Ghosts are cancelled calls of which the server may still speak: it has not answered them, and may not
// have read the cancellation. While there are any, a message without a link may be theirs. The zero value is
// none; the mutex of the connection guards them.
type ghosts struct {
	since map[int64]time.Time // by the id of the call
	quiet chan struct{}       // closed when the last one has been answered; nil when nobody waits
}

// ghostLife is how long a server gets to notice a cancellation (translation.md 17: wait for a
// response to a cancelled call).
const ghostLife = 5 * time.Second

func (g *ghosts) add(id int64) {
	if g.since == nil {
		g.since = make(map[int64]time.Time)
	}
	g.sweep()
	g.since[id] = time.Now()
}

// drop takes a ghost out whose answer has come.
func (g *ghosts) drop(id int64) {
	delete(g.since, id)
	if len(g.since) == 0 && g.quiet != nil {
		close(g.quiet)
		g.quiet = nil
	}
}

// has reports whether that call is a ghost.
func (g *ghosts) has(id int64) bool {
	_, ok := g.since[id]
	return ok
}

// none reports whether no cancelled call can be speaking.
func (g *ghosts) none() bool {
	g.sweep()
	return len(g.since) == 0
}

func (g *ghosts) sweep() {
	for id, since := range g.since {
		if time.Since(since) >= ghostLife {
			delete(g.since, id)
		}
	}
}

// peace is closed when every ghost has been answered; nil if there are none.
func (g *ghosts) peace() <-chan struct{} {
	if len(g.since) == 0 {
		return nil
	}
	if g.quiet == nil {
		g.quiet = make(chan struct{})
	}
	return g.quiet
}

// settled waits until every cancelled call has been answered. It reports false when ctx ends or the
// connection does before that.
func (c *conn) settled(ctx context.Context) bool {
	c.mu.Lock()
	over, peace := c.ended != nil, c.ghosts.peace()
	c.mu.Unlock()
	return !over && inPeace(ctx, c.ctx, peace)
}

// inPeace waits for peace and reports false when ctx or the connection ends before that.
func inPeace(ctx, connection context.Context, peace <-chan struct{}) bool {
	if peace == nil {
		return true
	}
	select {
	case <-peace:
		return true
	case <-ctx.Done():
	case <-connection.Done():
	}
	return false
}
