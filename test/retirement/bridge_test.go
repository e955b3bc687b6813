package retirement

import (
	"encoding/json"
	"net/http"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/mcp-dualstack/bridge/retire"
	"github.com/mcp-dualstack/bridge/test/harness"
)

// A bridge is the real program in front of its demo server.
type bridge struct {
	*harness.Process
	addr  string
	base  string // http://ADDR
	state string // folder
	flags []string
}

// newURL is what an error must name.
func (b *bridge) newURL() string { return b.base + "/mcp" }

func startBridge(t *testing.T, flags ...string) *bridge {
	t.Helper()
	if *installed == "" || testing.Short() {
		t.Skip("needs the published clients: make retirement")
	}
	b := &bridge{state: t.TempDir(), addr: harness.FreeAddr(t), flags: flags}
	b.base = "http://" + b.addr
	b.start(t)
	return b
}

func (b *bridge) start(t *testing.T) {
	t.Helper()
	args := append([]string{"serve", "--listen", b.addr, "--admin", "off", "--state", b.state, "--retire-drain-spread", "2s"}, b.flags...)
	b.Process = harness.Start(t, exec.Command(bridgeProgram, args...))
	b.Says(t, b.base)
}

// restart ends the program as an operator does and starts it again at the same address.
func (b *bridge) restart(t *testing.T) {
	t.Helper()
	b.Signal(syscall.SIGTERM)
	if code := b.Wait(t); code != 0 {
		t.Fatalf("the bridge ended with %d", code)
	}
	b.start(t)
}

// stage goes to a stage by the command of the operator, with further flags, and waits until the bridge says so: 2 s at most
// (retirement.md 6). It returns what everybody can read.
func (b *bridge) stage(t *testing.T, stage retire.Stage, flags ...string) status {
	t.Helper()
	args := append([]string{"retire", "set", string(stage), "--state", b.state, "--yes", "--force", "--reason", "a test"}, flags...)
	if out, err := exec.Command(bridgeProgram, args...).CombinedOutput(); err != nil {
		t.Fatalf("bridge retire set %s: %v\n%s", stage, err, out)
	}
	begun := time.Now()
	for {
		if s := b.status(t); s.Stage == stage {
			return s
		}
		if time.Since(begun) > 2*time.Second {
			t.Fatalf("the bridge is not at %s after 2 s", stage)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// A status is what GET /retirement tells everybody.
type status struct {
	Stage     retire.Stage
	Brownouts []struct{ Until time.Time }
}

func (b *bridge) status(t *testing.T) (s status) {
	t.Helper()
	resp, err := http.Get(b.base + "/retirement")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(&s); err != nil {
		t.Fatal(err)
	}
	return s
}
