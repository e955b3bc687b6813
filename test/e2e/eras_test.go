package e2e

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/mcp-dualstack/bridge/test/harness"
)

// revisions of the handshake era, oldest first.
var revisions = []string{"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"}

// Every legacy revision is negotiated as asked for, on either transport, and a call with a progress
// token gets its notifications before its answer.
func TestHandshakeClients(t *testing.T) {
	p := startBridge(t, needEverything(t)...)
	for _, revision := range revisions {
		t.Run("sse "+revision, func(t *testing.T) {
			c, got := openLegacy(t, p.base, "e2e-legacy", revision)
			if got != revision {
				t.Errorf("negotiated %s, want %s", got, revision)
			}
			checkEcho(t, c)
			m, err := c.call(t.Context(), `"slow"`, "tools/call", slowParams)
			checkProgress(t, m, err, c.seen())
		})
		t.Run("mcp "+revision, func(t *testing.T) {
			c := openSession(t, p.base, "/mcp", "e2e-session", revision)
			if c.revision != revision {
				t.Errorf("negotiated %s, want %s", c.revision, revision)
			}
			checkEcho(t, c)
			a := do(t, p.base, request{path: "/mcp", headers: c.headers(), body: harness.Request(`"slow"`, "tools/call", slowParams)})
			checkProgress(t, a.message, nil, a.notes)
			closeSession(t, c)
		})
	}
}

// slowParams call server-everything's tool that reports its progress, for half a second in four steps.
const slowParams = `{"name":"trigger-long-running-operation","arguments":{"duration":0.5,"steps":4},"_meta":{"progressToken":"tok-1"}}`

func checkEcho(t *testing.T, c caller) {
	t.Helper()
	m, err := c.call(t.Context(), "1", "tools/call", echoParams("köln"))
	if err != nil || m.Text() != "Echo: köln" {
		t.Errorf("echo: got %q, error %v", m.Text(), err)
	}
}

func checkProgress(t *testing.T, m message, err error, notes []message) {
	t.Helper()
	if err != nil || m.Error != nil || m.Result == nil {
		t.Fatalf("the slow tool: got %s %+v, error %v", m.Result, m.Error, err)
	}
	var seen []float64
	for _, n := range notes {
		var p struct {
			ProgressToken json.RawMessage
			Progress      float64
		}
		if n.Method != "notifications/progress" || json.Unmarshal(n.Params, &p) != nil {
			continue
		}
		if got := string(p.ProgressToken); got != `"tok-1"` {
			t.Errorf("progress token: got %s, want %q", got, "tok-1")
		}
		seen = append(seen, p.Progress)
	}
	if len(seen) < 3 || !slices.IsSorted(seen) {
		t.Errorf("progress: got %v, want at least three rising values", seen)
	}
}

// closeSession ends a session by DELETE; after it the session is unknown.
func closeSession(t *testing.T, c *sessionClient) {
	t.Helper()
	if a := do(t, c.base, request{method: http.MethodDelete, path: c.path, headers: c.headers()}); a.status != http.StatusNoContent {
		t.Errorf("DELETE: got %d %s, want 204", a.status, a.body)
	}
	a := do(t, c.base, request{path: c.path, headers: c.headers(), body: harness.Request("9", "tools/list", "{}")})
	if a.status != http.StatusNotFound {
		t.Errorf("a request after DELETE: got %d %s, want 404", a.status, a.body)
	}
}

// A POST of initialize on the legacy URL is Streamable HTTP.
func TestSameURLUpgrade(t *testing.T) {
	p := startBridge(t, needEverything(t)...)
	c := openSession(t, p.base, "/sse", "e2e-upgrade", "2025-11-25")
	checkEcho(t, c)
	closeSession(t, c)
}

// modernParams put the envelope of a 2026-07-28 request around the members.
func modernParams(members string) string {
	if members != "" {
		members += ","
	}
	return `{` + members + `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
		`"io.modelcontextprotocol/clientInfo":{"name":"e2e-modern","version":"1"},` +
		`"io.modelcontextprotocol/clientCapabilities":{}}}`
}

func modernHeaders(method string, extra ...string) map[string]string {
	return streamable(append([]string{"MCP-Protocol-Version", "2026-07-28", "Mcp-Method", method}, extra...)...)
}

// server-everything speaks no 2026-07-28, and nothing translates yet: a modern client is told so, with
// the list of what it may fall back to.
// A client of 2026-07-28 in front of server-everything, which is older, is translated for; on the legacy stream its
// probe is refused all the same (translation.md 3, row 1).
func TestModernClientIsTranslated(t *testing.T) {
	p := startBridge(t, needEverything(t)...)
	for method, want := range map[string]string{"server/discover": `"supportedVersions":["2026-07-28","2025-11-25"`, "tools/list": `"resultType":"complete"`} {
		a := do(t, p.base, request{path: "/mcp", headers: modernHeaders(method), body: harness.Request(`"d"`, method, modernParams(""))})
		if a.status != http.StatusOK || !strings.Contains(string(a.message.Result), want) {
			t.Errorf("%s: got status %d, error %+v, result %.200s, want %s", method, a.status, a.message.Error, a.message.Result, want)
		}
		if a.header.Get("Mcp-Session-Id") != "" {
			t.Errorf("%s: a session id on a modern answer", method)
		}
	}
	c := openStream(t, p.base)
	m, err := c.call(t.Context(), `"d"`, "server/discover", modernParams(""))
	if err != nil {
		t.Fatalf("server/discover on the legacy stream: %v", err)
	}
	checkRefusal(t, m)
}

func checkRefusal(t *testing.T, m message) {
	t.Helper()
	if m.Error == nil || m.Error.Code != -32022 || string(m.ID) != `"d"` {
		t.Fatalf("got id %s error %+v result %s, want -32022 for id \"d\"", m.ID, m.Error, m.Result)
	}
	var data struct {
		Supported []string
		Requested string
	}
	if err := json.Unmarshal(m.Error.Data, &data); err != nil {
		t.Fatalf("data %s: %v", m.Error.Data, err)
	}
	newestFirst := slices.Clone(revisions)
	slices.Reverse(newestFirst)
	if !slices.Equal(data.Supported, newestFirst) || data.Requested != "2026-07-28" {
		t.Errorf("data: got %s, want the legacy revisions newest first and 2026-07-28 as requested", strings.TrimSpace(string(m.Error.Data)))
	}
}
