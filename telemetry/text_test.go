package telemetry_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/negotiate"
	"github.com/mcp-dualstack/bridge/telemetry"
)

func text(t testing.TB, r telemetry.Report) string {
	t.Helper()
	var b strings.Builder
	if err := r.WriteText(&b, nil); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestText(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := openLedger(t, "", &telemetry.Options{MaxClients: 5})
		h := l.Handler(&server{})
		step := func(want string) {
			t.Helper()
			if diff := cmp.Diff(text(t, report(t, l)), strings.TrimPrefix(want, "\n")); diff != "" {
				t.Errorf("text (- got, + want):\n%s", diff)
			}
		}
		step(`
HTTP+SSE retirement, step to gone: INSUFFICIENT EVIDENCE              stage open
observed 2000-01-01 00:00 .. 2000-01-01 00:00 UTC (0 s, 1 replica, 0 gaps)
window 30 d   legacy 0 of 0 calls (0.00 %)   identities: 0 legacy / 0
overflow: none   last written now

doubt: observed for 0 s, the policy asks for 45d
next: keep watching

no clients yet
`)
		c := legacyClient("mcp-inspector")
		converse(t, h, c, 3)
		time.Sleep(2 * time.Minute)
		step(`
HTTP+SSE retirement, step to gone: BLOCKED (1 blocker)                stage open
observed 2000-01-01 00:00 .. 2000-01-01 00:02 UTC (2 m, 1 replica, 0 gaps)
window 30 d   legacy 3 of 3 calls (100.00 %)   identities: 1 legacy / 1
overflow: none   last written now

WHO ONLY NEEDS A NEW URL                        asks       last seen    30d  err
 capable  mcp-inspector 1.0                     2025-11-25   2 m ago      3    0
          seen on 1 day; asks for more
          id mcp-inspector@;

blocker: mcp-inspector 1.0 still uses HTTP+SSE; another URL is enough
doubt: observed for 2 m, the policy asks for 45d
next: have 1 client changed to Streamable HTTP (the same URL accepts it), keep
      watching

client         version transport asked      speaks     sess calls  err last seen
mcp-inspector  1.0     http_sse  2025-11-25 2025-11-25    1     3    0   2 m ago

transport       revision   clients sessions    calls  errors refused last seen
http_sse        2025-11-25       1        1        3       0       0   2 m ago
`)
		c.Info = info("名前はとても長い (via mcp-remote 0.1.16)", "0.9")
		converse(t, h, c, 12345)
		c.Info = info("mcp-remote-fallback-test", "0.0.0")
		converse(t, h, c, 0)
		stateless := exchange.Client{Transport: exchange.StreamableHTTP, Requested: "a wish of its own", Revision: negotiate.Rev20260728}
		converse(t, h, stateless, 1)
		reopened := exchange.Client{Transport: exchange.HTTPSSE, Session: "s", Revision: negotiate.Rev20241105, Reopened: true}
		converse(t, h, reopened, 1)
		converse(t, h, legacyClient("too many"), 7)
		l.Observe(exchange.Observation{Kind: exchange.SeenDiscover, Transport: exchange.HTTPSSE, Version: "2026-07-28"})
		time.Sleep(30 * time.Hour)
		step(`
HTTP+SSE retirement, step to gone: BLOCKED (4 blockers)               stage open
observed 2000-01-01 00:00 .. 2000-01-02 06:02 UTC (30 h, 1 replica, 0 gaps)
window 30 d   legacy 12 356 of 12 357 calls (99.99 %)   identities: 4 legacy / 4
overflow: none   last written now
no room for further clients on http_sse: 7 calls without a name, last 30 h ago

WHO ONLY NEEDS A NEW URL                        asks       last seen    30d  err
 proven   (no clientInfo)                       a wish ...  30 h ago      1    0
          seen on 1 day; reattached, both transports
          id @;
 capable  too many 1.0                          2025-11-25  30 h ago      7    0
          seen on 1 day; asks for more
          id too many@;
 capable  名前はとても長い 0.9                  2025-11-25  30 h ago    12k    0
          seen on 1 day; asks for more, client table; via mcp-remote 0.1.16
          id 名前はとても長い@;
 capable  mcp-inspector 1.0                     2025-11-25  30 h ago      3    0
          seen on 1 day; asks for more
          id mcp-inspector@;

WHO DOES NOT MATTER  probe 1

blocker: (no clientInfo) still uses HTTP+SSE; another URL is enough
blocker: too many 1.0 still uses HTTP+SSE; another URL is enough
blocker: 名前はとても長い 0.9 still uses HTTP+SSE; another URL is enough
blocker: mcp-inspector 1.0 still uses HTTP+SSE; another URL is enough
doubt: observed for 30 h, the policy asks for 45d
next: have 4 clients changed to Streamable HTTP (the same URL accepts it), keep
      watching

client         version transport asked      speaks     sess calls  err last seen
(no client info)
                       http_sse  -          2024-11-05    0     1    0  30 h ago
mcp-remote-fallback-test (probe)  0.0.0
                       http_sse  2025-11-25 2025-11-25    1     0    0  30 h ago
名前はとても長い via mcp-remote 0.1.16  0.9
                       http_sse  2025-11-25 2025-11-25    1   12k    0  30 h ago
mcp-inspector  1.0     http_sse  2025-11-25 2025-11-25    1     3    0  30 h ago
(no client info)
                       http      a wish ... 2026-07-28    -     1    0  30 h ago

transport       revision   clients sessions    calls  errors refused last seen
http_sse        2024-11-05       1        0        1       0       0  30 h ago
http_sse        2025-11-25       2        3      12k       0       0  30 h ago
streamable_http 2026-07-28       1        -        1       0       0  30 h ago

also seen        transport       names revision                 times last seen
discover         http_sse        2026-07-28                         1  30 h ago
`)
	})
}

func TestJSON(t *testing.T) {
	l := openLedger(t, "", nil)
	empty := report(t, l)
	converse(t, l.Handler(&server{}), legacyClient("<b>&"), 1)
	for _, r := range []telemetry.Report{empty, report(t, l)} {
		var b bytes.Buffer
		if err := r.WriteJSON(&b); err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(b.Bytes(), []byte("null")) {
			t.Errorf("null in %s", &b)
		}
		if !bytes.HasPrefix(b.Bytes(), []byte("{\n  \"schema\": \"bridge.report/1\",")) {
			t.Errorf("got %s, want the schema first", &b)
		}
		var back telemetry.Report
		if err := json.Unmarshal(b.Bytes(), &back); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(back, r); diff != "" {
			t.Errorf("read back (- got, + want):\n%s", diff)
		}
	}
}

// FuzzClient: whatever a client says of itself, what is kept is short and clean, and so is the report.
func FuzzClient(f *testing.F) {
	f.Add([]byte(`{"name":"claude-ai","version":"1.0"}`), "2025-11-25")
	f.Add([]byte(`{"name":"x\u001b[2J\u202e (via mcp-remote 1)","version":"`+strings.Repeat("名", 70)+`"}`), "\x1b[31m2026")
	f.Add([]byte("{\"name\":\"e\u0301\u0301\u0301\",\"version\":[]}"), "")
	f.Fuzz(func(t *testing.T, info []byte, requested string) {
		l := openLedger(t, "", nil)
		converse(t, l.Handler(&server{}), exchange.Client{Info: info, Requested: requested, Transport: exchange.HTTPSSE, Session: "s"}, 1)
		l.Observe(exchange.Observation{Kind: exchange.SeenVersionHeader, Transport: exchange.HTTPSSE, Version: requested})
		r := report(t, l)
		c := r.Clients[0]
		for _, s := range []string{c.Name, c.Version, c.Proxy, c.Requested, r.Evidence[0].Version} {
			if utf8.RuneCountInString(s) > 64 || !clean(s) || strings.TrimSpace(s) != s {
				t.Errorf("kept: %q", s)
			}
		}
		for line := range strings.Lines(text(t, r)) {
			line = strings.TrimSuffix(line, "\n")
			if utf8.RuneCountInString(strings.Map(spacing, line)) > 80 || !clean(line) {
				t.Errorf("line %q", line)
			}
		}
		closeLedger(t, l)
	})
}

// clean reports whether s is valid and has only visible characters and plain blanks.
func clean(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) })
}

// spacing drops what takes no cell.
func spacing(r rune) rune {
	if unicode.In(r, unicode.Mn, unicode.Me) {
		return -1
	}
	return r
}
