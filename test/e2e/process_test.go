package e2e

import (
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/mcp-dualstack/bridge/test/harness"
)

// A program is one running bridge.
type program struct {
	*harness.Process
	base  string // http://127.0.0.1:PORT
	state string // folder of --state
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
	addr := harness.FreeAddr(tb)
	serve := []string{"serve", "--listen", addr, "--admin", "off", "--state", state}
	p := &program{base: "http://" + addr, state: state}
	p.Process = harness.Start(tb, exec.Command(bridgeProgram, append(serve, args...)...))
	tb.Cleanup(func() { p.end(tb) })
	p.Says(tb, p.base)
	return p
}

// end stops the bridge if it still runs.
func (p *program) end(tb testing.TB) {
	if !p.Ended() {
		p.terminate(tb)
	}
	if log := p.Output(); strings.Contains(log, "DATA RACE") || strings.Contains(log, "panic:") {
		tb.Errorf("the bridge reported a race or a panic")
	}
}

// terminate sends SIGTERM and waits for the end; the exit code must be 0.
func (p *program) terminate(tb testing.TB) {
	tb.Helper()
	p.Signal(syscall.SIGTERM)
	if code := p.Wait(tb); code != 0 {
		tb.Errorf("exit code after SIGTERM: got %d, want 0", code)
	}
}

// kill sends SIGKILL and waits for the end. The orphaned children are killed too.
func (p *program) kill(tb testing.TB) {
	tb.Helper()
	orphans := p.Children(tb)
	p.Signal(syscall.SIGKILL)
	p.Wait(tb)
	for _, pid := range orphans {
		syscall.Kill(pid, syscall.SIGKILL)
	}
}
