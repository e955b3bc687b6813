package main

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	bridge "github.com/mcp-dualstack/bridge"
	"github.com/mcp-dualstack/bridge/telemetry"
)

func TestLedger(t *testing.T) {
	dir := recorded(t, oldClient("old"), newClient("new"))
	ledger := func(code int, args ...string) (stdout, stderr string) {
		t.Helper()
		var out, log bytes.Buffer
		if got := run(append([]string{"ledger"}, args...), &out, &log); got != code {
			t.Errorf("%v: got exit code %d, want %d: %s", args, got, code, &log)
		}
		return out.String(), log.String()
	}
	if got, _ := ledger(exitOK, "list", "--state", dir); !strings.Contains(got, "unknown  old 1") || !strings.Contains(got, "modern   new 1") {
		t.Errorf("list: got %s", got)
	}
	if got, _ := ledger(exitOK, "list", "--state", dir, "--class", "modern", "--output", "csv"); strings.Contains(got, "old@") || !strings.Contains(got, "new@") {
		t.Errorf("list of a class: got %s", got)
	}
	var v telemetry.Inventory
	got, _ := ledger(exitOK, "export", "--state", dir, "old@;")
	if err := json.Unmarshal([]byte(got), &v); err != nil || len(v.Identities) != 1 || len(v.Identities[0].Days) != 1 || v.Identities[0].Days[0].Calls != 1 {
		t.Errorf("export: got %s, %v", got, err)
	}
	ledger(exitOK, "forget", "--state", dir, "old@;")
	if got, _ := ledger(exitOK, "list", "--state", dir); strings.Contains(got, "old 1") || !strings.Contains(got, "new 1") {
		t.Errorf("list after forget: got %s", got)
	}
	if _, log := ledger(exitFailed, "forget", "--state", dir, "old@;", "new@;"); !strings.Contains(log, `"old@;"`) || strings.Contains(log, `"new@;"`) {
		t.Errorf("forget of one that is unknown: got %s", log)
	}
	ledger(exitFailed, "export", "--state", dir, "old@;")
	both := []string{"export"}
	for _, state := range []string{recorded(t, oldClient("old"), newClient("new")), recorded(t, oldClient("old"))} {
		both = append(both, "--ledger", filepath.Join(state, bridge.LedgerFile))
	}
	if got, _ := ledger(exitOK, append(both, "new@;")...); strings.Count(got, `"replica"`) != 1 || !strings.Contains(got, `"new@;"`) {
		t.Errorf("export of an identity that one of two ledgers knows: got %s", got)
	}
	if got, _ := ledger(exitOK, append(both, "new@;", "old@;")...); strings.Count(got, `"replica"`) != 2 {
		t.Errorf("export of identities of two ledgers: got %s", got)
	}
	if got, log := ledger(exitFailed, append(both, "new@;", "nobody@;")...); got != "" || !strings.Contains(log, `"nobody@;"`) || strings.Contains(log, `"new@;"`) {
		t.Errorf("export with an unknown identity: got %s, %s", got, log)
	}
	ledger(exitUnreadable, "list", "--state", t.TempDir())
	ledger(exitUnreadable, "forget", "--ledger", dir, "x")
	ledger(exitUsage, "list", "--state", dir, "--class", "nice")
	ledger(exitUsage)
	ledger(exitUsage, "forget")
}

// The same from a running bridge, which is the one place where forgetting is for good.
func TestLedgerOverAdmin(t *testing.T) {
	dir := recorded(t, oldClient("old"), newClient("new"))
	token := writeFile(t, "a-token-of-some-length\n")
	url := adminOf(t, &bridge.Options{State: dir, AdminTokenFile: token})
	ledger := func(code int, args ...string) (stdout, stderr string) {
		t.Helper()
		var out, log bytes.Buffer
		if got := run(append([]string{"ledger"}, args...), &out, &log); got != code {
			t.Errorf("%v: got exit code %d, want %d: %s", args, got, code, &log)
		}
		return out.String(), log.String()
	}
	at := []string{"--admin", url, "--token-file", token}
	if got, _ := ledger(exitOK, append([]string{"list"}, at...)...); !strings.Contains(got, "unknown  old 1") || !strings.Contains(got, "modern   new 1") {
		t.Errorf("list: got %s", got)
	}
	var v struct{ Identities []telemetry.Identity }
	got, _ := ledger(exitOK, append([]string{"export", "old@;"}, at...)...)
	if err := json.Unmarshal([]byte(got), &v); err != nil || len(v.Identities) != 1 || v.Identities[0].Clients[0].Name != "old" {
		t.Errorf("export: got %s, %v", got, err)
	}
	if _, log := ledger(exitUnreadable, "forget", "--admin", url, "old@;"); !strings.Contains(log, "--token-file") {
		t.Errorf("without the token: got %s", log)
	}
	if _, log := ledger(exitFailed, append([]string{"forget", "old@;", "who@;"}, at...)...); !strings.Contains(log, `"who@;"`) || strings.Contains(log, `"old@;"`) {
		t.Errorf("forget of one that is unknown: got %s", log)
	}
	if got, _ := ledger(exitOK, append([]string{"list"}, at...)...); strings.Contains(got, "old 1") || !strings.Contains(got, "new 1") {
		t.Errorf("list after forget: got %s", got)
	}
	ledger(exitFailed, append([]string{"export", "old@;"}, at...)...)
	ledger(exitUsage, append([]string{"export", "--ledger", "x"}, at...)...)
	ledger(exitUnreadable, "export", "--admin", "http://127.0.0.1:1")
}
