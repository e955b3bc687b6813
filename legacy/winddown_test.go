package legacy_test

import (
	"context"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/legacy"
)

// ended waits for the end of the stream and returns how long that took.
func (c *client) ended() time.Duration {
	c.t.Helper()
	begun := time.Now()
	for c.next() != "" {
	}
	return time.Since(begun)
}

// near reports whether d is at most a tick of the clock over want.
func near(d, want time.Duration) bool { return d >= want && d <= want+time.Second }

// Retirement.md 6, drain: what is in flight finishes, a silent client's stream ends after Idle, a busy one's at Deadline.
func TestWindDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		h, g := &script{}, &stage{}
		h.call = func(ctx context.Context, req exchange.Request, _ exchange.Peer) (exchange.Response, error) {
			req.Sent()
			only := release
			if req.Method == "x/stuck" {
				only = nil
			}
			select {
			case <-only:
				return exchange.Response{Result: []byte(`{"late":1}`)}, nil
			case <-ctx.Done():
				return exchange.Response{}, context.Cause(ctx)
			}
		}
		f, s := staged(t, h, g, g.options())
		silent, finishes, stuck := connect(t, s), connect(t, s).begin(), connect(t, s).begin()
		finishes.ok(`{"jsonrpc":"2.0","id":1,"method":"tools/call"}`)
		stuck.ok(`{"jsonrpc":"2.0","id":1,"method":"x/stuck"}`)
		synctest.Wait()
		g.set(func() {
			g.refuse = moved
			g.opening = legacy.Opening{Tombstone: true}
		})
		f.WindDown(&legacy.WindDown{Idle: 30 * time.Second, Deadline: time.Now().Add(5 * time.Minute)})
		tomb := connect(t, s)

		if d := silent.ended(); !near(d, 30*time.Second) {
			t.Errorf("a silent stream ended after %v, want 30 s", d)
		}
		time.Sleep(30 * time.Second)
		release <- struct{}{}
		finishes.want(`{"jsonrpc":"2.0","id":1,"result":{"late":1}}`)
		time.Sleep(20 * time.Second)
		finishes.ok(`{"jsonrpc":"2.0","id":2,"method":"ping"}`) // it is not silent
		finishes.want(`{"jsonrpc":"2.0","id":2,"result":{}}`)
		if d := finishes.ended(); !near(d, 30*time.Second) {
			t.Errorf("a stream ended %v after the last message, want 30 s", d)
		}
		begun := time.Now()
		if got := reasonOf(stuck.next()); got != exchange.ReasonClosed {
			t.Errorf("the call at the deadline: got %q, want session_closed", got)
		}
		if d := time.Since(begun); d > 4*time.Minute {
			t.Errorf("the stuck call ended %v later, want by the deadline", d)
		}
		tomb.ok(`{"jsonrpc":"2.0","id":0,"method":"tools/list"}`)
		tomb.want(movedTo)
	})
}

// Many streams end within the spread and not together.
func TestWindDownIsSpread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &stage{}
		f, s := staged(t, &script{}, g, g.options())
		const n, spread = 60, time.Minute
		ends := make(chan time.Duration, n)
		begun := time.Now()
		for range n {
			c := connect(t, s)
			go func() {
				for {
					if _, err := c.events.Next(); err != nil {
						ends <- time.Since(begun)
						return
					}
				}
			}()
		}
		f.WindDown(&legacy.WindDown{Idle: 30 * time.Second, Deadline: begun.Add(time.Hour), Spread: spread})
		var all []time.Duration
		for range n {
			all = append(all, <-ends)
		}
		slices.Sort(all)
		if first, last := all[0], all[n-1]; first < 30*time.Second || last > 91*time.Second || last-first < spread/2 {
			t.Errorf("streams ended from %v to %v, want spread over 30 s to 90 s", first, last)
		}
	})
}

// Who is exempt stays, and so does everybody when the stage goes back.
func TestWindDownIsTakenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &stage{stays: true}
		f, s := staged(t, &script{}, g, g.options())
		c := connect(t, s).begin()
		f.WindDown(&legacy.WindDown{Idle: 30 * time.Second, Deadline: time.Now().Add(time.Minute)})
		time.Sleep(time.Hour)
		c.ok(`{"jsonrpc":"2.0","id":1,"method":"x"}`)
		c.want(`{"jsonrpc":"2.0","id":1,"result":{}}`)
		g.set(func() { g.stays = false })
		f.WindDown(nil)
		time.Sleep(time.Hour)
		c.ok(`{"jsonrpc":"2.0","id":2,"method":"x"}`)
		c.want(`{"jsonrpc":"2.0","id":2,"result":{}}`)
	})
}

// A session that waits for its client to come back has nobody to wait for.
func TestWindDownEndsLostSessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, g := &script{}, &stage{}
		o := g.options()
		o.Reattach = "all"
		f, s := staged(t, h, g, o)
		c := connect(t, s).begin()
		c.gone()
		synctest.Wait()
		if n := h.endings(); n != 0 {
			t.Fatalf("%d sessions ended with the stream, want none", n)
		}
		late := connect(t, s).begin()
		f.WindDown(&legacy.WindDown{Idle: 30 * time.Second, Deadline: time.Now().Add(time.Minute)})
		synctest.Wait()
		if n := h.endings(); n != 1 {
			t.Errorf("%d sessions ended, want 1", n)
		}
		late.gone()
		synctest.Wait()
		if n := h.endings(); n != 2 {
			t.Errorf("%d sessions ended, want the one that lost its stream meanwhile too", n)
		}
		if status, _ := c.send(`{"jsonrpc":"2.0","id":1,"method":"x"}`); status != http.StatusNotFound {
			t.Errorf("a message to it: got %d, want 404", status)
		}
	})
}

// Where tombstones have no place any more they end too.
func TestWindDownOfTombstones(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &stage{refuse: moved, opening: legacy.Opening{Tombstone: true}}
		f, s := staged(t, &script{}, g, g.options())
		c := connect(t, s)
		f.WindDown(&legacy.WindDown{Idle: 30 * time.Second, Deadline: time.Now().Add(time.Minute)})
		time.Sleep(time.Hour)
		c.ok(`{"jsonrpc":"2.0","id":1,"method":"ping"}`)
		c.want(`{"jsonrpc":"2.0","id":1,"result":{}}`)
		f.WindDown(&legacy.WindDown{Tombstones: true, Deadline: time.Now().Add(time.Minute), Spread: 10 * time.Second})
		if d := c.ended(); d > 11*time.Second {
			t.Errorf("the tombstone ended after %v, want 10 s at most", d)
		}
	})
}
