package telemetry_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/telemetry"
)

const recordEnv = "TELEMETRY_TEST_RECORD"

// recordAndHang is a server that counts two clients, says so after the promised second, and goes on
// until it is killed.
func recordAndHang(file string) {
	l, err := telemetry.Open(file, nil)
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	h := l.Handler(&server{})
	for _, name := range []string{"first", "second"} {
		if _, err := h.Open(context.Background(), legacyClient(name)); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
	}
	time.Sleep(time.Second)
	fmt.Println("recorded")
	select {}
}

// After kill -9 the clients seen more than a second before are in the file, while the server has it open
// and after its death, for a reader and for the next server.
func TestKill(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a process")
	}
	file := filepath.Join(t.TempDir(), "ledger.db")
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), recordEnv+"="+file)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var said string
	if _, err := fmt.Fscan(out, &said); err != nil || said != "recorded" {
		t.Errorf("child said %q, %v", said, err)
	}
	wantClients(t, "while it runs", file, "first", "second")
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // killed is what it was
	wantClients(t, "after the kill", file, "first", "second")

	l := openLedger(t, file, nil)
	if _, err := l.Handler(&server{}).Open(t.Context(), legacyClient("third")); err != nil {
		t.Fatal(err)
	}
	if got := len(report(t, l).Clients); got != 3 {
		t.Errorf("next server: got %d clients, want 3", got)
	}
}

func wantClients(t *testing.T, when, file string, names ...string) {
	t.Helper()
	r, err := telemetry.Read(file)
	if err != nil {
		t.Errorf("%s: %v", when, err)
		return
	}
	got := map[string]bool{}
	for _, c := range r.Clients {
		got[c.Name] = c.Transport == exchange.HTTPSSE && !c.LastSeen.IsZero()
	}
	for _, name := range names {
		if !got[name] {
			t.Errorf("%s: %q is missing in %v", when, name, r.Clients)
		}
	}
}
