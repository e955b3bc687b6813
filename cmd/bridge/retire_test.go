package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	bridge "github.com/mcp-dualstack/bridge"
	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/negotiate"
	"github.com/mcp-dualstack/bridge/retire"
	"github.com/mcp-dualstack/bridge/telemetry"
)

// A result is what a command line did.
type result struct {
	code           int
	stdout, stderr string
}

// command runs a command line with stdin at its input.
func command(t *testing.T, stdin string, args ...string) result {
	t.Helper()
	in, err := os.Open(writeFile(t, stdin))
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	was := os.Stdin
	os.Stdin = in
	defer func() { os.Stdin = was }()
	var stdout, stderr bytes.Buffer
	code := run(args, &stdout, &stderr)
	return result{code, stdout.String(), stderr.String()}
}

// want checks an exit code and parts of the output.
func (r result) want(t *testing.T, code int, stdout, stderr string) {
	t.Helper()
	if r.code != code || !strings.Contains(r.stdout, stdout) || !strings.Contains(r.stderr, stderr) {
		t.Errorf("got exit code %d, stdout %q, stderr %q; want %d with %q and %q", r.code, r.stdout, r.stderr, code, stdout, stderr)
	}
}

// stateOf reads the document in dir.
func stateOf(t *testing.T, dir string) *retire.State {
	t.Helper()
	k, err := retire.OpenKeeper(dir, &retire.Options{Passive: true})
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	return k.State()
}

// A silent server answers every call with an empty result.
type silent struct{ exchange.Session }

func (silent) Open(context.Context, exchange.Client) (exchange.Session, error) { return silent{}, nil }
func (silent) Server() exchange.Server                                         { return exchange.Server{Revision: negotiate.Rev20241105} }
func (silent) Call(context.Context, exchange.Request, exchange.Peer) (exchange.Response, error) {
	return exchange.Response{Result: []byte("{}")}, nil
}
func (silent) Done() <-chan struct{} { return nil }
func (silent) Close() error          { return nil }

// witness writes a ledger into dir in which clients of these names have used HTTP+SSE just now.
func witness(t *testing.T, dir string, names ...string) {
	t.Helper()
	l, err := telemetry.Open(filepath.Join(dir, bridge.LedgerFile), nil)
	if err != nil {
		t.Fatal(err)
	}
	for i, name := range names {
		s, err := l.Handler(silent{}).Open(t.Context(), exchange.Client{
			Revision: negotiate.Rev20241105, Requested: "2024-11-05", Info: fmt.Appendf(nil, `{"name":%q,"version":"0.9.1"}`, name),
			Transport: exchange.HTTPSSE, Addr: netip.AddrFrom4([4]byte{10, 4, byte(i), 1}), UserAgent: "node",
		})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Call(t.Context(), exchange.Request{Method: "tools/list"}, nil); err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}

// The way of an operator through the files, with every exit code (retirement.md 10, checks 9 to 11).
func TestRetire(t *testing.T) {
	isolate(t)
	dir := filepath.Join(t.TempDir(), "state")
	retireAt := func(stdin string, args ...string) result {
		t.Helper()
		return command(t, stdin, append([]string{"retire", "--state", dir}, args...)...)
	}
	retireAt("", "show").want(t, exitOK, "stage open (version 0)\nHTTP+SSE is served as ever\nstate  "+dir, "")
	retireAt("", "undo").want(t, exitFailed, "", "there is no change to undo")
	retireAt("", "history", "--verify").want(t, exitOK, "the stage was never changed\nlog whole: 0 records", "")
	if _, err := os.Stat(dir); err == nil {
		t.Error("looking made the folder")
	}

	retireAt("", "set", "announce", "--sunset", "2099-01-15", "--reason", "mail").want(t, exitOK, "stage open -> announce, version 1\n", "")
	retireAt("", "set", "warn").want(t, exitOK, "stage announce -> warn, version 2\n", "")
	retireAt("", "set", "warn", "--sunset", "2001-01-15").want(t, exitFailed, "", "sunset: 2001-01-15T00:00:00Z is earlier than the deprecation")
	retireAt("", "show").want(t, exitOK, "sunset      2099-01-15 00:00 UTC\n", "")

	// Nobody knows who would break.
	retireAt("", "set", "closed", "--yes").want(t, exitNotReady, "", "there is no ledger in "+dir)
	witness(t, dir, "reporting-tool", "\x1b[31mred\u202e")
	// Somebody would.
	refused := retireAt("y\n", "set", "closed")
	refused.want(t, exitNotReady, "", "closed refuses 2 clients, by the last 30 days of HTTP+SSE:\n+ unknown  ")
	refused.want(t, exitNotReady, "", "reporting-tool 0.9.1")
	refused.want(t, exitNotReady, "", "not ready for closed: blocked: ")
	if strings.ContainsAny(refused.stderr, "\x1b\u202e") || strings.Contains(refused.stderr, "Go to closed?") {
		t.Errorf("got %q", refused.stderr)
	}
	retireAt("", "set", "closed", "--force").want(t, exitUsage, "", "--force needs --reason TEXT")
	retireAt("n\n", "set", "closed", "--force", "--reason", "they were told").want(t, exitFailed, "", "Go to closed? [y/N] bridge: nothing was changed\n")
	retireAt("", "set", "closed", "--force", "--reason", "they were told").want(t, exitFailed, "", "there was no answer; scripts say --yes")
	if s := stateOf(t, dir); s.Version != 2 {
		t.Errorf("got version %d after refusals", s.Version)
	}
	retireAt("yes\n", "set", "closed", "--force", "--reason", "they were told").want(t, exitOK, "stage warn -> closed, version 3\n", "Go to closed?")

	// The forced step carries the digest of the failing report.
	var history struct {
		Records []retire.Record
		V       *retire.Verification `json:"verification"`
	}
	asJSON := retireAt("", "history", "--verify", "--output", "json")
	if err := json.Unmarshal([]byte(asJSON.stdout), &history); err != nil {
		t.Fatal(err)
	}
	if len(history.Records) != 3 || history.V == nil || !history.V.Whole() {
		t.Fatalf("got %s", asJSON.stdout)
	}
	if r := history.Records[2]; !r.Forced || len(r.Digest) != 64 || r.Origin != retire.FromCLI || r.Actor != operator() || r.Reason != "they were told" {
		t.Errorf("got %+v", r)
	}
	if r := history.Records[1]; r.Forced || r.Digest != "" {
		t.Errorf("got %+v", r)
	}

	// Back needs nothing, and to undo that goes forward.
	retireAt("", "undo").want(t, exitOK, "stage closed -> warn, version 4\n", "takes back version 3 of ")
	retireAt("", "undo", "--yes").want(t, exitOK, "stage warn -> announce, version 5\n", "takes back version 2 of ")
	retireAt("", "set", "open").want(t, exitOK, "stage announce -> open, version 6\n", "")

	retireAt("", "history").want(t, exitOK, "they were told; FORCED; report ", "")
	text := strings.Replace(readText(t, dir, retire.AuditFile), "they were told", "they were asked", 1)
	if err := os.WriteFile(filepath.Join(dir, retire.AuditFile), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	retireAt("", "history", "--verify").want(t, exitNotReady, "FAULT: audit.jsonl, line 4: the line before it was changed or removed\nlog NOT WHOLE: 6 records", "is not what was written")

	if err := os.WriteFile(filepath.Join(dir, retire.StateFile), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	retireAt("", "show").want(t, exitOK, "DAMAGED: ", "")
	if err := os.Remove(filepath.Join(dir, retire.AuditFile)); err != nil {
		t.Fatal(err)
	}
	retireAt("", "show").want(t, exitUnreadable, "", "repair it, or remove it to begin at stage open")
}

func readText(t *testing.T, dir, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// What cannot be meant is refused before anything is read.
func TestRetireMisused(t *testing.T) {
	tests := []struct{ line, want string }{
		{"sett warn", `"sett" is no command of retire; there are show,`},
		{"set", "accepts 1 arg(s), received 0"},
		{"set close", `"close" is no stage; the stages are open, announce, warn, brownout, closed, drain, gone`},
		{"set warn --sunset soon", `--sunset: "soon" is neither a date such as 2027-01-15`},
		{"set warn --for 1h", "--for: windows work at stage brownout"},
		{"set brownout --for 1s", "--for: must be one minute to seven days"},
		{"set brownout --for 200h", "--for: must be one minute to seven days"},
		{"set brownout --mode calls", "--mode and --percent are about the window that --for opens"},
		{"set brownout --for 1h --mode soft", `--mode: "soft" is none of initialize, calls, hard`},
		{"set brownout --for 1h --percent 101", "--percent: 101 is not 1 to 100"},
		{"plan", "--sunset DATE must be given"},
		{"exempt", "accepts 1 arg(s), received 0"},
		{"exempt sub:a", "--until DATE must be given"},
		{"exempt sub:a --until 2099-01-01 --remove", "leave --until out"},
		{"show --output xml", "neither text nor json"},
		{"show --state off", "without a folder nothing is kept"},
		{"show --token-file x", "--token-file: is for --admin"},
		{"show --state x --admin http://127.0.0.1:1", "--admin and --state name two places"},
		{"show --admin 127.0.0.1:8421", "must be a URL such as http://127.0.0.1:8421"},
		{"show --admin http://u:p@127.0.0.1:1", "must be a URL such as http://127.0.0.1:8421"},
		{"show --admin http://192.0.2.1 --token-file x", "the token would be sent to 192.0.2.1 unencrypted"},
		{"show --admin http://127.0.0.1:1 --token-file no-such", "no-such"},
		{"show --admin http://127.0.0.1:1 --policy x.yaml", "--policy: the bridge at --admin has its own"},
		{"show --policy no-such.yaml", "--policy: open no-such.yaml"},
	}
	for _, tt := range tests {
		t.Run(tt.line, func(t *testing.T) {
			isolate(t)
			command(t, "", append([]string{"retire"}, strings.Fields(tt.line)...)...).want(t, exitUsage, "", tt.want)
		})
	}
}

func TestRetireHelp(t *testing.T) {
	for _, name := range []string{"", "show", "set", "plan", "undo", "exempt", "history"} {
		r := command(t, "", append([]string{"retire"}, append(strings.Fields(name), "--help")...)...)
		for _, part := range []string{"Exit codes:", "Examples:", "bridge retire "} {
			r.want(t, exitOK, part, "")
		}
	}
}

var anyDate = regexp.MustCompile(`\d{4}-\d\d-\d\d`)

func TestRetirePlan(t *testing.T) {
	isolate(t)
	dir := t.TempDir()
	line := []string{"retire", "--state", dir, "plan", "--sunset", "2099-03-01T09:00:00Z"}
	shown := command(t, "", line...)
	shown.want(t, exitOK, "  2099-02-02 10:00    window  until 2099-02-02 11:00, new sessions are refused\n", "")
	shown.want(t, exitOK, "bridge retire plan --sunset 2099-03-01T09:00:00Z --apply\n", "")
	if n := len(anyDate.FindAllString(shown.stdout, -1)); n != 15 {
		t.Errorf("got %d dates in %s", n, shown.stdout)
	}
	var proposal struct{ State *retire.State }
	if err := json.Unmarshal([]byte(command(t, "", append(line, "--output", "json")...).stdout), &proposal); err != nil {
		t.Fatal(err)
	}
	if s := stateOf(t, dir); s.Version != 0 {
		t.Errorf("a proposal changed the state to %+v", s)
	}
	command(t, "n\n", append(line, "--apply")...).want(t, exitFailed, "", "Put this plan in force? [y/N] bridge: nothing was changed")
	command(t, "y\n", append(line, "--apply", "--reason", "agreed")...).want(t, exitOK, "stage open -> announce, version 1\n", "gone      the HTTP+SSE routes are off")
	s := stateOf(t, dir)
	if diff := cmp.Diff(proposal.State.Brownouts, s.Brownouts); diff != "" {
		t.Errorf("brownouts: -proposed +in force\n%s", diff)
	}
	if diff := cmp.Diff(proposal.State.Schedule[1:], s.Schedule[1:]); diff != "" { // the first, warn, counts from the moment
		t.Errorf("schedule: -proposed +in force\n%s", diff)
	}
	command(t, "", "retire", "--state", dir, "show").want(t, exitOK, "schedule    closed at 2099-02-22 09:00 UTC\n", "")
	command(t, "", "retire", "--state", dir, "plan", "--sunset", "2001-01-01").want(t, exitFailed, "", "leaves too little time from stage announce; the earliest is ")
	command(t, "", "retire", "--state", dir, "set", "open").want(t, exitOK, "stage announce -> open, version 2; the schedule is empty\n", "")
}

// A window that is opened by hand is in force at once and takes the place of what it meets.
func TestRetireBrownout(t *testing.T) {
	isolate(t)
	dir := t.TempDir()
	witness(t, dir, "reporting-tool")
	command(t, "", "retire", "--state", dir, "set", "brownout", "--yes").want(t, exitOK, "stage open -> brownout, version 1\n", "note: no window is to come")
	// Nobody breaks for good in a window, so nothing is blocked, but who is refused is shown.
	command(t, "y\n", "retire", "--state", dir, "set", "brownout", "--for", "3h", "--mode", "calls", "--percent", "50").want(t, exitOK, "stage brownout, version 2\n",
		"stage brownout stays\nin its windows brownout refuses 1 client, by the last 30 days of HTTP+SSE:\n+ unknown  reporting-tool 0.9.1  ")
	first := stateOf(t, dir).Brownouts
	if len(first) != 1 || first[0].Mode != retire.ModeCalls || first[0].Percent != 50 || first[0].Until.Sub(first[0].From).Hours() != 3 {
		t.Errorf("got %+v", first)
	}
	command(t, "", "retire", "--state", dir, "show").want(t, exitOK, ", every call is refused, of 50 % of the clients (NOW)\n", "")
	command(t, "", "retire", "--state", dir, "set", "brownout", "--for", "1h", "--yes").want(t, exitOK, "stage brownout, version 3\n", "")
	s := stateOf(t, dir)
	last := s.Brownouts[len(s.Brownouts)-1]
	if len(s.Brownouts) > 2 || last.Mode != retire.ModeInitialize || s.Active(last.From).ID != last.ID {
		t.Errorf("got %+v", s.Brownouts)
	}
}

func TestRetireExempt(t *testing.T) {
	isolate(t)
	dir := t.TempDir()
	line := func(args ...string) []string { return append([]string{"retire", "--state", dir, "exempt"}, args...) }
	command(t, "", line("sub:9f21c0", "--until", "2099-02-01", "--owner", "billing-batch", "--reason", "vendor fix")...).want(t, exitOK, "stage open, version 1\n", "")
	command(t, "", line("sub:9f21c0", "--until", "2099-03-01", "--owner", "billing-batch", "--reason", "late")...).want(t, exitOK, "stage open, version 2\n", "")
	command(t, "", "retire", "--state", dir, "show").want(t, exitOK, "exempt   sub:9f21c0 of billing-batch until 2099-03-01 00:00 UTC: late\n", "")
	if s := stateOf(t, dir); len(s.Exemptions) != 1 {
		t.Errorf("got %+v", s.Exemptions)
	}
	command(t, "", line("sub:other", "--remove")...).want(t, exitFailed, "", "sub:other is not exempt")
	command(t, "", line("sub:9f21c0", "--remove")...).want(t, exitOK, "stage open, version 3\n", "")
	if s := stateOf(t, dir); len(s.Exemptions) != 0 {
		t.Errorf("got %+v", s.Exemptions)
	}
}

// Who is exempt is not counted among those who would be refused.
func TestRetireShowsTheExempt(t *testing.T) {
	isolate(t)
	dir := t.TempDir()
	witness(t, dir, "reporting-tool", "billing")
	r, err := telemetry.Read([]string{filepath.Join(dir, bridge.LedgerFile)}, telemetry.Question{})
	if err != nil || len(r.Identities) != 2 {
		t.Fatalf("got %+v, %v", r.Identities, err)
	}
	for _, i := range r.Identities {
		if strings.HasPrefix(i.Label, "billing") {
			command(t, "", "retire", "--state", dir, "exempt", i.ID, "--until", "2099-01-01").want(t, exitOK, "version 1", "")
		}
	}
	shown := command(t, "", "retire", "--state", dir, "set", "closed")
	shown.want(t, exitNotReady, "", "closed refuses 1 client, by the last 30 days of HTTP+SSE:\n+ unknown  reporting-tool 0.9.1  ")
	shown.want(t, exitNotReady, "", "exempt, and served on:\n  unknown  billing 0.9.1  ")
}

// A policy that tolerates a client lets the step pass without force, once enough was observed.
func TestRetirePolicy(t *testing.T) {
	isolate(t)
	dir := t.TempDir()
	witness(t, dir, "reporting-tool")
	line := []string{"retire", "--state", dir, "set", "closed", "--yes"}
	command(t, "", append(line, "--policy", writeFile(t, "retirement: {quiet_period: 0d}\n"))...).want(t, exitUsage, "", "quiet_period: 0s is not between")
	command(t, "", line...).want(t, exitNotReady, "", "not ready for closed: blocked: ")
	lenient := writeFile(t, "retirement: {max_identities: 1, max_traffic_share: 1, min_observation: 0d, cadence_factor: 1}\n")
	command(t, "", append(line, "--policy", lenient)...).want(t, exitOK, "stage open -> closed, version 1\n", "readiness for closed: ready\n")
}
