package main

import "time"

// An idleResult says what open streams cost that nothing is sent on. Memory in KiB.
type idleResult struct {
	Kind     string  `json:"kind"`
	Asked    int     `json:"asked"`
	Open     int     `json:"open"`
	Failed   int     `json:"failed"`
	OpenRate float64 `json:"opens_per_s"`
	RSS0     int64   `json:"rss_before_kib"`
	RSS1     int64   `json:"rss_after_kib"`
	Per      float64 `json:"rss_kib_per_stream"`
	KidPer   float64 `json:"kids_rss_kib_per_stream,omitempty"`
	Kids     int     `json:"kids,omitempty"`
	IdleCPU  float64 `json:"idle_cpu_ms_per_s"`
	OpenCPU  float64 `json:"open_cpu_us_per_stream"`
	RSSClose int64   `json:"rss_after_close_kib"`
	Err      string  `json:"first_error,omitempty"`
}

// idle opens o.C streams and looks at o.Pid when they have been silent for o.T.
func idle(o options) idleResult {
	st := &stats{}
	u0 := measure(o.Pid, o.Whole)
	subs, failed, e, took := openSubs(o, st)
	u1 := measure(o.Pid, o.Whole)
	time.Sleep(o.T)
	u2 := measure(o.Pid, o.Whole)
	r := idleResult{Kind: o.Kind, Asked: o.C, Open: alive(subs), Failed: failed, RSS0: u0.RSS, RSS1: u2.RSS, Kids: u2.Kids, Err: e}
	if r.Open > 0 {
		r.OpenRate = float64(r.Open) / took.Seconds()
		r.Per = float64(u2.RSS-u0.RSS) / float64(r.Open)
		r.KidPer = float64(u2.KidRSS-u0.KidRSS) / float64(r.Open)
		r.OpenCPU = (u1.CPU - u0.CPU) / float64(r.Open) * 1e6
	}
	r.IdleCPU = (u2.CPU - u1.CPU) / o.T.Seconds() * 1e3
	closeSubs(subs)
	time.Sleep(2 * time.Second)
	r.RSSClose = measure(o.Pid, o.Whole).RSS
	return r
}
