package upstream

import (
	"context"
	"time"
)

// Ghosts are cancelled calls of which the server may still speak: it has not answered them, and may not
// have read the cancellation. While there are any, a message without a link may be theirs.
type ghosts map[int64]time.Time

// ghostLife is how long a server gets to notice a cancellation (translation.md 17: wait for a
// response to a cancelled call).
const ghostLife = 5 * time.Second

func (g *ghosts) add(id int64) {
	if *g == nil {
		*g = make(ghosts)
	}
	g.sweep()
	(*g)[id] = time.Now()
}

func (g *ghosts) drop(id int64) { delete(*g, id) }

// none reports whether no cancelled call can be speaking.
func (g *ghosts) none() bool {
	g.sweep()
	return len(*g) == 0
}

func (g *ghosts) sweep() {
	for id, since := range *g {
		if time.Since(since) >= ghostLife {
			delete(*g, id)
		}
	}
}

// exorcise takes a ghost out whose answer has come. The caller holds mu.
func (c *conn) exorcise(id int64) {
	c.ghosts.drop(id)
	if len(c.ghosts) == 0 && c.quiet != nil {
		close(c.quiet)
		c.quiet = nil
	}
}

// settled waits until every cancelled call has been answered. It reports false when ctx ends or the
// connection does before that.
func (c *conn) settled(ctx context.Context) bool {
	c.mu.Lock()
	if c.ended != nil || len(c.ghosts) == 0 {
		defer c.mu.Unlock()
		return c.ended == nil
	}
	if c.quiet == nil {
		c.quiet = make(chan struct{})
	}
	quiet := c.quiet
	c.mu.Unlock()
	select {
	case <-quiet:
		return true
	case <-ctx.Done():
	case <-c.ctx.Done():
	}
	return false
}
