package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/mcp-dualstack/bridge/test/harness"
)

// Servers on old releases of the TypeScript SDK, over each transport that the release has.
var typescripts = []foreign{
	{"ts-1.0.4", []string{"stdio"}, ""},
	{"ts-1.0.4", []string{"sse", "{port}"}, "/sse"},
	{"ts-1.12.3", []string{"stdio"}, ""},
	{"ts-1.12.3", []string{"sse", "{port}"}, "/sse"},
	{"ts-1.12.3", []string{"streamable", "{port}"}, "/mcp"},
}

// TestTypescriptServers: a client of each era shakes hands, lists and calls through the bridge, whatever old release the server is on; the
// revision is the client's own.
func TestTypescriptServers(t *testing.T) {
	for _, server := range typescripts {
		t.Run(server.name+" "+server.args[0], func(t *testing.T) {
			p := startBridge(t, server.upstream(t)...)
			t.Run("2024-11-05 on sse", func(t *testing.T) {
				c, got := openLegacy(t, p.base, "e2e-ts", "2024-11-05")
				if got != "2024-11-05" {
					t.Errorf("negotiated %s", got)
				}
				checkTools(t, c)
			})
			t.Run("2025-11-25 on mcp", func(t *testing.T) {
				c := openSession(t, p.base, "/mcp", "e2e-ts", "2025-11-25")
				if c.revision != "2025-11-25" {
					t.Errorf("negotiated %s", c.revision)
				}
				checkTools(t, c)
				closeSession(t, c)
			})
			t.Run("2026-07-28 on mcp", func(t *testing.T) {
				list := do(t, p.base, request{path: "/mcp", headers: modernHeaders("tools/list"), body: harness.Request("1", "tools/list", modernParams(""))})
				checkToolNames(t, list.message)
				a := do(t, p.base, request{path: "/mcp", headers: modernHeaders("tools/call", "Mcp-Name", "echo"),
					body: harness.Request("2", "tools/call", modernParams(textParams("echo", "köln")))})
				if a.status != http.StatusOK || a.message.Text() != "köln" || !strings.Contains(string(a.message.Result), `"resultType":"complete"`) {
					t.Errorf("echo: got %d %s", a.status, a.body)
				}
				if a.header.Get("Mcp-Session-Id") != "" {
					t.Errorf("a modern client is shown the session %q", a.header.Get("Mcp-Session-Id"))
				}
			})
		})
	}
}

// textParams are the members of a call of one of the servers' tools.
func textParams(tool, text string) string {
	return fmt.Sprintf(`"name":%q,"arguments":{"text":%q}`, tool, text)
}

// checkTools lists the tools and calls one.
func checkTools(t *testing.T, c caller) {
	t.Helper()
	list, err := c.call(t.Context(), `"list"`, "tools/list", "{}")
	if err != nil {
		t.Error(err)
	}
	checkToolNames(t, list)
	m, err := c.call(t.Context(), "1", "tools/call", "{"+textParams("echo", "köln")+"}")
	if err != nil || m.Text() != "köln" {
		t.Errorf("echo: got %s %+v, %v", m.Result, m.Error, err)
	}
}

func checkToolNames(t *testing.T, m message) {
	t.Helper()
	var list struct{ Tools []struct{ Name string } }
	if err := json.Unmarshal(m.Result, &list); err != nil {
		t.Errorf("tools/list: got %s %+v", m.Result, m.Error)
	}
	var names []string
	for _, tool := range list.Tools {
		names = append(names, tool.Name)
	}
	if want := []string{"echo", "slow"}; !slices.Equal(names, want) {
		t.Errorf("tools: got %v, want %v", names, want)
	}
}
