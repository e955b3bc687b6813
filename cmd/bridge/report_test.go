package main

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"encoding/xml"
	"os"
	"path/filepath"
	"strings"
	"testing"

	bridge "github.com/mcp-dualstack/bridge"
	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/negotiate"
	"github.com/mcp-dualstack/bridge/telemetry"
)

// echo is a server that answers nothing but an empty result.
type echo struct{}

func (echo) Open(context.Context, exchange.Client) (exchange.Session, error) { return echo{}, nil }
func (echo) Server() exchange.Server                                         { return exchange.Server{} }
func (echo) Notify(context.Context, exchange.Request) error                  { return nil }
func (echo) Done() <-chan struct{}                                           { return nil }
func (echo) Close() error                                                    { return nil }
func (echo) Call(context.Context, exchange.Request, exchange.Peer) (exchange.Response, error) {
	return exchange.Response{}, nil
}

// recorded returns a state folder with the ledger of clients that have been there once.
func recorded(t *testing.T, clients ...exchange.Client) string {
	t.Helper()
	dir := t.TempDir()
	l, err := telemetry.Open(filepath.Join(dir, bridge.LedgerFile), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range clients {
		sess, err := l.Handler(echo{}).Open(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := sess.Call(t.Context(), exchange.Request{Method: "tools/list"}, nil); err != nil {
			t.Fatal(err)
		}
		if err := sess.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return dir
}

func oldClient(name string) exchange.Client {
	return exchange.Client{Info: []byte(`{"name":"` + name + `","version":"1"}`), Transport: exchange.HTTPSSE, Session: "s-" + name,
		Requested: "2024-11-05", Revision: negotiate.Rev20241105}
}

func newClient(name string) exchange.Client {
	c := oldClient(name)
	c.Transport = exchange.StreamableHTTP
	return c
}

// policyFile writes a policy that needs no time of observation, with more lines of it.
func policyFile(t *testing.T, lines string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "policy.yaml")
	if err := os.WriteFile(file, []byte("listen: 127.0.0.1:1\nretirement:\n  min_observation: 0s\n  quiet_period: 1d\n"+lines), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestReportExitCodes(t *testing.T) {
	modern, legacy := recorded(t, newClient("new")), recorded(t, oldClient("old"))
	quick := policyFile(t, "")
	damaged := t.TempDir()
	if err := os.WriteFile(filepath.Join(damaged, bridge.LedgerFile), []byte("this is no database at all, of some length"), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name   string
		args   []string
		code   int
		stdout string
		stderr string
	}{
		{"ready", []string{"--state", modern, "--policy", quick}, exitOK, "step to gone: READY", ""},
		{"blocked", []string{"--state", legacy, "--policy", quick}, exitFailed, "BLOCKED (1 blocker)", ""},
		{"insufficient", []string{"--state", modern}, exitInsufficient, "INSUFFICIENT EVIDENCE", ""},
		{"a stage that refuses nobody", []string{"--state", legacy, "--stage", "warn"}, exitOK, "step to warn: READY", ""},
		{"two ledgers", []string{"--ledger", filepath.Join(modern, "ledger.db"), "--ledger", filepath.Join(legacy, "ledger.db"), "--policy", quick}, exitFailed, "2 replicas", ""},
		{"exempt", []string{"--state", legacy, "--policy", policyFile(t, "  exemptions: [{id: old@, until: 2999-01-01, owner: batch}]\n")}, exitOK, "exempt to 2999-01-01; owner batch", ""},
		{"simulation", []string{"--state", legacy, "--policy", quick, "--simulate", "7d"}, exitFailed, "1 session and 1 call of 1", ""},
		{"unknown stage", []string{"--state", modern, "--stage", "never"}, exitUsage, "", `--stage: "never" is none of open, announce`},
		{"unknown form", []string{"--state", modern, "--output", "pdf"}, exitUsage, "", `--output: "pdf" is none of`},
		{"no time", []string{"--state", modern, "--simulate", "tomorrow"}, exitUsage, "", `"tomorrow" is no period such as 30d`},
		{"policy with an unknown key", []string{"--state", modern, "--policy", policyFile(t, "  quite_period: 1d\n")}, exitUsage, "", "quite_period"},
		{"policy that cannot be", []string{"--state", modern, "--policy", policyFile(t, "  cadence_factor: 0\n  max_traffic_share: 7\n")}, exitUsage, "", "cadence_factor: 0 is not between"},
		{"admin and files", []string{"--admin", "http://127.0.0.1:1", "--ledger", "x"}, exitUsage, "", "leave out --ledger"},
		{"no ledger", []string{"--state", t.TempDir()}, exitUnreadable, "", "there is no ledger in"},
		{"damaged", []string{"--state", damaged}, exitUnreadable, "", "it is damaged"},
		{"nobody answers", []string{"--admin", "http://127.0.0.1:1"}, exitUnreadable, "", "127.0.0.1:1"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			if code := run(append([]string{"report"}, tt.args...), &stdout, &stderr); code != tt.code {
				t.Errorf("got exit code %d, want %d", code, tt.code)
			}
			if !strings.Contains(stdout.String(), tt.stdout) || !strings.Contains(stderr.String(), tt.stderr) {
				t.Errorf("got %q and %q, want %q and %q in them", &stdout, &stderr, tt.stdout, tt.stderr)
			}
			if tt.stderr == "" && stderr.Len() > 0 {
				t.Errorf("got %q on stderr, want nothing", &stderr)
			}
		})
	}
}

// What bridge serve takes from the environment, report and retire take too: where a ledger is, and the policy by which it is judged.
func TestReportEnvironment(t *testing.T) {
	modern := recorded(t, newClient("new"))
	report := func(code int, want string, args ...string) {
		t.Helper()
		var stdout, stderr bytes.Buffer
		if got := run(args, &stdout, &stderr); got != code || !strings.Contains(stdout.String()+stderr.String(), want) {
			t.Errorf("%v: got exit code %d, %s%s; want %d, %s", args, got, &stdout, &stderr, code, want)
		}
	}
	t.Setenv("BRIDGE_STATE", modern)
	report(exitInsufficient, "INSUFFICIENT", "report")
	t.Setenv("BRIDGE_POLICY", policyFile(t, ""))
	report(exitOK, "READY", "report")
	report(exitOK, "", "retire", "set", "closed", "--reason", "nobody is left", "--yes")
	report(exitUnreadable, "127.0.0.1:1", "report", "--admin", "http://127.0.0.1:1") // which has its own policy
	report(exitUnreadable, "127.0.0.1:1", "retire", "--admin", "http://127.0.0.1:1", "show")
	t.Setenv("BRIDGE_POLICY", filepath.Join(t.TempDir(), "none.yaml"))
	report(exitUsage, "none.yaml", "report")
	report(exitUsage, "none.yaml", "retire", "show")
	t.Setenv("BRIDGE_STATE", "off")
	t.Setenv("BRIDGE_POLICY", "")
	report(exitUsage, "no ledger is kept", "report")
}

// Each form is of its kind and says the same.
func TestReportForms(t *testing.T) {
	dir := recorded(t, oldClient("=cmd|calc"), newClient("new"))
	form := func(name string) string {
		var stdout, stderr bytes.Buffer
		if code := run([]string{"report", "--state", dir, "--output", name, "--policy", policyFile(t, "")}, &stdout, &stderr); code != exitFailed {
			t.Errorf("%s: got exit code %d: %s", name, code, &stderr)
		}
		return stdout.String()
	}
	if r := (telemetry.Report{}); json.Unmarshal([]byte(form("json")), &r) != nil || r.Verdict != telemetry.Blocked || len(r.Identities) != 2 || len(r.Digest) != 64 {
		t.Errorf("json: got %+v", r)
	}
	rows, err := csv.NewReader(strings.NewReader(form("csv"))).ReadAll()
	if err != nil || len(rows) != 3 || rows[1][0] != "'=cmd|calc@;" || rows[1][3] != "unknown" {
		t.Errorf("csv: got %v, %v", rows, err)
	}
	if got := form("prom"); !strings.Contains(got, `mcp_bridge_retirement_ready{target_stage="gone"} 0`) {
		t.Errorf("prom: got %s", got)
	}
	var suites struct {
		Suite struct {
			Failures int `xml:"failures,attr"`
		} `xml:"testsuite"`
	}
	if err := xml.Unmarshal([]byte(form("junit")), &suites); err != nil || suites.Suite.Failures != 1 {
		t.Errorf("junit: got %+v, %v, want one failure", suites, err)
	}
	if got := form("text"); strings.Contains(got, "\x1b") {
		t.Errorf("text: got colours without a terminal: %q", got)
	}
}
