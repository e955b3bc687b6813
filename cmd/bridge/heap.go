package main

import (
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

const (
	leastHeap = 32 << 20 // bytes that the heap may grow by, whatever is live
	leastPace = 50       // percent; Go's own is 100

	// mostPace is that at which the first collection begins at leastHeap: at Go's own it begins at 4 MiB.
	mostPace = leastHeap / (4 << 20) * 100
)

// A heapPacer sets the pace of garbage collection after each collection. Go collects whenever the heap has doubled, from 4 MiB on.
// A bridge with few sessions keeps next to nothing between two calls: under load it would collect some fifty times a second, which
// takes an eighth of its time. One with many idle streams would keep as much again as they take.
type heapPacer struct {
	sample []metrics.Sample
	pace   int // as set last
}

// paceHeap starts one, unless the operator has an opinion (GOGC or GOMEMLIMIT).
func paceHeap() {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	c := &heapPacer{sample: []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/gc/scan/stack:bytes"}, {Name: "/gc/scan/globals:bytes"}}}
	c.adjust()
	c.watch()
}

// watch calls adjust after each collection, in the runtime's goroutine for finalizers: what nobody holds is found by the first.
func (c *heapPacer) watch() {
	runtime.AddCleanup(new([16]byte), func(c *heapPacer) {
		c.adjust()
		c.watch()
	}, c)
}

func (c *heapPacer) adjust() {
	metrics.Read(c.sample)
	pace := paceFor(c.sample[0].Value.Uint64() + c.sample[1].Value.Uint64() + c.sample[2].Value.Uint64())
	// Setting it stops the world for a moment, so small changes are not worth it.
	if diff := math.Abs(float64(pace - c.pace)); diff > float64(c.pace)/8 || pace == leastPace && diff > 0 {
		c.pace = pace
		debug.SetGCPercent(pace)
	}
}

// paceFor returns the percentage of base, which is what a collection has to look at (the heap that is live, stacks and globals), by
// which the heap may grow until the next: leastHeap, or half of base if that is more. Stacks make up half of what streams take.
func paceFor(base uint64) int {
	if base == 0 { // before the first collection
		return mostPace
	}
	return int(min(max(leastHeap*100/base, leastPace), mostPace))
}
