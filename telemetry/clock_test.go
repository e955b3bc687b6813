package telemetry

import (
	"sync/atomic"
	"time"
)

// A testClock is a clock that a test sets while a ledger reads it.
type testClock struct{ ms atomic.Int64 }

func newTestClock(t time.Time) *testClock {
	c := &testClock{}
	c.ms.Store(t.UnixMilli())
	return c
}

func (c *testClock) now() time.Time      { return time.UnixMilli(c.ms.Load()).UTC() }
func (c *testClock) add(d time.Duration) { c.ms.Add(d.Milliseconds()) }
