package e2e

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// all are the revisions of both eras, newest first.
const all = "2026-07-28 2025-11-25 2025-06-18 2025-03-26 2024-11-05"

// TestProbe: bridge probe names transport, eras and revisions of servers of every kind and age, and how serve would front them.
func TestProbe(t *testing.T) {
	needBridge(t)
	session, both := "session", "session stateless"
	for name, test := range map[string]struct {
		server                     foreign
		transport, eras, revisions string
		calls                      string // what the server calls itself
	}{
		"server-everything stdio":      {foreign{"everything", []string{"stdio"}, ""}, "stdio", session, all[11:], "mcp-servers/everything"},
		"server-everything sse":        {foreign{"everything", []string{"sse"}, "/sse"}, "http_sse", session, all[11:], "mcp-servers/everything"},
		"server-everything streamable": {foreign{"everything", []string{"streamableHttp"}, "/mcp"}, "streamable_http", session, all[11:], "mcp-servers/everything"},
		"ts 1.0.4 stdio":               {foreign{"ts-1.0.4", []string{"stdio"}, ""}, "stdio", session, "2024-11-05", "typescript-1.0.4"},
		"ts 1.0.4 sse":                 {foreign{"ts-1.0.4", []string{"sse", "{port}"}, "/sse"}, "http_sse", session, "2024-11-05", "typescript-1.0.4"},
		"ts 1.12.3 stdio":              {foreign{"ts-1.12.3", []string{"stdio"}, ""}, "stdio", session, "2025-03-26 2024-11-05", "typescript-1.12.3"},
		"ts 1.12.3 sse":                {foreign{"ts-1.12.3", []string{"sse", "{port}"}, "/sse"}, "http_sse", session, "2025-03-26 2024-11-05", "typescript-1.12.3"},
		"ts 1.12.3 streamable":         {foreign{"ts-1.12.3", []string{"streamable", "{port}"}, "/mcp"}, "streamable_http", session, "2025-03-26 2024-11-05", "typescript-1.12.3"},
		"go-sdk stdio":                 {foreign{"gosdk", []string{"-stdio"}, ""}, "stdio", both, all, "interop-ref-go"},
		"go-sdk sse":                   {foreign{"gosdk", []string{"-addr", "{addr}"}, "/sse"}, "http_sse", session, all[11:], "interop-ref-go"},
		"go-sdk sessions":              {foreign{"gosdk", []string{"-addr", "{addr}"}, "/mcp-stateful"}, "streamable_http", session, all[11:], "interop-ref-go"},
		"go-sdk stateless":             {foreign{"gosdk", []string{"-addr", "{addr}"}, "/mcp-stateless"}, "streamable_http", both, all, "interop-ref-go"},
		"go-sdk dual":                  {foreign{"gosdk", []string{"-addr", "{addr}"}, "/mcp"}, "streamable_http", both, all, "interop-ref-go"},
		"mcp-go stdio":                 {foreign{"mcpgo", []string{"stdio"}, ""}, "stdio", both, all, "mcp-go"},
		"mcp-go sse":                   {foreign{"mcpgo", []string{"sse", "{addr}"}, "/sse"}, "http_sse", session, all[11:], "mcp-go"},
		"mcp-go streamable":            {foreign{"mcpgo", []string{"streamable", "{addr}"}, "/mcp"}, "streamable_http", both, all, "mcp-go"},
		"max 2025-11-25":               {fixture("stdio", "-max-version", "2025-11-25"), "stdio", session, all[11:], "conformance-upstream"},
		"max 2025-06-18, error":        {fixture("stdio", "-max-version", "2025-06-18", "-probe", "error"), "stdio", session, all[22:], "conformance-upstream"},
		"max 2024-11-05, mute":         {fixture("stdio", "-max-version", "2024-11-05", "-probe", "mute"), "stdio", session, "2024-11-05", "conformance-upstream"},
		"min 2026-07-28":               {fixture("stdio", "-min-version", "2026-07-28"), "stdio", "stateless", "2026-07-28", "conformance-upstream"},
		"max 2025-06-18 streamable":    {fixture("streamable", "-max-version", "2025-06-18"), "streamable_http", session, all[22:], "conformance-upstream"},
		"max 2025-03-26 streamable, error": {fixture("streamable", "-max-version", "2025-03-26", "-probe", "error"), "streamable_http", session,
			"2025-03-26 2024-11-05", "conformance-upstream"},
		"min 2026-07-28 streamable": {fixture("streamable-stateless", "-min-version", "2026-07-28"), "streamable_http", "stateless", "2026-07-28", "conformance-upstream"},
		"max 2024-11-05 sse":        {fixture("sse", "-max-version", "2024-11-05"), "http_sse", session, "2024-11-05", "conformance-upstream"},
	} {
		t.Run(name, func(t *testing.T) {
			args := append([]string{"probe", "--output", "json"}, test.server.target(t)...)
			var stdout, stderr bytes.Buffer
			cmd := exec.Command(bridgeProgram, args...)
			cmd.Stdout, cmd.Stderr = &stdout, &stderr
			if err := cmd.Run(); err != nil {
				t.Fatalf("%v: %s", err, &stderr)
			}
			var got struct {
				Transport       string
				Eras, Revisions []string
				Server          struct{ Name string }
				Serve           map[string]string
			}
			if err := json.Unmarshal(stdout.Bytes(), &got); err != nil {
				t.Fatal(err)
			}
			if got.Transport != test.transport || strings.Join(got.Eras, " ") != test.eras || strings.Join(got.Revisions, " ") != test.revisions || got.Server.Name != test.calls {
				t.Errorf("got %s", &stdout)
			}
			for kind, era := range map[string]string{"session_clients": "session", "stateless_clients": "stateless"} {
				want := "translated"
				if slices.Contains(got.Eras, era) {
					want = "passed"
				}
				if got.Serve[kind] != want {
					t.Errorf("%s: got %s, want %s", kind, got.Serve[kind], want)
				}
			}
		})
	}
}

// fixture is the fixture server of the conformance suite on a transport.
func fixture(transport string, args ...string) foreign {
	f := foreign{"fixture", append([]string{"-transport", transport}, args...), ""}
	if transport != "stdio" {
		f.args, f.path = append(f.args, "-addr", "{addr}"), "/mcp"
	}
	if transport == "sse" {
		f.path = "/sse"
	}
	return f
}
