package harness

import (
	"net"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// ProcessLimit is how long a process may take to start listening or to end. Many start at once on
// few cores, so it is no measure of speed.
const ProcessLimit = 60 * time.Second

// A Process is a program that a test started. Its output is kept.
type Process struct {
	Cmd  *exec.Cmd
	Done chan struct{} // closed when it has ended

	out output
}

// Start starts a command and kills it when the test ends, if it still runs then. Its output is logged if the
// test failed.
func Start(tb testing.TB, cmd *exec.Cmd) *Process {
	tb.Helper()
	p := &Process{Cmd: cmd, Done: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = &p.out, &p.out
	cmd.WaitDelay = 5 * time.Second // a child left behind may hold the pipe open
	if err := cmd.Start(); err != nil {
		tb.Fatalf("start %s: %v", cmd.Path, err)
	}
	go func() { // ends with the process
		cmd.Wait()
		close(p.Done)
	}()
	tb.Cleanup(func() {
		cmd.Process.Kill()
		<-p.Done
		if tb.Failed() {
			tb.Logf("output of %s:\n%s", cmd.Path, tail(p.Output(), 20000))
		}
	})
	return p
}

func tail(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return "..." + s[len(s)-n:]
}

// Output returns what the process has printed so far.
func (p *Process) Output() string { return p.out.String() }

// Says waits until the process has printed the text. The test fails if it ends before.
func (p *Process) Says(tb testing.TB, text string) {
	tb.Helper()
	select {
	case <-p.out.saw(text):
	case <-p.Done:
		tb.Fatalf("%s ended before it said %q", p.Cmd.Path, text)
	case <-time.After(ProcessLimit):
		tb.Fatalf("%s does not say %q", p.Cmd.Path, text)
	}
}

// Listens waits until the process, which does not say so, takes connections on the address.
func (p *Process) Listens(tb testing.TB, addr string) {
	tb.Helper()
	giveUp := time.After(ProcessLimit)
	for {
		c, err := net.Dial("tcp", addr)
		if err == nil {
			c.Close()
			return
		}
		select {
		case <-p.Done:
			tb.Fatalf("%s ended before it listened on %s", p.Cmd.Path, addr)
		case <-giveUp:
			tb.Fatalf("%s does not listen on %s: %v", p.Cmd.Path, addr, err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// Ended reports whether the process has ended.
func (p *Process) Ended() bool {
	select {
	case <-p.Done:
		return true
	default:
		return false
	}
}

// Signal sends a signal.
func (p *Process) Signal(sig syscall.Signal) { p.Cmd.Process.Signal(sig) }

// Wait waits for the end and returns the exit code, -1 after a signal. The test fails if the process does not end.
func (p *Process) Wait(tb testing.TB) int {
	tb.Helper()
	select {
	case <-p.Done:
	case <-time.After(ProcessLimit):
		tb.Fatalf("%s still runs after %v", p.Cmd.Path, ProcessLimit)
	}
	return p.Cmd.ProcessState.ExitCode()
}

// FreeAddr returns an address of the loopback nobody listens on.
func FreeAddr(tb testing.TB) string {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// An output keeps what a process prints and tells who waits for a text.
type output struct {
	mu      sync.Mutex
	text    strings.Builder
	waiters map[string]chan struct{}
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.text.Write(p)
	for text, c := range o.waiters {
		if strings.Contains(o.text.String(), text) {
			close(c)
			delete(o.waiters, text)
		}
	}
	return len(p), nil
}

// saw returns a channel that is closed when the text is in the output.
func (o *output) saw(text string) <-chan struct{} {
	o.mu.Lock()
	defer o.mu.Unlock()
	if c := o.waiters[text]; c != nil {
		return c
	}
	c := make(chan struct{})
	if strings.Contains(o.text.String(), text) {
		close(c)
		return c
	}
	if o.waiters == nil {
		o.waiters = make(map[string]chan struct{})
	}
	o.waiters[text] = c
	return c
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}
