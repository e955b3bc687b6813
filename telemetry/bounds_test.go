package telemetry_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/negotiate"
	"github.com/mcp-dualstack/bridge/telemetry"
)

// stores are the two places a ledger is kept in.
func stores(t *testing.T, f func(t *testing.T, file string)) {
	t.Run("memory", func(t *testing.T) { f(t, "") })
	t.Run("file", func(t *testing.T) { f(t, filepath.Join(t.TempDir(), "ledger.db")) })
}

// Clients beyond the bound fold into a record per transport, and those known before keep their row.
func TestOverflow(t *testing.T) {
	stores(t, func(t *testing.T, file string) {
		l := openLedger(t, file, &telemetry.Options{MaxClients: 10, MaxInfos: 4})
		h := l.Handler(&server{})
		for i := range 30 {
			c := legacyClient(fmt.Sprint("c", i))
			if i%2 == 1 {
				c.Transport = exchange.StreamableHTTP
			}
			converse(t, h, c, 2)
			if i%7 == 0 {
				report(t, l) // a flush in between
			}
		}
		converse(t, h, legacyClient("c0"), 5)
		r := report(t, l)
		if len(r.Clients) != 10 {
			t.Errorf("got %d rows, want 10", len(r.Clients))
		}
		if got, want := sum(r), (telemetry.Counts{Sessions: 31, Calls: 65}); got != want {
			t.Errorf("totals: got %+v, want %+v", got, want)
		}
		if len(r.Observation.Overflow) != 2 || r.Observation.Overflow[0].Transport != exchange.HTTPSSE {
			t.Fatalf("got overflow %+v, want both transports", r.Observation.Overflow)
		}
		for _, o := range r.Observation.Overflow {
			if want := (telemetry.Counts{Sessions: 10, Calls: 20}); o.Counts != want || o.LastSeen.IsZero() {
				t.Errorf("overflow of %s: got %+v seen %v, want %+v", o.Transport, o.Counts, o.LastSeen, want)
			}
		}
		for _, c := range r.Clients {
			if c.Name == "c0" && c.Calls != 7 {
				t.Errorf("known client: got %d calls, want 7", c.Calls)
			}
		}
	})
}

// The room is that of the file: what another server has taken is gone, and who is in the file stays.
func TestOverflowIsShared(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ledger.db")
	o := &telemetry.Options{MaxClients: 3, MaxEvidence: 2}
	a, b := openLedger(t, file, o), openLedger(t, file, o)
	for i, l := range []*telemetry.Ledger{a, b} {
		for n := range 3 {
			converse(t, l.Handler(&server{}), legacyClient(fmt.Sprintf("c%d%d", i, n)), 1)
			l.Observe(exchange.Observation{Kind: exchange.SeenStream, Version: fmt.Sprintf("v%d%d", i, n)})
		}
		report(t, l)
	}
	r := report(t, b)
	if len(r.Clients) != 3 || len(r.Observation.Overflow) != 1 || r.Observation.Overflow[0].Sessions != 3 {
		t.Errorf("got %v and overflow %v, want the rows of the first and the rest in overflow", r.Clients, r.Observation.Overflow)
	}
	var seen int64
	for _, e := range r.Evidence {
		seen += e.Count
	}
	if len(r.Evidence) != 3 || seen != 6 {
		t.Errorf("got evidence %+v, want two rows and one for all others, together 6", r.Evidence)
	}
	closeLedger(t, a)
	closeLedger(t, b)

	c := openLedger(t, file, o)
	converse(t, c.Handler(&server{}), legacyClient("c00"), 9)
	for _, row := range report(t, c).Clients {
		if row.Name == "c00" && row.Calls == 10 {
			return
		}
	}
	t.Error("a client in the file lost its row to a full ledger")
}

func TestEvidence(t *testing.T) {
	stores(t, func(t *testing.T, file string) {
		l := openLedger(t, file, &telemetry.Options{MaxEvidence: 5})
		for i := range 20 {
			l.Observe(exchange.Observation{Kind: exchange.SeenVersionHeader, Transport: exchange.HTTPSSE, Version: fmt.Sprintf("v%02d\x1b", i)})
		}
		l.Observe(exchange.Observation{Kind: exchange.SeenVersionHeader, Transport: exchange.HTTPSSE, Version: "v00"})
		r := report(t, l)
		if len(r.Evidence) != 6 {
			t.Fatalf("got %+v, want five rows and one for all others", r.Evidence)
		}
		for i, want := range []telemetry.Evidence{{Version: "_OTHER", Count: 15}, {Version: "v00", Count: 2}, {Version: "v01", Count: 1}} {
			if got := r.Evidence[i]; got.Version != want.Version || got.Count != want.Count || got.Kind != exchange.SeenVersionHeader {
				t.Errorf("row %d: got %+v, want %+v", i, got, want)
			}
		}
	})
}

// A client that named itself and was refused before a conversation is in the rows too.
func TestRefusedClient(t *testing.T) {
	l := openLedger(t, "", nil)
	refused := exchange.Observation{Kind: exchange.SeenRefused, Transport: exchange.HTTPSSE, Version: "2024-11-05", Detail: "retired"}
	l.Observe(refused)
	refused.Info = info("old", "0.9")
	l.Observe(refused)
	r := report(t, l)
	if len(r.Clients) != 1 {
		t.Fatalf("got %+v, want one row", r.Clients)
	}
	c := r.Clients[0]
	if c.Name != "old" || c.Requested != "2024-11-05" || c.Negotiated != "" || c.Counts != (telemetry.Counts{Refusals: 1}) {
		t.Errorf("got %+v, want one refusal", c)
	}
	if len(r.Evidence) != 1 || r.Evidence[0].Count != 2 {
		t.Errorf("got evidence %+v, want 2", r.Evidence)
	}
}

func TestNames(t *testing.T) {
	tests := []struct {
		name, info                 string
		client, version, viaRemote string
		probe                      bool
	}{
		{"plain", `{"name":"claude-ai","version":"0.1.0"}`, "claude-ai", "0.1.0", "", false},
		{"escape sequences", `{"name":"x\u001b[31mred\u0007\n","version":"1\t2"}`, "x[31mred", "12", "", false},
		{"bidi", `{"name":"a\u202etxt.exe\u2066\u200f","version":""}`, "atxt.exe", "", "", false},
		{"blanks", `{"name":" \u00a0 my\u3000client \u2028","version":" 1 "}`, "my client", "1", "", false},
		{"only controls", `{"name":"\u0000\u200b\ufeff","version":"1"}`, "", "1", "", false},
		{"invalid UTF-8", "{\"name\":\"a\xffb\",\"version\":\"\\ud800\"}", "a\ufffdb", "\ufffd", "", false},
		{"long", `{"name":"` + strings.Repeat("é", 100) + `","version":"` + strings.Repeat("9", 70_000) + `"}`, strings.Repeat("é", 64), strings.Repeat("9", 64), "", false},
		{"not strings", `{"name":7,"version":{"a":1}}`, "", "", "", false},
		{"other case", `{"NAME":"x","Version":"1"}`, "", "", "", false},
		{"not an object", `["x"]`, "", "", "", false},
		{"no JSON", `{`, "", "", "", false},
		{"absent", ``, "", "", "", false},
		{"through mcp-remote", `{"name":"Cursor (via mcp-remote 0.1.16)","version":"1.0.0"}`, "Cursor", "1.0.0", "mcp-remote 0.1.16", false},
		{"long through mcp-remote", `{"name":"` + strings.Repeat("x", 80) + ` (via mcp-remote 0.15.1)"}`, strings.Repeat("x", 64), "", "mcp-remote 0.15.1", false},
		{"not quite mcp-remote", `{"name":"Cursor (via mcp-remote 1) x","version":"1"}`, "Cursor (via mcp-remote 1) x", "1", "", false},
		{"throw-away", `{"name":"mcp-remote-fallback-test","version":"0.0.0"}`, "mcp-remote-fallback-test", "0.0.0", "", true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l := openLedger(t, "", nil)
			c := legacyClient("")
			c.Info = []byte(tt.info)
			converse(t, l.Handler(&server{}), c, 0)
			got := report(t, l).Clients[0]
			if got.Name != tt.client || got.Version != tt.version || got.Proxy != tt.viaRemote || got.Probe != tt.probe {
				t.Errorf("got %q %q %q %v", got.Name, got.Version, got.Proxy, got.Probe)
			}
		})
	}
}

func TestRequestedIsCleaned(t *testing.T) {
	l := openLedger(t, "", nil)
	c := legacyClient("c")
	c.Requested, c.Revision = "20\x1b[2J"+strings.Repeat("y", 100), negotiate.Rev20251125
	converse(t, l.Handler(&server{}), c, 0)
	if got := report(t, l).Clients[0].Requested; got != "20[2J"+strings.Repeat("y", 59) {
		t.Errorf("got %q", got)
	}
}

func TestOptions(t *testing.T) {
	_, err := telemetry.Open("", &telemetry.Options{MaxClients: -1, MaxInfos: -1, FlushEvery: -1})
	if err == nil || strings.Count(err.Error(), "negative") != 3 {
		t.Errorf("got %v, want all three problems", err)
	}
}
