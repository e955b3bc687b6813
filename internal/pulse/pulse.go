// Package pulse wakes many sleepers with one timer.
//
// An open stream needs to be looked at now and then: for a keep-alive comment, or to end it when it is old enough. With a
// timer each, ten thousand streams are ten thousand timers that are set anew with every message. A [Clock] has one, and looks
// at all its alarms at every tick.
package pulse

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

// A Clock rings alarms, each up to one tick late. It runs while there are alarms, and must be closed. Methods may be called
// concurrently.
type Clock struct {
	tick time.Duration
	stop chan struct{} // closed by Close
	wg   sync.WaitGroup

	mu      sync.Mutex
	alarms  []*Alarm
	running bool
	closed  bool
}

// New returns a clock of that tick, which must be positive.
func New(tick time.Duration) *Clock { return &Clock{tick: tick, stop: make(chan struct{})} }

// Pause returns d less up to a tenth, so that what began together does not go on together. An alarm set to it rings before d is
// over, unless the tick is longer than a tenth of d.
func (c *Clock) Pause(d time.Duration) time.Duration {
	return d - c.tick - rand.N(max(d/10-c.tick, 0)+1) // #nosec G404 -- jitter, not a secret
}

// An Alarm wakes one sleeper, at every tick from its time on until it is set anew, or runs a function once. Set may be called concurrently with
// everything but Add.
type Alarm struct {
	wake  chan<- struct{}
	run   func()       // instead of wake
	at    atomic.Int64 // unix nanoseconds; zero: never
	clock *Clock
	index int // in clock.alarms; guarded by clock.mu
}

// Add puts a, which is new or was removed, on the clock, not set. When it rings it sends to wake, which has room for
// one, and does not wait.
func (c *Clock) Add(a *Alarm, wake chan<- struct{}) {
	a.wake, a.run = wake, nil
	c.add(a, time.Time{})
}

// AddFunc puts a, which is new or was removed, on the clock, to ring once at t, when it runs f in a goroutine of its own. f may still
// begin while Remove is called.
func (c *Clock) AddFunc(a *Alarm, t time.Time, f func()) {
	a.wake, a.run = nil, f
	c.add(a, t)
}

func (c *Clock) add(a *Alarm, t time.Time) {
	a.clock = c
	a.Set(t)
	c.mu.Lock()
	defer c.mu.Unlock()
	a.index = len(c.alarms)
	c.alarms = append(c.alarms, a)
	if !c.running && !c.closed {
		c.running = true
		c.wg.Go(c.run) // ends by itself when there are no alarms, or with Close
	}
}

// Set sets the time from which on the alarm rings, zero for never.
func (a *Alarm) Set(t time.Time) {
	if t.IsZero() {
		a.at.Store(0)
		return
	}
	a.at.Store(t.UnixNano())
}

// Remove takes the alarm off its clock. It must be called once for each Add.
func (a *Alarm) Remove() {
	c := a.clock
	c.mu.Lock()
	defer c.mu.Unlock()
	last := len(c.alarms) - 1
	c.alarms[a.index] = c.alarms[last]
	c.alarms[a.index].index = a.index
	c.alarms[last] = nil
	c.alarms = c.alarms[:last]
}

// Close stops the clock and waits until it stands. Alarms do not ring any more. It may be called more than once.
func (c *Clock) Close() {
	c.mu.Lock()
	if !c.closed {
		c.closed = true
		close(c.stop)
	}
	c.mu.Unlock()
	c.wg.Wait()
}

func (c *Clock) run() {
	t := time.NewTicker(c.tick)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			if !c.ring(time.Now().UnixNano()) {
				return
			}
		case <-c.stop:
			return
		}
	}
}

// ring rings what is due. It reports false, and the clock has stopped, when there are no alarms.
func (c *Clock) ring(now int64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.alarms) == 0 {
		c.running, c.alarms = false, nil
		return false
	}
	for _, a := range c.alarms {
		if at := a.at.Load(); at == 0 || at > now {
			continue
		}
		if a.run != nil {
			a.at.Store(0)
			go a.run()
			continue
		}
		select {
		case a.wake <- struct{}{}:
		default: // it has been woken and has not looked yet
		}
	}
	return true
}
