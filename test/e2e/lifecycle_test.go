package e2e

import (
	"encoding/json"
	"errors"
	"net/http"
	"syscall"
	"testing"

	"github.com/mcp-dualstack/bridge/test/harness"
)

// A bare GET starts nothing, every session has a child of its own, and after SIGTERM the bridge leaves
// none of them behind, not even as a zombie.
func TestChildrenEndWithTheBridge(t *testing.T) {
	p := startBridge(t, needEverything(t)...)
	openStream(t, p.base)
	before := len(p.Children(t)) // a probe of the server's era may have left its child for reuse
	l, _ := openLegacy(t, p.base, "e2e-life", "2024-11-05")
	s := openSession(t, p.base, "/mcp", "e2e-life", "2025-11-25")
	checkEcho(t, l)
	checkEcho(t, s)
	children := p.Children(t)
	if before > 1 || len(children) < 2 {
		t.Errorf("children: got %d after a bare GET and %d with two sessions, want at most 1 and at least 2", before, len(children))
	}
	p.terminate(t)
	for _, pid := range children {
		if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
			t.Errorf("child %d is still there after the bridge has ended: %v", pid, err)
			syscall.Kill(pid, syscall.SIGKILL)
		}
	}
	<-l.closed
}

// With --legacy off the legacy routes answer as retired, and nothing else changes.
func TestLegacyOff(t *testing.T) {
	p := startBridge(t, append([]string{"--legacy", "off"}, needEverything(t)...)...)
	get := do(t, p.base, request{method: http.MethodGet, path: "/sse", headers: map[string]string{"Accept": "text/event-stream"}})
	if get.status != http.StatusMethodNotAllowed || get.header.Get("Allow") != "POST, GET, DELETE" {
		t.Errorf("GET /sse: got %d, Allow %q; want 405, POST, GET, DELETE", get.status, get.header.Get("Allow"))
	}
	post := do(t, p.base, request{path: "/messages?sessionId=gone", headers: jsonOnly(), body: harness.Request(`"mine"`, "tools/list", "{}")})
	if post.status != http.StatusGone || string(post.message.ID) != `"mine"` || post.message.Error == nil {
		t.Errorf("POST /messages: got %d %s, want 410 and an error with the request's id", post.status, post.body)
	}
	for _, path := range []string{"/mcp", "/sse"} {
		c := openSession(t, p.base, path, "e2e-off", "2025-06-18")
		checkEcho(t, c)
		closeSession(t, c)
	}
}

// Without a command the bridge fronts a server of its own that every client era can talk to.
func TestDemoServer(t *testing.T) {
	needBridge(t)
	p := startBridge(t)
	legacy, _ := openLegacy(t, p.base, "e2e-demo", "2024-11-05")
	for _, c := range []caller{legacy, openSession(t, p.base, "/mcp", "e2e-demo", "2025-11-25")} {
		for _, method := range []string{"tools/list", "resources/list", "prompts/list"} {
			m, err := c.call(t.Context(), `"l"`, method, "{}")
			if err != nil || m.Error != nil {
				t.Errorf("%T %s: error %v %+v", c, method, err, m.Error)
			}
		}
		m, err := c.call(t.Context(), "2", "tools/call", `{"name":"echo","arguments":{"text":"hello"}}`)
		if err != nil || m.Error != nil || m.Text() != "hello" {
			t.Errorf("%T echo: got %s %+v, error %v", c, m.Result, m.Error, err)
		}
	}

	discover := do(t, p.base, request{path: "/mcp", headers: modernHeaders("server/discover"), body: harness.Request("1", "server/discover", modernParams(""))})
	var known struct{ SupportedVersions []string }
	if err := json.Unmarshal(discover.message.Result, &known); err != nil || len(known.SupportedVersions) == 0 || known.SupportedVersions[0] != "2026-07-28" {
		t.Errorf("server/discover: got %d %s, want 2026-07-28 as the newest", discover.status, discover.body)
	}
	a := do(t, p.base, request{
		path:    "/mcp",
		headers: modernHeaders("tools/call", "Mcp-Name", "echo"),
		body:    harness.Request(`"m"`, "tools/call", modernParams(`"name":"echo","arguments":{"text":"hello"}`)),
	})
	if a.status != http.StatusOK || string(a.message.ID) != `"m"` || a.message.Text() != "hello" {
		t.Errorf("a 2026-07-28 call: got %d %s, want 200 and the echo under id \"m\"", a.status, a.body)
	}
}
