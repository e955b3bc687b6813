package translate_test

import (
	"context"
	"strings"
	"testing"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
	"github.com/mcp-dualstack/bridge/negotiate"
	"github.com/mcp-dualstack/bridge/translate"
)

// described returns a server whose handshake said these raw members, as upstream reads them: what is no object is not there.
func described(t *testing.T, capabilities, info, instructions string) *script {
	t.Helper()
	result := []byte(`{"protocolVersion":"2025-06-18","x":1.50}`)
	object := func(name, raw string) []byte {
		if raw != "" {
			result = jsonrpc.Set(result, []byte(raw), name)
		}
		if !jsonrpc.IsObject([]byte(raw)) {
			return nil
		}
		return []byte(raw)
	}
	s := newScript(t, func(context.Context, exchange.Request, exchange.Peer) (exchange.Response, error) {
		return exchange.Response{Result: []byte("{}")}, nil
	})
	s.server = exchange.Server{Revision: l2, Capabilities: object("capabilities", capabilities), Info: object("serverInfo", info)}
	if instructions != "" {
		s.server.Instructions = []byte(instructions)
		result = jsonrpc.Set(result, []byte(instructions), "instructions")
	}
	s.server.Initialize = result
	return s
}

// TestDescriptionOfAServer: what a handshake-era server says of itself is passed on as it is as long as a client can read it
// (2025-06-18 schema, InitializeResult; 2026-07-28 schema, DiscoverResult).
func TestDescriptionOfAServer(t *testing.T) {
	const info = `{"name":"srv","version":"1","x":1.0}`
	const bridge = `{"name":"br","version":"9"}`
	for _, c := range []struct {
		name                             string
		capabilities, info, instructions string
		initialize                       string // members after protocolVersion and x
		discover                         string // capabilities, instructions, server info
	}{
		{"right", `{"tools":{},"x":1e2}`, info, `"a\u0062"`,
			`"capabilities":{"tools":{},"x":1e2},"serverInfo":` + info + `,"instructions":"a\u0062"`, `{"tools":{},"x":1e2} "a\u0062" ` + info},
		{"no instructions", `{}`, info, ``, `"capabilities":{},"serverInfo":` + info, `{}  ` + info},
		{"null and a number", `null`, `7`, ``, `"capabilities":{},"serverInfo":` + bridge, `{}  `},
		{"nothing", ``, ``, ``, `"capabilities":{},"serverInfo":` + bridge, `{}  `},
		{"an array and a text", `[1]`, `"srv"`, ``, `"capabilities":{},"serverInfo":` + bridge, `{}  `},
		{"no version", `{}`, `{"name":"srv","x":1.0}`, ``, `"capabilities":{},"serverInfo":{"name":"srv","x":1.0,"version":"9"}`, `{}  `},
		{"a name that is none", `{}`, `{"name":7,"version":"1"}`, ``, `"capabilities":{},"serverInfo":{"name":"br","version":"1"}`, `{}  `},
		{"instructions that are none", `{}`, info, `{"a":1}`, `"capabilities":{},"serverInfo":` + info, `{}  ` + info},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := legacyHandler(t, described(t, c.capabilities, c.info, c.instructions), &translate.Options{Info: []byte(bridge)})
			old := newUser(t, h, l2, `{}`, agreeable)
			equal(t, "initialize", string(old.session.Server().Initialize), `{"protocolVersion":"2025-06-18","x":1.50,`+c.initialize+`}`)
			found := []byte(newDesk(t, h).show("server/discover", ""))
			equal(t, "discover", strings.Join([]string{
				string(jsonrpc.Get(found, "capabilities")), string(jsonrpc.Get(found, "instructions")), string(jsonrpc.Get(found, "_meta", negotiate.MetaServerInfo)),
			}, " "), c.discover)
		})
	}
}

// TestSetLevelInTheSameEra: a level that is none, and one for a server without log messages, are the bridge's to refuse
// (translation.md 6.5).
func TestSetLevelInTheSameEra(t *testing.T) {
	for _, c := range []struct{ name, capabilities, params, want, passed string }{
		{"right", `{"logging":{}}`, `{"level":"notice","x":1.0}`, `{}`, `{"level":"notice","x":1.0}`},
		{"none of the levels", `{"logging":{}}`, `{"level":"loud"}`, `-32602 {"bridge":{"reason":"invalid_log_level"}}`, ``},
		{"no level", `{"logging":{}}`, `{}`, `-32602 {"bridge":{"reason":"invalid_log_level"}}`, ``},
		{"not declared", `{}`, `{"level":"notice"}`, `-32601 {"bridge":{"reason":"unknown_method"}}`, ``},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := described(t, c.capabilities, `{"name":"srv","version":"1"}`, ``)
			s.schemas = nil // x is no member of SetLevelRequestParams
			u := newUser(t, modern(s), l2, `{}`, agreeable)
			u.schemas = nil
			resp, err := u.ask("logging/setLevel", c.params)
			equal(t, "answer", outcome(resp, err), c.want)
			equal(t, "passed on", strings.Join(s.params("logging/setLevel"), " "), c.passed)
		})
	}
}

// TestErrorsBetweenModernPeers: what a server of 2026-07-28 may not say to its client, or says of what the bridge made, does not
// reach a client of that revision as it is (translation.md 13).
func TestErrorsBetweenModernPeers(t *testing.T) {
	for _, c := range []struct{ name, method, params, fault, want string }{
		{"headers", "tools/call", `{"name":"a"}`, `{"code":-32020,"message":"no"}`, `upstream_headers`},
		{"a missing resource", "resources/read", `{"uri":"a:b"}`, `{"code":-32002,"message":"no"}`, `-32602 {"uri":"a:b","bridge":{"upstreamCode":-32002}}`},
		{"a missing resource that is named", "resources/read", `{"uri":"a:b"}`, `{"code":-32002,"message":"no","data":{"uri":"a:c"}}`,
			`-32602 {"uri":"a:c","bridge":{"upstreamCode":-32002}}`},
		{"the code elsewhere", "tools/call", `{"name":"a"}`, `{"code":-32002,"message":"no"}`, `-32603 {"bridge":{"upstreamCode":-32002}}`},
		{"a URL", "tools/call", `{"name":"a"}`, `{"code":-32042,"message":"no"}`, `upstream_invalid`},
		{"a capability", "tools/call", `{"name":"a"}`, `{"code":-32021,"message":"no","data":{"requiredCapabilities":{"roots":{}}}}`, `-32021 {"requiredCapabilities":{"roots":{}}}`},
		{"its own", "tools/call", `{"name":"a"}`, `{"code":-32011,"message":"no","data":[1.0]}`, `-32011 [1.0]`},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, e := jsonrpc.Scan([]byte(`{"jsonrpc":"2.0","id":1,"error":` + c.fault + `}`))
			if e != nil {
				t.Fatal(e)
			}
			s := newScript(t, func(context.Context, exchange.Request, exchange.Peer) (exchange.Response, error) {
				return exchange.Response{Error: m.Error}, nil
			})
			d := newDesk(t, modern(s))
			resp, err := d.ask(t.Context(), c.method, c.params)
			equal(t, "answer", outcome(resp, err), c.want)
		})
	}
}
