// Package pulse wakes many sleepers with one timer.
//
// An open stream needs to be looked at now and then: for a keep-alive comment, or to end it when it is old enough. With a
// timer each, ten thousand streams are ten thousand timers that are set anew with every message. A [Clock] has one, and looks
// at all its alarms at every tick.
package pulse

import (
	"sync"
	"sync/atomic"
	"time"
)

// A Clock rings alarms, each up to one tick late. It runs only while there are alarms. Methods may be called concurrently.
type Clock struct {
	tick time.Duration

	mu     sync.Mutex
	alarms []*Alarm
	stop   chan struct{} // closed to end the goroutine; nil: none runs
	done   chan struct{} // closed when it has ended
}

// New returns a clock of that tick, which must be positive.
func New(tick time.Duration) *Clock { return &Clock{tick: tick} }

// Tick returns how late an alarm may ring.
func (c *Clock) Tick() time.Duration { return c.tick }

// An Alarm wakes one sleeper, at every tick from its time on until it is set anew. Set may be called concurrently with
// everything.
type Alarm struct {
	wake  chan<- struct{}
	at    atomic.Int64 // unix nanoseconds; zero: never
	clock *Clock
	index int // in clock.alarms; guarded by clock.mu
}

// Add returns an alarm that is not set. It sends to wake, which has room for one, and does not wait.
func (c *Clock) Add(wake chan<- struct{}) *Alarm {
	a := &Alarm{wake: wake, clock: c}
	c.mu.Lock()
	defer c.mu.Unlock()
	a.index = len(c.alarms)
	c.alarms = append(c.alarms, a)
	if c.stop == nil {
		c.stop, c.done = make(chan struct{}), make(chan struct{})
		go c.run(c.stop, c.done) // ends with the last alarm, which waits for it
	}
	return a
}

// Set sets the time from which on the alarm rings, zero for never.
func (a *Alarm) Set(t time.Time) {
	if t.IsZero() {
		a.at.Store(0)
		return
	}
	a.at.Store(t.UnixNano())
}

// Remove takes the alarm off its clock. It must be called once.
func (a *Alarm) Remove() {
	c := a.clock
	c.mu.Lock()
	last := len(c.alarms) - 1
	c.alarms[a.index] = c.alarms[last]
	c.alarms[a.index].index = a.index
	c.alarms[last] = nil
	c.alarms = c.alarms[:last]
	var done chan struct{}
	if last == 0 {
		close(c.stop)
		done = c.done
		c.stop, c.alarms = nil, nil
	}
	c.mu.Unlock()
	if done != nil {
		<-done
	}
}

func (c *Clock) run(stop <-chan struct{}, done chan<- struct{}) {
	defer close(done)
	t := time.NewTicker(c.tick)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			c.ring(time.Now().UnixNano())
		case <-stop:
			return
		}
	}
}

func (c *Clock) ring(now int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, a := range c.alarms {
		if at := a.at.Load(); at == 0 || at > now {
			continue
		}
		select {
		case a.wake <- struct{}{}:
		default: // it has been woken and has not looked yet
		}
	}
}
