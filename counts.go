package bridge

import "sync"

// counts are how many calls each caller has in flight. A caller without any takes no room.
type counts struct {
	max int // of one caller; zero: any

	mu sync.Mutex
	by map[string]int
}

func newCounts(max int) *counts { return &counts{max: max, by: map[string]int{}} }

// enter counts one more, unless there are max already.
func (c *counts) enter(name string) bool {
	if c.max == 0 {
		return true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.by[name] >= c.max {
		return false
	}
	c.by[name]++
	return true
}

// leave counts one out that enter has counted in.
func (c *counts) leave(name string) {
	if c.max == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.by[name]--; c.by[name] == 0 {
		delete(c.by, name)
	}
}
