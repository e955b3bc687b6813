package telemetry

import (
	"maps"
	"sync"
)

// Counters are what has happened to a ledger since it was opened, for metrics. They are not part of what it keeps.
type Counters struct {
	FlushErrors int64            // times that it could not be written
	Evictions   map[string]int64 // identities that had to make room, by kind
}

// Counters returns what has happened so far.
func (l *Ledger) Counters() Counters {
	c := &l.counters
	c.mu.Lock()
	defer c.mu.Unlock()
	return Counters{FlushErrors: c.flushErrors, Evictions: maps.Clone(c.evictions)}
}

// counters are counted on the goroutine of the flusher and read by whoever collects metrics.
type counters struct {
	mu          sync.Mutex
	flushErrors int64
	evictions   evictions
}

// failed counts a flush that failed.
func (c *counters) failed() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.flushErrors++
}

// evicted counts whom a flush had no room for.
func (c *counters) evicted(e evictions) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.evictions.join(e)
}

// evictions are numbers of identities, by kind.
type evictions map[string]int64

func (e evictions) join(o evictions) {
	for kind, n := range o {
		e[kind] += n
	}
}
