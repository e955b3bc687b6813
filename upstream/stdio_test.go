//go:build unix

package upstream_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
	"github.com/mcp-dualstack/bridge/negotiate"
	"github.com/mcp-dualstack/bridge/upstream"
)

// stdioUpstream returns an upstream that runs the test binary as a child, and its log.
func stdioUpstream(t *testing.T, name string, o upstream.Options) (*upstream.Upstream, *logText) {
	t.Helper()
	if testing.Short() {
		t.Skip("starts processes")
	}
	log := &logText{}
	o.Logger = debugLogger(log)
	c := child(t, name)
	c.Args = []string{"--token=" + secret}
	c.Env = append(c.Env, "API_KEY="+secret)
	up := upstream.Stdio(c, &o)
	t.Cleanup(func() { _ = up.Close() })
	return up, log
}

// size asks for n bytes and returns how many came.
func size(t *testing.T, s exchange.Session, n int) int {
	t.Helper()
	resp, err := s.Call(t.Context(), exchange.Request{Method: "size", Params: fmt.Appendf(nil, `{"n":%d}`, n)}, nil)
	if err != nil || resp.Error != nil {
		t.Fatalf("size %d: %v, %v", n, err, resp.Error)
	}
	return len(resp.Result) - len(`{"x":""}`)
}

// Servers that misbehave, but can be worked with (R19, R25, R29, R37).
func TestTolerated(t *testing.T) {
	for _, name := range []string{"exit on probe", "mute on probe", "deaf after probe", "noisy", "stderr with lines", "stderr without lines", "stubborn", "grandchild"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			up, log := stdioUpstream(t, name, upstream.Options{
				ProbeTimeout: 500 * time.Millisecond, CloseGrace: 100 * time.Millisecond, TermGrace: 100 * time.Millisecond,
			})
			for range 2 {
				s, err := up.Open(t.Context(), legacyClient(negotiate.Rev20250618, nil))
				if err != nil {
					t.Fatalf("Open: %v\n%s", err, log)
				}
				for _, n := range []int{1, 63 << 10, 65_536, 65_537, 1 << 20, 8 << 20, 1} {
					equal(t, "size", size(t, s, n), n)
				}
				_ = s.Close()
			}
			start := time.Now()
			_ = up.Close()
			if took := since(start); took > 5*time.Second {
				t.Errorf("Close took %v", took)
			}
			if n := len(log.String()); n > 64<<10 {
				t.Errorf("the log has %d bytes", n)
			}
		})
	}
}

// Servers that cannot be worked with end in an error, in bounded time and without a secret (R38).
func TestUnavailable(t *testing.T) {
	for _, name := range []string{"exit at once", "exit on initialize", "hang"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			up, log := stdioUpstream(t, name, upstream.Options{
				ProbeTimeout: 300 * time.Millisecond, OpenTimeout: time.Second, CloseGrace: 100 * time.Millisecond, TermGrace: 100 * time.Millisecond,
			})
			start := time.Now()
			for range 2 {
				_, err := up.Open(t.Context(), legacyClient(negotiate.Rev20250618, nil))
				equal(t, "error", reason(err), exchange.ReasonUnavailable)
				checkSecret(t, fmt.Sprint(err))
			}
			if took := since(start); took > 10*time.Second {
				t.Errorf("two attempts took %v", took)
			}
			_ = up.Close()
			logged := log.String()
			if name == "exit at once" { // it prints its own arguments; what it says itself may be logged
				logged = strings.Join(deleteLines(logged, "wrote to stderr"), "\n")
			}
			checkSecret(t, logged)
		})
	}
}

func deleteLines(text, with string) []string {
	var kept []string
	for line := range strings.Lines(text) {
		if !strings.Contains(line, with) {
			kept = append(kept, line)
		}
	}
	return kept
}

func TestNoSuchCommand(t *testing.T) {
	up := upstream.Stdio(upstream.Command{Path: "/home/alice/no-such-server", Args: []string{secret}}, nil)
	defer up.Close()
	_, err := up.Open(t.Context(), modernClient)
	equal(t, "error", reason(err), exchange.ReasonUnavailable)
	equal(t, "text", err.Error(), "upstream_unavailable: start no-such-server: no such file or directory")
}

// A child that ends takes its calls and its session with it, and the next session has a new one.
func TestChildEnds(t *testing.T) {
	up, _ := stdioUpstream(t, "exit on probe", upstream.Options{})
	s, err := up.Open(t.Context(), legacyClient(negotiate.Rev20250618, nil))
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.Call(t.Context(), exchange.Request{Method: "quit"}, nil)
	equal(t, "call", reason(err), exchange.ReasonLost)
	<-s.Done()
	s, err = up.Open(t.Context(), legacyClient(negotiate.Rev20250618, nil))
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "size", size(t, s, 5), 5)
}

// What a child leaves behind goes with it, and the end shows although the pipe is still held open.
func TestGrandchildGoesToo(t *testing.T) {
	up, _ := stdioUpstream(t, "grandchild", upstream.Options{})
	s, err := up.Open(t.Context(), legacyClient(negotiate.Rev20250618, nil))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := s.Call(t.Context(), exchange.Request{Method: "pid"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(string(jsonrpc.Get(resp.Result, "pid")))
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.Call(t.Context(), exchange.Request{Method: "quit"}, nil)
	equal(t, "call", reason(err), exchange.ReasonLost)
	<-s.Done()
	_ = up.Close()
	// It is no child of ours to wait for, so there is only looking.
	for deadline := time.Now().Add(5 * time.Second); running(pid); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("grandchild %d is still there", pid)
		}
	}
}

// running reports whether the process exists and is not a zombie.
func running(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	state, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	return err != nil || !bytes.Contains(state, []byte(") Z "))
}

// After Close nothing is left: no child, no file, no goroutine (TestMain looks for those).
func TestCloseLeavesNothing(t *testing.T) {
	up, _ := stdioUpstream(t, "dual", upstream.Options{})
	before := openFiles(t)
	for range 5 {
		s, err := up.Open(t.Context(), legacyClient(negotiate.Rev20250618, nil))
		if err != nil {
			t.Fatal(err)
		}
		_ = s
	}
	_ = up.Close()
	if after := openFiles(t); after > before {
		t.Errorf("got %d open files, want at most %d", after, before)
	}
}

func openFiles(t *testing.T) int {
	t.Helper()
	files, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skip("counts files in /proc: ", err)
	}
	return len(files)
}
