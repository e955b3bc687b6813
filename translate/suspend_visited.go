package translate

import (
	"context"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/mcp-dualstack/bridge/exchange"
)

// completions remembers which URL elicitations the server has reported to be complete (2025-11-25 client/elicitation,
// Completion Notifications). Methods may be called concurrently.
type completions struct {
	mu      sync.Mutex
	known   *lru.Cache[completion, struct{}]
	changed chan struct{} // closed with the next report
}

type completion struct {
	principal principalHash
	id        string
}

const maxElicitationID = 1 << 10 // bytes of an id that is remembered

func newCompletions(size int) *completions {
	known, err := lru.New[completion, struct{}](size)
	if err != nil {
		panic("translate: MaxTotal is negative")
	}
	return &completions{known: known, changed: make(chan struct{})}
}

func (c *completions) add(p principalHash, id string) {
	if id == "" || len(id) > maxElicitationID {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.known.Add(completion{p, id}, struct{}{})
	close(c.changed)
	c.changed = make(chan struct{})
}

// wait returns when all ids have been reported, or after the patience. The error is the cause of ctx.
func (c *completions) wait(ctx context.Context, p principalHash, ids []string, patience time.Duration) error {
	over := time.NewTimer(patience)
	defer over.Stop()
	for {
		c.mu.Lock()
		all, changed := true, c.changed
		for _, id := range ids {
			all = all && c.known.Contains(completion{p, id})
		}
		c.mu.Unlock()
		if all {
			return nil
		}
		select {
		case <-changed:
		case <-over.C:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

const noteVisited = "notifications/elicitation/complete"

// heard deals with what is not of the call during which it was heard, and reports whether it was such a note.
func (s *suspendSession) heard(note exchange.Request) bool {
	return s.s.heard(s.client.Principal, s.principal, note)
}
