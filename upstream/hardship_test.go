//go:build unix

package upstream_test

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/exchange/exchangetest"
	"github.com/mcp-dualstack/bridge/negotiate"
	"github.com/mcp-dualstack/bridge/upstream"
)

// A child that closes its output but lives is as good as gone: its call fails and it is ended.
func TestChildClosesItsOutput(t *testing.T) {
	up, log := stdioUpstream(t, "closes stdout", upstream.Options{CloseGrace: 100 * time.Millisecond, TermGrace: 100 * time.Millisecond})
	s := openDedicated(t, up)
	start := time.Now()
	_, err := s.Call(t.Context(), exchange.Request{Method: "quit"}, nil)
	equal(t, "call", reason(err), exchange.ReasonLost)
	<-s.Done()
	within(t, "the end", start, time.Second)
	_ = up.Close()
	for _, pid := range pids(t, log) {
		equal(t, "child is there", running(pid), false)
	}
}

// A child that stops reading holds up its own callers, as long as they wait, and a bounded amount of memory.
func TestChildStopsReading(t *testing.T) {
	const queue = 256 << 10
	up, _ := stdioUpstream(t, "stops reading", upstream.Options{
		MaxQueueBytes: queue, CloseGrace: 100 * time.Millisecond, TermGrace: 100 * time.Millisecond,
	})
	s := openDedicated(t, up)
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	params := []byte(`{"x":"` + strings.Repeat("x", 64<<10) + `"}`)
	before := heap()
	var calls sync.WaitGroup
	for range 200 {
		calls.Go(func() {
			if _, err := s.Call(ctx, exchange.Request{Method: "quit", Params: params}, nil); err == nil {
				t.Error("got an answer")
			}
		})
	}
	calls.Wait()
	if grown := heap() - before; grown > 4*queue {
		t.Errorf("%d KiB more are held", grown>>10)
	}
	other := openDedicated(t, up)
	equal(t, "another session", size(t, other, 5), 5)
	start := time.Now()
	_ = up.Close()
	within(t, "Close", start, 2*time.Second)
}

// A child that floods keeps nobody from being answered, and what nobody reads is not gathered (R35).
func TestChildFloods(t *testing.T) {
	up, _ := stdioUpstream(t, "floods", upstream.Options{})
	s, other := openDedicated(t, up), openDedicated(t, up)
	before := heap()
	equal(t, "starts the flood", size(t, s, 1), 1)
	for range 100 {
		equal(t, "in the flood", size(t, s, 10), 10)
		equal(t, "beside it", size(t, other, 10), 10)
	}
	if grown := heap() - before; grown > 32<<20 {
		t.Errorf("%d KiB more are held", grown>>10)
	}
}

// heap returns the bytes that are in use.
func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// Kill -9 in mid-call under load of 50 sessions: every pending call is answered within a second, nothing
// remains, and new calls succeed.
func TestKillUnderLoad(t *testing.T) {
	for _, test := range []struct {
		name, child string
		client      exchange.Client
		children    int
	}{
		{"a child each", "legacy", legacyClient(negotiate.Rev20251125, nil), 50},
		{"one for all", "modern", modernClient, 1},
		{"shared by the pool", "legacy", modern("a", `{}`), 1},
		{"leased", "legacy", modern("a", elicits), 50},
	} {
		t.Run(test.name, func(t *testing.T) {
			before := openFiles(t)
			up, log := stdioUpstream(t, test.child, upstream.Options{MaxLeases: 50})
			const sessions = 50
			var calls []*pending
			var opened [sessions]exchange.Session
			var opening sync.WaitGroup
			for i := range opened {
				opening.Go(func() {
					s, err := up.Open(t.Context(), test.client)
					if err != nil {
						t.Errorf("Open: %v", err)
						return
					}
					opened[i] = s
				})
			}
			opening.Wait()
			if t.Failed() {
				return
			}
			for _, s := range opened {
				peer := &exchangetest.Peer{}
				calls = append(calls, call(s, "tools/call", `{"name":"wait","arguments":{"announce":true},"_meta":{"progressToken":1}}`, peer))
			}
			for _, c := range calls {
				c.peer.Wait(t.Context(), 1)
			}
			children := pids(t, log)
			alive := 0
			start := time.Now()
			for _, pid := range children {
				if running(pid) {
					alive++
					_ = syscall.Kill(pid, syscall.SIGKILL)
				}
			}
			equal(t, "children", alive, test.children)
			for _, c := range calls {
				_, err := c.wait()
				equal(t, "pending call", reason(err), exchange.ReasonLost)
			}
			within(t, "the last answer", start, time.Second)
			s := opened[0]
			if s.Done() != nil {
				<-s.Done()
				var err error
				if s, err = up.Open(t.Context(), test.client); err != nil {
					t.Fatalf("Open after the kill: %v", err)
				}
			}
			_, err := call(s, "tools/call", `{"name":"echo","arguments":{}}`, nil).wait()
			equal(t, "new call", reason(err), "")
			_ = up.Close()
			for _, pid := range pids(t, log) {
				if running(pid) {
					t.Errorf("child %d is there", pid)
				}
			}
			if after := openFiles(t); after > before {
				t.Errorf("%d open files, want at most %d", after, before)
			}
		})
	}
}

func openDedicated(t *testing.T, up *upstream.Upstream) exchange.Session {
	t.Helper()
	s, err := up.Open(t.Context(), legacyClient(negotiate.Rev20250618, nil))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func within(t *testing.T, what string, start time.Time, limit time.Duration) {
	t.Helper()
	if took := since(start); took > limit {
		t.Errorf("%s took %v, want at most %v", what, took, limit)
	}
}

var pidInLog = regexp.MustCompile(`msg="upstream child started".* pid=(\d+)`)

// pids returns the children that were started.
func pids(t *testing.T, log fmt.Stringer) []int {
	t.Helper()
	var all []int
	for _, m := range pidInLog.FindAllStringSubmatch(log.String(), -1) {
		pid, err := strconv.Atoi(m[1])
		if err != nil || pid == os.Getpid() {
			t.Fatalf("pid %s in the log", m[1])
		}
		all = append(all, pid)
	}
	return all
}
