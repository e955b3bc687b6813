package main

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// options of one run.
type options struct {
	Kind    string
	URL     string
	C       int           // sessions
	D       int           // calls in flight per session
	W       int           // calls in flight altogether, on sessions in turn; 0: C times D, each with its session
	P       int           // bytes of payload
	K       int           // progress notifications per call
	R       int           // questions per call
	N       int64         // most calls, 0: no bound; fanout: rounds
	M       int           // slow: clients that do not read
	Rate    float64       // calls/s of all sessions together, 0: as fast as the answers come
	T       time.Duration // length
	Timeout time.Duration // an answer later than this is lost
	Pid     int           // the process to account
	Whole   bool          // its descendants count as itself
}

// A result is one line of output. Rates are per second, times in microseconds, memory in KiB.
type result struct {
	Kind     string  `json:"kind"`
	Secs     float64 `json:"secs"`
	Calls    int     `json:"calls"`
	Rate     float64 `json:"calls_per_s"`
	P50      float64 `json:"p50_us"`
	P90      float64 `json:"p90_us"`
	P99      float64 `json:"p99_us"`
	P999     float64 `json:"p999_us"`
	Max      float64 `json:"max_us"`
	MBs      float64 `json:"reply_mb_s"`
	Notes    int64   `json:"notifications,omitempty"`
	Rounds   int64   `json:"rounds,omitempty"`
	Errors   int64   `json:"errors"`
	Lost     int64   `json:"lost"`
	Dup      int64   `json:"dup"`
	Misroute int64   `json:"misrouted"`
	Wrong    int64   `json:"wrong"`
	Unknown  int64   `json:"unknown"`
	BadNotes int64   `json:"bad_notifications"`
	CPUs     float64 `json:"cpu_s"`
	CPUus    float64 `json:"cpu_us_per_call"`
	KidCPUs  float64 `json:"kids_cpu_s,omitempty"`
	RSS      int64   `json:"rss_kib"`
	HWM      int64   `json:"hwm_kib"`
	Kids     int     `json:"kids,omitempty"`
	Self     float64 `json:"generator_cpu_s"`
	Other    float64 `json:"other_cpu_cores"` // cores busy with processes that are not of this measurement
	Err      string  `json:"first_error,omitempty"`
}

// faults returns how often each kind of fault was seen, in words; empty: never.
func (r result) faults() []string {
	var out []string
	for _, f := range []struct {
		name string
		n    int64
	}{
		{"errors", r.Errors}, {"lost", r.Lost}, {"dup", r.Dup}, {"misrouted", r.Misroute}, {"wrong", r.Wrong}, {"unknown", r.Unknown}, {"bad notifications", r.BadNotes},
	} {
		if f.n != 0 {
			out = append(out, fmt.Sprintf("%d %s", f.n, f.name))
		}
	}
	return out
}

func quantile(sorted []int64, q float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	return float64(sorted[min(len(sorted)-1, int(q*float64(len(sorted))))]) / 1e3
}

var runs atomic.Int64

// openAll opens the sessions of a run, a few at a time.
func openAll(o options, ep endpoint, st *stats, run string) ([]*session, []*conn, error) {
	ss, cs := make([]*session, o.C), make([]*conn, o.C)
	var wg sync.WaitGroup
	var first atomic.Value
	sem := make(chan struct{}, 4)
	for i := range ss {
		sem <- struct{}{}
		wg.Go(func() {
			defer func() { <-sem }()
			ss[i] = &session{n: i, kind: o.Kind, ep: ep, st: st, run: run, asks: o.R > 0}
			cs[i] = newConn(ep.host)
			if o.W > 0 {
				if o.Kind == kindSSE {
					ss[i].stream = &conn{host: ep.host, size: 4 << 10}
				}
				defer cs[i].shut() // the workers have their own
			}
			if err := ss[i].open(cs[i], 15*time.Second); err != nil {
				first.CompareAndSwap(nil, fmt.Errorf("open session %d: %w", i, err))
			}
		})
	}
	wg.Wait()
	e, _ := first.Load().(error)
	return ss, cs, e
}

func (o options) work() work {
	w := work{tool: "echo", pad: bytes.Repeat([]byte("x"), o.P)}
	switch {
	case o.K > 0:
		w = work{tool: "progress", steps: o.K}
	case o.R > 0:
		w = work{tool: "ask", rounds: o.R}
	}
	return w
}

// run opens o.C sessions, keeps o.D calls in flight on each for o.T and accounts o.Pid meanwhile.
func run(o options) result {
	st := &stats{}
	ep, err := parseURL(o.URL)
	if err != nil {
		return result{Kind: o.Kind, Errors: 1, Err: err.Error()}
	}
	ss, cs, err := openAll(o, ep, st, fmt.Sprintf("r%d", runs.Add(1)))
	if err != nil {
		st.err(err)
	}
	runtime.GC()
	u0, self0 := measure(o.Pid, o.Whole), measure(os.Getpid(), false)
	busy0, tree0 := busy(), measure(os.Getpid(), true).CPU
	start := time.Now()
	if err == nil {
		drive(o, ss, cs, st, start.Add(o.T))
	}
	r := result{Kind: o.Kind, Secs: time.Since(start).Seconds()}
	u1, self1 := measure(o.Pid, o.Whole), measure(os.Getpid(), false)
	r.Other = max(0, (busy()-busy0-measure(os.Getpid(), true).CPU+tree0)/r.Secs)
	if o.Kind == kindSSE {
		time.Sleep(50 * time.Millisecond) // for second answers
	}
	for i, s := range ss {
		s.shut(cs[i])
		cs[i].shut()
	}
	r.fill(st)
	if want := int64(r.Calls * o.R); r.Rounds < want {
		r.BadNotes += want - r.Rounds
	}
	r.CPUs, r.KidCPUs, r.RSS, r.HWM, r.Kids = u1.CPU-u0.CPU, u1.KidCPU-u0.KidCPU, u1.RSS, u1.HWM, u1.Kids
	r.Self = self1.CPU - self0.CPU
	if r.Calls > 0 {
		r.CPUus = r.CPUs / float64(r.Calls) * 1e6
	}
	return r
}

// drive keeps the calls in flight until stop.
func drive(o options, ss []*session, cs []*conn, st *stats, stop time.Time) {
	w := o.work()
	var left atomic.Int64
	left.Store(o.N)
	for _, s := range ss {
		s.callHead(w.tool) // kept from here on
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	if o.W > 0 {
		for n := range o.W {
			wg.Go(func() {
				c := newConn(ss[0].ep.host)
				defer c.shut()
				turn := n - o.W
				lat := loop(o, func() *session { turn += o.W; return ss[turn%len(ss)] }, c, w, stop, &left, pace(o, n))
				st.mu.Lock()
				st.lat = append(st.lat, lat...)
				st.mu.Unlock()
			})
		}
		return
	}
	for i, s := range ss {
		for d := range o.D {
			c := cs[i]
			if d > 0 {
				c = newConn(s.ep.host)
			}
			wg.Go(func() {
				if d > 0 {
					defer c.shut()
				}
				lat := loop(o, func() *session { return s }, c, w, stop, &left, pace(o, i*o.D+d))
				st.mu.Lock()
				st.lat = append(st.lat, lat...)
				st.mu.Unlock()
			})
		}
	}
}

// pace returns a function that waits until the next call of worker n is due, or nil where o names no rate.
func pace(o options, n int) func() {
	if o.Rate <= 0 {
		return nil
	}
	workers := o.C * o.D
	if o.W > 0 {
		workers = o.W
	}
	every := time.Duration(float64(workers) / o.Rate * float64(time.Second))
	due := time.Now().Add(every * time.Duration(n) / time.Duration(workers))
	return func() {
		time.Sleep(time.Until(due))
		due = due.Add(every)
	}
}

// loop makes calls one after another, on the sessions that next returns, and returns their latencies in nanoseconds. Three failures in a row end it.
func loop(o options, next func() *session, c *conn, w work, stop time.Time, left *atomic.Int64, wait func()) (lat []int64) {
	var buf []byte
	cl := &call{done: make(chan struct{}, 1)}
	for fails := 0; fails < 3; {
		if wait != nil {
			wait()
		}
		if !time.Now().Before(stop) || o.N > 0 && left.Add(-1) < 0 {
			break
		}
		var t time.Duration
		var ok bool
		s := next()
		t, buf, ok = s.do(c, cl, buf, w, s.callHead(w.tool), o.Timeout)
		if !ok {
			fails++
			if s.kind == kindSSE { // a late answer must not meet a reused call
				cl = &call{done: make(chan struct{}, 1)}
			}
			continue
		}
		fails = 0
		if cl.prog != int64(o.K) {
			s.st.badNotes.Add(1)
		}
		lat = append(lat, int64(t))
	}
	return lat
}

func (r *result) fill(st *stats) {
	slices.Sort(st.lat)
	r.Calls = len(st.lat)
	r.Rate = float64(r.Calls) / r.Secs
	r.P50, r.P90, r.P99, r.P999 = quantile(st.lat, .5), quantile(st.lat, .9), quantile(st.lat, .99), quantile(st.lat, .999)
	r.Max = quantile(st.lat, 1)
	r.MBs = float64(st.bytes.Load()) / 1e6 / r.Secs
	r.Notes, r.Rounds, r.Errors, r.Lost, r.Dup = st.notes.Load(), st.rounds.Load(), st.errors.Load(), st.lost.Load(), st.dup.Load()
	r.Misroute, r.Wrong, r.Unknown, r.BadNotes = st.misrouted.Load(), st.wrong.Load(), st.unknown.Load(), st.badNotes.Load()
	if e, ok := st.firstErr.Load().(string); ok {
		r.Err = e
	}
}
