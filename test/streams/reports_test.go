package streams

import (
	"bufio"
	"encoding/json"
	"net"
	"sync"
	"testing"
	"time"
)

// reports are what the servers behind the bridge say of their calls, with the time at which it was read
// here.
type reports struct {
	addr string // where servers send them

	mu      sync.Mutex
	seen    map[report]time.Time
	counts  map[string]int // by event
	waiters map[report]chan time.Time
}

// A report says what happened to the call with a tag: begin, end or cancel.
type report struct{ Event, Tag string }

// newReports listens until the test ends.
func newReports(tb testing.TB) *reports {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	r := &reports{
		addr: l.Addr().String(), seen: make(map[report]time.Time), counts: make(map[string]int), waiters: make(map[report]chan time.Time),
	}
	var conns sync.WaitGroup
	conns.Go(func() { // ends when l is closed
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			conns.Go(func() { r.read(c) }) // ends with the server process
		}
	})
	tb.Cleanup(func() {
		l.Close()
		conns.Wait()
	})
	return r
}

func (r *reports) read(c net.Conn) {
	defer c.Close()
	lines := bufio.NewScanner(c)
	for lines.Scan() {
		now := time.Now()
		var got report
		if json.Unmarshal(lines.Bytes(), &got) != nil {
			continue
		}
		r.mu.Lock()
		r.seen[got] = now
		r.counts[got.Event]++
		if w := r.waiters[got]; w != nil {
			w <- now
			delete(r.waiters, got)
		}
		r.mu.Unlock()
	}
}

// when returns a channel on which the time of a report is sent once, when it came.
func (r *reports) when(event, tag string) <-chan time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := make(chan time.Time, 1)
	if at, ok := r.seen[report{event, tag}]; ok {
		c <- at
		return c
	}
	r.waiters[report{event, tag}] = c
	return c
}

// count returns how many reports of an event came.
func (r *reports) count(event string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.counts[event]
}
