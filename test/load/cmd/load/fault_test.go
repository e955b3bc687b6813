package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// TestMain builds the server that makes the faults.
func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "load")
	if err != nil {
		panic(err)
	}
	built = filepath.Join(dir, "upstream")
	if out, err := exec.Command("go", "build", "-o", built, "../upstream").CombinedOutput(); err != nil {
		panic(string(out))
	}
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

var built string

func startUpstream(t *testing.T, args ...string) *process {
	t.Helper()
	port, err := freePort()
	if err != nil {
		t.Fatal(err)
	}
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { log.Close() })
	p, err := start("upstream", port, log, append([]string{built, "-addr", addr(port)}, args...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.stop(); err != nil {
			t.Error(err)
		}
	})
	return p
}

// A generator that calls everything correct measures nothing: each kind of fault, made 20 times in 1000 replies, is counted
// 20 times and as what it is.
func TestFaultsAreCaught(t *testing.T) {
	tests := []struct {
		fault string
		count func(result) int64
	}{
		{"drop", func(r result) int64 { return r.Lost }},
		{"dup", func(r result) int64 { return r.Dup }},
		{"swap", func(r result) int64 { return min(r.Misroute, r.Lost) }}, // one client gets it, another misses it
		{"corrupt", func(r result) int64 { return r.Wrong }},
		{"cut", func(r result) int64 { return r.Wrong }},
		{"order", func(r result) int64 { return r.BadNotes }},
	}
	for _, tt := range tests {
		t.Run(tt.fault, func(t *testing.T) {
			t.Parallel()
			p := startUpstream(t, "-fault", tt.fault)
			// Two handshakes are replies too: 998 calls make a thousand.
			r := run(options{Kind: kindSSE, URL: "http://" + addr(p.port) + "/sse", C: 2, D: 2, P: 64, N: 998, T: time.Minute, Timeout: 300 * time.Millisecond})
			if got := tt.count(r); got != 20 {
				t.Errorf("got %d of 20 faults; all that was seen: %v, first: %s", got, r.faults(), r.Err)
			}
		})
	}
}

// Without a fault nothing is counted, over every transport and for every kind of call.
func TestNoFaults(t *testing.T) {
	p := startUpstream(t)
	for _, w := range []struct {
		name string
		o    options
	}{
		{"echo", options{P: 1024}},
		{"progress", options{K: 50}},
		{"ask", options{R: 3}},
		{"paced", options{P: 10, Rate: 2000}},
		{"in turn", options{P: 10, W: 3}},
	} {
		for _, k := range kinds {
			t.Run(w.name+" "+k, func(t *testing.T) {
				o := w.o
				o.Kind, o.C, o.D, o.N, o.T, o.Timeout = k, 4, 2, 200, time.Minute, 10*time.Second
				o.URL = "http://" + addr(p.port) + both[k]
				r := run(o)
				if f := r.faults(); f != nil {
					t.Errorf("got %v, want none; first: %s", f, r.Err)
				}
				if r.Calls != 200 || r.Rounds != int64(200*o.R) || r.Notes != int64(200*o.K) {
					t.Errorf("got %d calls, %d rounds, %d notifications; want 200, %d, %d", r.Calls, r.Rounds, r.Notes, 200*o.R, 200*o.K)
				}
			})
		}
	}
}

// Every stream is open and told of every change.
func TestStreams(t *testing.T) {
	for _, k := range kinds {
		t.Run(k, func(t *testing.T) {
			p := startUpstream(t)
			o := options{Kind: k, C: 20, N: 5, URL: "http://" + addr(p.port) + both[k], T: 50 * time.Millisecond, Timeout: 5 * time.Second, Pid: p.pid()}
			if r := fanout(o); r.Missing != 0 || r.Extra != 0 || r.Subs != 20 || r.Err != "" {
				t.Errorf("fan-out: got %+v, want nothing missing at 20", r)
			}
			if r := idle(o); r.Open != 20 || r.Err != "" {
				t.Errorf("idle: got %+v, want 20 open", r)
			}
		})
	}
}
