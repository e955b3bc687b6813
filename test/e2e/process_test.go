package e2e

import (
	"bytes"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// How long a process may take to start listening or to end. Many node processes start at once
// on few cores, so this is no measure of speed.
const processLimit = 60 * time.Second

// A program is one running bridge.
type program struct {
	base  string // http://127.0.0.1:PORT
	state string // folder of --state
	cmd   *exec.Cmd
	out   *output
	done  chan struct{} // closed when the process has ended

}

// startBridge starts bridge serve with the arguments, a free port and a state folder of its own, and
// waits until it says where it listens. The process is gone when the test ends.
func startBridge(tb testing.TB, args ...string) *program {
	tb.Helper()
	return startOn(tb, filepath.Join(tb.TempDir(), "state"), args...)
}

// startOn is startBridge with a given state folder.
func startOn(tb testing.TB, state string, args ...string) *program {
	tb.Helper()
	base := "http://" + freeAddr(tb)
	p := &program{
		base:  base,
		state: state,
		out:   &output{want: base, seen: make(chan struct{})},
		done:  make(chan struct{}),
	}
	serve := []string{"serve", "--listen", strings.TrimPrefix(base, "http://"), "--admin", "off", "--state", p.state}
	p.cmd = exec.Command(bridgeProgram, append(serve, args...)...)
	p.cmd.Stdout, p.cmd.Stderr = p.out, p.out
	p.cmd.WaitDelay = 5 * time.Second // a child left behind may hold the pipe open
	if err := p.cmd.Start(); err != nil {
		tb.Fatalf("start the bridge: %v", err)
	}
	go func() {
		p.cmd.Wait()
		close(p.done)
	}()
	tb.Cleanup(func() { p.end(tb) })
	select {
	case <-p.out.seen:
	case <-p.done:
		tb.Fatalf("the bridge ended before it listened:\n%s", p.out)
	case <-time.After(processLimit):
		tb.Fatalf("the bridge does not say that it listens on %s:\n%s", base, p.out)
	}
	return p
}

// freeAddr returns an address of the loopback nobody listens on.
func freeAddr(tb testing.TB) string {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// end stops the bridge if it still runs, and shows its output if the test failed.
func (p *program) end(tb testing.TB) {
	if !p.ended() {
		p.terminate(tb)
	}
	if log := p.out.String(); strings.Contains(log, "DATA RACE") || strings.Contains(log, "panic:") {
		tb.Errorf("the bridge reported a race or a panic")
	}
	if tb.Failed() {
		tb.Logf("output of the bridge:\n%s", p.out)
	}
}

func (p *program) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// terminate sends SIGTERM and waits for the end; the exit code must be 0.
func (p *program) terminate(tb testing.TB) {
	tb.Helper()
	p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.done:
	case <-time.After(processLimit):
		p.cmd.Process.Kill()
		<-p.done
		tb.Fatalf("the bridge still runs %v after SIGTERM", processLimit)
	}
	if code := p.cmd.ProcessState.ExitCode(); code != 0 {
		tb.Errorf("exit code after SIGTERM: got %d, want 0", code)
	}
}

// kill sends SIGKILL and waits for the end. The orphaned children are killed too.
func (p *program) kill(tb testing.TB) {
	tb.Helper()
	orphans := p.children(tb)
	p.cmd.Process.Kill()
	<-p.done
	for _, pid := range orphans {
		syscall.Kill(pid, syscall.SIGKILL)
	}
}

// children returns the process ids of the bridge's children, as Linux lists them under /proc.
func (p *program) children(tb testing.TB) []int {
	tb.Helper()
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	if len(stats) == 0 {
		tb.Skip("this system does not list processes under /proc")
	}
	parent := strconv.Itoa(p.cmd.Process.Pid)
	var pids []int
	for _, name := range stats {
		text, err := os.ReadFile(name)
		if err != nil {
			continue // it has ended
		}
		// PID (NAME) STATE PARENT ...; the name may hold anything, so read behind its last bracket.
		_, rest, _ := strings.Cut(string(text[bytes.LastIndexByte(text, ')')+1:]), " ")
		fields := strings.Fields(rest)
		if len(fields) < 2 || fields[1] != parent {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(name)))
		if err != nil {
			tb.Fatalf("%s: %v", name, err)
		}
		pids = append(pids, pid)
	}
	return pids
}

// An output keeps what a process prints and closes seen when want is in it.
type output struct {
	want string
	seen chan struct{}

	mu   sync.Mutex
	text bytes.Buffer
	told bool
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.text.Write(p)
	if !o.told && bytes.Contains(o.text.Bytes(), []byte(o.want)) {
		o.told = true
		close(o.seen)
	}
	return len(p), nil
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}
