package bridge_test

import (
	"context"
	"encoding/json"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	bridge "github.com/mcp-dualstack/bridge"
	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
)

// A toolbox is a server with tools, which notes which were called.
type toolbox struct {
	server

	mu     sync.Mutex
	called []string
}

func newToolbox() *toolbox {
	b := &toolbox{}
	b.call = func(_ context.Context, req exchange.Request) (exchange.Response, error) {
		switch req.Method {
		case "tools/list":
			return exchange.Response{Result: []byte(`{"tools":[{"name":"read_a","x":1}, {"inputSchema":{},"name":"read_b"},{"name":"delete_a"},{"name":"ns/delete"}],"nextCursor":"c","ttlMs":5,"cacheScope":"public","extra":[1.0]}`)}, nil
		case "tools/call":
			name, _ := jsonrpc.String(jsonrpc.Get(req.Params, "name"))
			b.mu.Lock()
			b.called = append(b.called, name)
			b.mu.Unlock()
			return exchange.Response{Result: []byte(`{"content":[]}`)}, nil
		}
		return exchange.Response{Result: []byte("{}")}, nil
	}
	return b
}

var rules = []bridge.ToolRule{
	{Grant: "*", Allow: []string{"read_*"}},
	{Grant: "scope:admin", Allow: []string{"*"}},
	{Grant: "group:staff", Deny: []string{"ns/*"}},
	{Grant: "principal:bob", Deny: []string{"read_b"}},
}

// Rules hold for lists and calls alike, on every transport: what is not in the list cannot be called (issue 8, object-level
// authorization).
func TestToolRules(t *testing.T) {
	tools := []string{"read_a", "read_b", "delete_a", "ns/delete", "unheard_of"}
	tests := []struct {
		name, who string
		auth      bridge.Auth
		rules     []bridge.ToolRule
		listed    string
		called    string
	}{
		{"many rules", "alice", bridge.Auth{TokenFile: residents}, rules, "read_a read_b delete_a", "read_a read_b delete_a unheard_of"},
		{"few rules", "bob", bridge.Auth{TokenFile: residents}, rules, "read_a", "read_a"},
		{"nobody is known", "", bridge.Auth{}, rules, "read_a read_b", "read_a read_b"},
		{"no rules", "bob", bridge.Auth{TokenFile: residents}, nil, "read_a read_b delete_a ns/delete", "read_a read_b delete_a ns/delete unheard_of"},
		{"no rule about the caller", "bob", bridge.Auth{TokenFile: residents}, rules[1:3], "", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				box := newToolbox()
				h := newHouse(t, box, &bridge.Options{Auth: tt.auth, ToolRules: tt.rules})
				session := h.session(tt.who)
				for name, send := range map[string]func(body, method, tool string) string{
					"session": func(body, method, tool string) string {
						text, _ := io.ReadAll(h.do(tt.who, "POST", "/mcp", body, "Mcp-Session-Id", session).Body)
						return string(text)
					},
					"2026-07-28": func(_, method, tool string) string {
						params := ""
						if tool != "" {
							params = `"name":"` + tool + `","arguments":{},`
						}
						text, _ := io.ReadAll(h.do(tt.who, "POST", "/mcp", modern(method, params), "Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", method, "Mcp-Name", tool).Body)
						return string(text)
					},
				} {
					answer := send(list, "tools/list", "")
					if got := names(t, answer); got != tt.listed {
						t.Errorf("%s: listed %q, want %q", name, got, tt.listed)
					}
					if !strings.Contains(answer, `"extra":[1.0]`) || !strings.Contains(answer, `"nextCursor":"c"`) {
						t.Errorf("%s: the rest of the list has changed: %s", name, answer)
					}
					if known := tt.who != ""; strings.Contains(answer, `"public"`) && known {
						t.Errorf("%s: a list for one caller may be kept for all: %s", name, answer)
					}
					box.called = nil
					for _, tool := range tools {
						answer := send(strings.ReplaceAll(callTool, "TOOL", tool), "tools/call", tool)
						refused := strings.Contains(answer, `"code":-32602,"message":"Unknown tool: `+tool+`"`)
						if may := strings.Contains(" "+tt.called+" ", " "+tool+" "); may == refused {
							t.Errorf("%s: call of %s: %s", name, tool, answer)
						}
					}
					if got := strings.Join(box.called, " "); got != tt.called {
						t.Errorf("%s: called %q, want %q", name, got, tt.called)
					}
				}
			})
		})
	}
}

// names returns the names of the tools in the answer to tools/list, JSON or a stream of it.
func names(t *testing.T, answer string) string {
	t.Helper()
	for line := range strings.Lines(answer) {
		line = strings.TrimPrefix(line, "data: ")
		var m struct {
			Result *struct{ Tools []struct{ Name string } }
		}
		if json.Unmarshal([]byte(line), &m) != nil || m.Result == nil {
			continue
		}
		var out []string
		for _, tool := range m.Result.Tools {
			out = append(out, tool.Name)
		}
		return strings.Join(out, " ")
	}
	t.Errorf("no list in %s", answer)
	return ""
}

// A name that some servers would read otherwise does not get past the rules.
func TestToolRulesAndOddNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		box := newToolbox()
		h := newHouse(t, box, &bridge.Options{Auth: bridge.Auth{TokenFile: residents}, ToolRules: rules})
		session := h.session("bob")
		for _, params := range []string{
			`{"name":"read_a","Name":"delete_a"}`, `{"NAME":"delete_a","name":"read_a"}`, `{"name":"read_a","name":"delete_a"}`,
			`{"name":"read_a","n\u0061me":"delete_a"}`, `{"name":["delete_a"]}`, `{"name":null}`, `{}`, `{"Name":"read_a"}`, `{"name":"\u0064elete_a"}`,
			`{"name":"read_a/../delete_a"}`, `{"name":" delete_a"}`, `{"name":"delete_a\u0000"}`,
		} {
			res := h.do("bob", "POST", "/mcp", `{"jsonrpc":"2.0","id":5,"method":"tools/call","params":`+params+`}`, "Mcp-Session-Id", session)
			body, _ := io.ReadAll(res.Body)
			if !strings.Contains(string(body), `"error"`) && !strings.Contains(params, "..") {
				t.Errorf("%s: got %d %s", params, res.StatusCode, body)
			}
		}
		for _, name := range box.called {
			if !strings.HasPrefix(name, "read_") {
				t.Errorf("%s was called", name)
			}
		}
	})
}

// A session opened with more rights than a token gives is somebody else's: rights do not travel with a session id.
func TestRightsDoNotTravel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, newToolbox(), &bridge.Options{Auth: bridge.Auth{TokenFile: residents}, ToolRules: rules})
		session := h.session("alice")
		writeTokens(t, h.file, tokenLine("alice", "alice", "scope:admin", "group:staff")+tokenLine("alice", "less"))
		h.wait()
		if res := h.do("less", "POST", "/mcp", list, "Mcp-Session-Id", session); res.StatusCode != 404 {
			t.Errorf("the same principal with less rights: got %d, want 404", res.StatusCode)
		}
		if res := h.do("alice", "POST", "/mcp", list, "Mcp-Session-Id", session); res.StatusCode != 200 {
			t.Errorf("with the rights it was opened with: got %d", res.StatusCode)
		}
	})
}

func TestRulesThatCannotBe(t *testing.T) {
	err := (&bridge.Options{ToolRules: []bridge.ToolRule{
		{Grant: "admin", Allow: []string{"*"}}, {Grant: "scope:", Allow: []string{"*"}}, {Grant: "*"}, {Grant: "*", Allow: []string{"[", ""}}, {Grant: "group:x", Deny: []string{"*"}},
	}}).Check()
	if err == nil {
		t.Fatal("got no error")
	}
	for _, want := range []string{`tool rule 1: "admin"`, `tool rule 2: "scope:"`, "tool rule 3: it neither", `tool rule 4: "[" is no pattern`, `tool rule 4: "" is no pattern`} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is missing in:\n%v", want, err)
		}
	}
	if strings.Contains(err.Error(), "tool rule 5") {
		t.Errorf("a good rule is reported: %v", err)
	}
}
