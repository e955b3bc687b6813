package e2e

import (
	"encoding/json"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"
)

// A bridge that is killed forgets at most the last second. The transport and the revision are
// recorded apart: an old revision is seen over Streamable HTTP and a new one over HTTP+SSE.
func TestReportAfterKill(t *testing.T) {
	p := startBridge(t, needEverything(t)...)
	legacy, _ := openLegacy(t, p.base, "e2e-ledger-legacy", "2025-11-25")
	session := openSession(t, p.base, "/mcp", "e2e-ledger-session", "2024-11-05")
	for _, c := range []caller{legacy, session} {
		checkEcho(t, c)
	}
	// The promise is one about the clock, so the clock is what is waited for.
	<-time.After(1100 * time.Millisecond)
	p.kill(t)

	found := identities(t, p)
	for _, want := range []identity{
		{Name: "e2e-ledger-legacy", Transport: "http_sse", Requested: "2025-11-25", Negotiated: "2025-11-25", Sessions: 1},
		{Name: "e2e-ledger-session", Transport: "streamable_http", Requested: "2024-11-05", Negotiated: "2024-11-05", Sessions: 1},
	} {
		if !slices.Contains(found, want) {
			t.Errorf("the report does not list %+v but %+v", want, found)
		}
	}
	if table := report(t, p, "text"); !strings.Contains(table, "e2e-ledger-legacy") {
		t.Errorf("the table does not list the legacy client:\n%s", table)
	}

	// A bridge started on the same folder goes on with what was recorded.
	again := startOn(t, p.state, needEverything(t)...)
	openSession(t, again.base, "/mcp", "e2e-ledger-session", "2024-11-05")
	again.terminate(t)
	var sessions int
	for _, id := range identities(t, again) {
		if id.Name == "e2e-ledger-session" {
			sessions += id.Sessions
		}
	}
	if sessions != 2 {
		t.Errorf("after a second run the report counts %d sessions of the client, want 2", sessions)
	}
}

// report runs bridge report on the state folder of a bridge.
func report(t *testing.T, p *program, format string) string {
	t.Helper()
	cmd := exec.Command(bridgeProgram, "report", "--state", p.state, "--output", format)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if code := cmd.ProcessState.ExitCode(); code != 1 && code != 3 { // blocked, or observed for too short a time to say more
		t.Fatalf("bridge report --output %s: %v\n%s%s", format, err, out, stderr.String())
	}
	return string(out)
}

// An identity is what one row of the report says about a client.
type identity struct {
	Name, Transport, Requested, Negotiated string
	Sessions                               int
}

// identities returns the rows of the report.
func identities(t *testing.T, p *program) []identity {
	t.Helper()
	text := report(t, p, "json")
	var r struct{ Clients []identity }
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		t.Fatalf("report %q: %v", text, err)
	}
	return r.Clients
}
