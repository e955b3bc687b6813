package main

import (
	"slices"
	"time"
)

// A fanResult says what one notification to all subscribers costs. Times in microseconds after the call that causes it.
type fanResult struct {
	Kind    string  `json:"kind"`
	Asked   int     `json:"asked"`
	Subs    int     `json:"subscribers"`
	Rounds  int     `json:"rounds"`
	P50     float64 `json:"p50_us"`
	P99     float64 `json:"p99_us"`
	LastP50 float64 `json:"last_subscriber_p50_us"`
	LastMax float64 `json:"last_subscriber_max_us"`
	CPUus   float64 `json:"cpu_us_per_delivery"`
	Missing int64   `json:"missing"`
	Extra   int64   `json:"extra"`
	Err     string  `json:"first_error,omitempty"`
}

// fanout opens o.C subscribers and has the server tell them all o.N times.
func fanout(o options) fanResult {
	st := &stats{}
	if o.N == 0 {
		o.N = 20
	}
	subs, _, e, _ := openSubs(o, st)
	r := fanResult{Kind: o.Kind, Asked: o.C, Subs: alive(subs), Rounds: int(o.N), Err: e}
	defer closeSubs(subs)
	ep, err := parseURL(o.URL)
	s := &session{n: o.C, kind: o.Kind, ep: ep, st: st, run: "f"}
	c := newConn(ep.host)
	if err == nil {
		err = s.open(c, 15*time.Second)
	}
	if err != nil {
		r.Err = err.Error()
		return r
	}
	defer s.shut(c)
	time.Sleep(300 * time.Millisecond)
	for _, b := range subs {
		if b != nil {
			b.n.Store(0)
		}
	}
	var all, last []int64
	u0 := measure(o.Pid, o.Whole)
	for k := int64(1); k <= o.N; k++ {
		t0 := time.Now()
		s.do(c, &call{done: make(chan struct{}, 1)}, nil, work{tool: "notify"}, s.callHead("notify"), o.Timeout)
		told(subs, k, t0.Add(3*time.Second))
		var slowest int64
		for _, b := range subs {
			if b == nil || !b.up.Load() {
				continue
			}
			if b.n.Load() < k {
				r.Missing++
				b.n.Store(k)
				continue
			}
			d := b.at.Load() - t0.UnixNano()
			all = append(all, d)
			slowest = max(slowest, d)
		}
		last = append(last, slowest)
		time.Sleep(20 * time.Millisecond)
	}
	u1 := measure(o.Pid, o.Whole)
	for _, b := range subs {
		if b != nil {
			r.Extra += max(0, b.n.Load()-o.N)
		}
	}
	slices.Sort(all)
	slices.Sort(last)
	r.P50, r.P99 = quantile(all, .5), quantile(all, .99)
	r.LastP50, r.LastMax = quantile(last, .5), quantile(last, 1)
	if len(all) > 0 {
		r.CPUus = (u1.CPU - u0.CPU) / float64(len(all)) * 1e6
	}
	if es, ok := st.firstErr.Load().(string); ok && r.Err == "" {
		r.Err = es
	}
	return r
}

// told waits until every open subscriber has been told k times, or until end.
func told(subs []*subscriber, k int64, end time.Time) {
	for time.Now().Before(end) {
		if !slices.ContainsFunc(subs, func(b *subscriber) bool { return b != nil && b.up.Load() && b.n.Load() < k }) {
			return
		}
		time.Sleep(200 * time.Microsecond)
	}
}
