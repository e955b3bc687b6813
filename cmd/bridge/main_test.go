package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// isolate hides the user's environment and state from a test and returns an empty folder.
func isolate(t *testing.T) string {
	t.Helper()
	for _, pair := range os.Environ() {
		if name, _, _ := strings.Cut(pair, "="); strings.HasPrefix(name, envPrefix) {
			t.Setenv(name, "") // restores it at the end
			os.Unsetenv(name)
		}
	}
	dir := t.TempDir()
	t.Setenv("XDG_STATE_HOME", dir)
	return dir
}

func writeFile(t *testing.T, text string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "bridge.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// Command lines that end by themselves: what they print and their exit codes.
func TestCommands(t *testing.T) {
	tests := []struct {
		name, line     string
		code           int
		stdout, stderr string // parts of it
	}{
		{"nothing", "", exitOK, "Usage:", ""},
		{"help", "serve --help", exitOK, "Exit codes:", ""},
		{"version", "version", exitOK, "2026-07-28, 2025-11-25, 2025-06-18, 2025-03-26, 2024-11-05", ""},
		{"version as JSON", "version --output json", exitOK, `"revisions":["2026-07-28",`, ""},
		{"unknown command", "sevre", exitUsage, "", `unknown command "sevre"`},
		{"unknown flag", "serve --port 80", exitUsage, "", "unknown flag: --port"},
		{"command without --", "serve node server.js", exitUsage, "", `"node" is not understood; the command of the server stands after --`},
		{"unknown output", "version --output xml", exitUsage, "", "neither text nor json"},
		{"URL upstream", "serve --upstream ftp://u:secret@127.0.0.1:1/mcp?key=secret", exitUsage, "", "--upstream: upstream URL ftp://127.0.0.1:1/mcp: must begin with http:// or https://"},
		{"URL and command", "serve --upstream http://127.0.0.1:1/mcp -- true", exitUsage, "", "--upstream: there is a command too"},
		{"shared", "serve --sharing shared", exitUsage, "", "--sharing: shared needs a server that keeps nothing"},
		{"header without a name", "serve --upstream http://127.0.0.1:1/mcp --upstream-header secret", exitUsage, "", "--upstream-header: a header is written as Name: value"},
		{"unknown era", "serve --era new", exitUsage, "", `--era: "new" is none of auto, legacy, modern`},
		{"reachable from elsewhere", "serve --listen :8420", exitUsage, "", "--listen: :8420 can be reached from other machines"},
		{"admin reachable from elsewhere", "serve --admin 0.0.0.0:8421", exitUsage, "", "--admin: 0.0.0.0:8421 can be reached"},
		{"no address", "serve --listen 8420", exitUsage, "", `--listen: "8420" is not an address`},
		{"no such program", "serve -- no-such-program --token secret", exitUsage, "", `after --: command: cannot be started: exec: "no-such-program": executable file not found`},
		{"bad duration", "serve --keep-alive soon", exitUsage, "", "invalid argument"},
		{"no file", "check --config no-such.yaml", exitUsage, "", "no-such.yaml: no such file"},
		{"no ledger yet", "report", exitUnreadable, "", "there is no ledger in"},
		{"checked", "check --legacy off", exitOK, " --legacy\n", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			isolate(t)
			var stdout, stderr bytes.Buffer
			if code := run(strings.Fields(tt.line), &stdout, &stderr); code != tt.code {
				t.Errorf("exit code: got %d, want %d", code, tt.code)
			}
			if !strings.Contains(stdout.String(), tt.stdout) {
				t.Errorf("stdout: got %s, want %s in it", &stdout, tt.stdout)
			}
			if !strings.Contains(stderr.String(), tt.stderr) || (tt.code == exitOK) != (stderr.Len() == 0) {
				t.Errorf("stderr: got %s, want %s in it", &stderr, tt.stderr)
			}
			if strings.Contains(stderr.String(), "secret") {
				t.Errorf("an argument of the server shows: %s", &stderr)
			}
		})
	}
}

func TestReportOfADamagedLedger(t *testing.T) {
	isolate(t)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "ledger.db"), []byte(strings.Repeat("no database ", 1000)), 0o600); err != nil {
		t.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	if code := run([]string{"report", "--state", dir}, &stdout, &stderr); code != exitUnreadable {
		t.Errorf("exit code: got %d, want %d", code, exitUnreadable)
	}
	if stdout.Len() > 0 || !strings.Contains(stderr.String(), "ledger.db") {
		t.Errorf("got stdout %q, stderr %q", &stdout, &stderr)
	}
}
