package e2e

import (
	"encoding/json"
	"errors"
	"os/exec"
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

	text := report(t, p, "json")
	for name, want := range map[string][2]string{
		"e2e-ledger-legacy":  {"http_sse", "2025-11-25"},
		"e2e-ledger-session": {"streamable_http", "2024-11-05"},
	} {
		seen := identity(t, text, name)
		for _, word := range want {
			if !strings.Contains(seen, word) {
				t.Errorf("%s: the report does not say %s: %s", name, word, seen)
			}
		}
	}
	if table := report(t, p, "text"); !strings.Contains(table, "e2e-ledger-legacy") {
		t.Errorf("the table does not list the legacy client:\n%s", table)
	}

	// A bridge started on the same folder goes on with what was recorded.
	again := startOn(t, p.state, needEverything(t)...)
	again.terminate(t)
	identity(t, report(t, again, "json"), "e2e-ledger-session")
}

// report runs bridge report on the state folder of a bridge. The exit codes for a verdict (blocked,
// insufficient evidence) are no failures here.
func report(t *testing.T, p *program, format string) string {
	t.Helper()
	cmd := exec.Command(bridgeProgram, "report", "--state", p.state, "--output", format)
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) && (exit.ExitCode() == 1 || exit.ExitCode() == 3) {
		err = nil
	}
	if err != nil {
		t.Fatalf("bridge report --output %s: %v\n%s%s", format, err, out, stderrOf(exit))
	}
	return string(out)
}

func stderrOf(e *exec.ExitError) []byte {
	if e == nil {
		return nil
	}
	return e.Stderr
}

// identity returns the JSON text of the one identity of a report that names the client.
func identity(t *testing.T, text, name string) string {
	t.Helper()
	var r struct {
		Schema     json.RawMessage
		Identities []json.RawMessage
	}
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		t.Fatalf("report %q: %v", text, err)
	}
	var found []string
	for _, one := range r.Identities {
		if strings.Contains(string(one), name) {
			found = append(found, string(one))
		}
	}
	if len(found) != 1 {
		t.Fatalf("the report lists %s %d times, want once:\n%s", name, len(found), text)
	}
	return found[0]
}
