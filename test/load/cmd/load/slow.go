package main

import (
	"bytes"
	"log"
	"sync"
	"sync/atomic"
	"time"
)

// A slowResult compares the same load without and beside clients that do not read.
type slowResult struct {
	Before    result  `json:"before"`
	During    result  `json:"during"`
	RateRatio float64 `json:"rate_ratio"`
	P99Ratio  float64 `json:"p99_ratio"`
	Slow      int     `json:"slow_clients"`
	SlowSent  int64   `json:"slow_calls_accepted"`
	SlowBytes int64   `json:"slow_bytes_requested"`
	SlowCut   int64   `json:"slow_streams_cut"`
	PostSecs  float64 `json:"slow_posting_s"` // until every large call was sent, at most 15 s
	RSSGrow   int64   `json:"rss_growth_kib"` // while they do not read, over the load without them
}

const (
	slowCalls = 64        // of each slow client
	slowBytes = 256 << 10 // of each reply; 16 MiB for each client
)

// slow compares o.C sessions alone with the same sessions beside o.M clients that ask for large replies and never read them.
func slow(o options) slowResult {
	var r slowResult
	ep, err := parseURL(o.URL)
	if err != nil {
		log.Fatal(err)
	}
	warm := o
	warm.T = o.T / 4
	run(warm)
	r.Before = run(o)
	m0 := measure(o.Pid, o.Whole)
	b := &blockers{o: o, ep: ep, quit: make(chan struct{}), ready: make(chan struct{}, o.M)}
	t0 := time.Now()
	for i := range o.M {
		b.wg.Go(func() { b.block(i) })
	}
	late := time.After(15 * time.Second)
wait:
	for range o.M {
		select {
		case <-b.ready:
		case <-late:
			break wait
		}
	}
	r.PostSecs = time.Since(t0).Seconds()
	time.Sleep(500 * time.Millisecond)
	r.During = run(o)
	r.RSSGrow = measure(o.Pid, o.Whole).RSS - m0.RSS
	close(b.quit)
	b.wg.Wait()
	r.Slow, r.SlowSent, r.SlowCut = o.M, b.sent.Load(), b.cut.Load()
	r.SlowBytes = r.SlowSent * slowBytes
	if r.Before.Rate > 0 {
		r.RateRatio = r.During.Rate / r.Before.Rate
	}
	if r.Before.P99 > 0 {
		r.P99Ratio = r.During.P99 / r.Before.P99
	}
	return r
}

// blockers are the clients that do not read.
type blockers struct {
	o         options
	ep        endpoint
	quit      chan struct{}
	ready     chan struct{}
	wg        sync.WaitGroup
	sent, cut atomic.Int64
}

// block is one of them: it asks for 16 MiB and holds its connections until quit is closed.
func (b *blockers) block(n int) {
	var once sync.Once
	ready := func() { once.Do(func() { b.ready <- struct{}{} }) }
	defer ready()
	s := &session{n: n, kind: b.o.Kind, ep: b.ep, st: &stats{}, run: "z"}
	c := newConn(b.ep.host)
	defer c.shut()
	if b.o.Kind == kindSSE {
		s.stream = newConn(b.ep.host)
		s.stream.rcv, s.stream.size = 4096, 4096
		defer s.stream.shut()
	}
	if err := s.open(c, 15*time.Second); err != nil {
		log.Print("slow client: ", err)
		return
	}
	if b.o.Kind == kindSSE {
		stall(s)
	}
	w := work{tool: "echo", pad: bytes.Repeat([]byte("y"), slowBytes)}
	head := s.callHead("echo")
	for range slowCalls {
		select {
		case <-b.quit:
			return
		default:
		}
		cl := &call{id: s.next.Add(1)}
		body := s.body(nil, w, cl)
		if b.o.Kind == kindSSE {
			if rr, err := c.post(head, body, 2*time.Second, nil); err != nil || rr.status/100 != 2 {
				b.cut.Add(1)
				break
			}
			b.sent.Add(1)
			continue
		}
		x := newConn(b.ep.host) // a reply left unread holds its connection
		x.rcv = 4096
		defer x.shut()
		if x.write(head, body, 2*time.Second) == nil {
			b.sent.Add(1)
		}
	}
	ready()
	<-b.quit
}

// stall makes the session's stream reader stop for good at its next message.
func stall(s *session) {
	s.mu.Lock()
	s.stalled = true
	s.mu.Unlock()
}
