package e2e

import (
	"net/http"
	"strings"
	"testing"

	"github.com/mcp-dualstack/bridge/test/harness"
)

// A badInput is one request that has to be refused, and how.
type badInput struct {
	name   string
	body   string
	header []string // name and value pairs that replace the usual ones; an empty value leaves one out
	status int
	code   int  // of the JSON-RPC error in the body; 0: not looked at
	noID   bool // the error must have no id, because the request's could not be read
}

// malformed is refused in the same way on both POST routes: translation.md, section 2.
var malformed = []badInput{
	{name: "empty body", body: "", status: 400, code: -32700, noID: true},
	{name: "cut short", body: `{"jsonrpc":"2.0","id":1,"method":"tools/li`, status: 400, code: -32700, noID: true},
	{name: "invalid UTF-8", body: "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\",\"params\":{\"a\":\"\xff\xfe\"}}", status: 400, code: -32700},
	{name: "overlong UTF-8", body: "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\",\"params\":{\"a\":\"\xc0\xaf\"}}", status: 400, code: -32700},
	{name: "bytes after the value", body: `{"jsonrpc":"2.0","id":1,"method":"tools/list"} {}`, status: 400, code: -32700},
	{name: "nested too deep", body: deep(600), status: 400, code: -32700},
	{name: "oversized", body: `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"a":"` + strings.Repeat("a", 9<<20) + `"}}`, status: 413},
	{name: "no version", body: `{"id":1,"method":"tools/list"}`, status: 400, code: -32600},
	{name: "another version", body: `{"jsonrpc":"1.0","id":1,"method":"tools/list"}`, status: 400, code: -32600},
	{name: "wrong case", body: `{"jsonrpc":"2.0","id":1,"Method":"tools/list"}`, status: 400, code: -32600},
	{name: "a bare number", body: `42`, status: 400, code: -32600, noID: true},
	{name: "duplicate id", body: `{"jsonrpc":"2.0","id":1,"id":2,"method":"tools/list"}`, status: 400, code: -32600},
	{name: "duplicate method", body: `{"jsonrpc":"2.0","id":1,"method":"tools/list","method":"ping"}`, status: 400, code: -32600},
	{name: "duplicate params", body: `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{},"params":{}}`, status: 400, code: -32600},
	{name: "duplicate by escape", body: `{"jsonrpc":"2.0","id":1,"method":"tools/list","\u006dethod":"ping"}`, status: 400, code: -32600},
	{name: "duplicate tool name", body: `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","name":"add","arguments":{}}}`, status: 400, code: -32600},
	{name: "method and result", body: `{"jsonrpc":"2.0","id":1,"method":"tools/list","result":{}}`, status: 400, code: -32600},
	{name: "id null", body: `{"jsonrpc":"2.0","id":null,"method":"tools/list"}`, status: 400, code: -32600, noID: true},
	{name: "id fractional", body: `{"jsonrpc":"2.0","id":1.5,"method":"tools/list"}`, status: 400, code: -32600, noID: true},
	{name: "id with exponent", body: `{"jsonrpc":"2.0","id":1e3,"method":"tools/list"}`, status: 400, code: -32600, noID: true},
	{name: "id boolean", body: `{"jsonrpc":"2.0","id":true,"method":"tools/list"}`, status: 400, code: -32600, noID: true},
	{name: "id array", body: `{"jsonrpc":"2.0","id":[1],"method":"tools/list"}`, status: 400, code: -32600, noID: true},
	{name: "id object", body: `{"jsonrpc":"2.0","id":{},"method":"tools/list"}`, status: 400, code: -32600, noID: true},
	{name: "empty batch", body: `[]`, status: 400, code: -32600},
	{name: "not JSON by type", body: list, header: []string{"Content-Type", "text/plain"}, status: 415},
	{name: "a form", body: list, header: []string{"Content-Type", "application/x-www-form-urlencoded"}, status: 415},
	{name: "foreign host", body: list, header: []string{"Host", "evil.example"}, status: 403},
	{name: "foreign origin", body: list, header: []string{"Origin", "http://evil.example"}, status: 403},
}

const list = `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`

func deep(n int) string {
	return `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"a":` + strings.Repeat("[", n) + strings.Repeat("]", n) + `}}`
}

// streamableOnly is refused on the endpoint with sessions: translation.md, sections 3, 3.1 and 3.2.
var streamableOnly = []badInput{
	{name: "batch in 2025-11-25", body: `[` + list + `]`, status: 400, code: -32600},
	{name: "initialize in a session", body: harness.Request("1", "initialize", harness.Initialize("e2e-bad", "2025-11-25")), status: 400, code: -32600},
	{name: "unknown session", body: list, header: []string{"Mcp-Session-Id", "nobody"}, status: 404},
	{name: "no session", body: list, header: []string{"Mcp-Session-Id", ""}, status: 400},
	{name: "response without a session", body: `{"jsonrpc":"2.0","id":1,"result":{}}`, header: []string{"Mcp-Session-Id", ""}, status: 400},
	{name: "unknown revision", body: list, header: []string{"MCP-Protocol-Version", "2031-01-01"}, status: 400, code: -32602},
	{name: "unknown older revision", body: list, header: []string{"MCP-Protocol-Version", "2023-01-01"}, status: 400, code: -32600},
	{name: "accepts neither type", body: list, header: []string{"Accept", "text/html"}, status: 406},
	{name: "claim is no string", body: harness.Request("1", "tools/list", `{"_meta":{"io.modelcontextprotocol/protocolVersion":7}}`), status: 400, code: -32602},
	{name: "claim without capabilities", body: harness.Request("1", "tools/list", `{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}`), status: 400, code: -32602},
	{name: "claim without header", body: harness.Request("1", "tools/list", modernParams("")), header: []string{"MCP-Protocol-Version", ""}, status: 400, code: -32020},
	{name: "claim against header", body: harness.Request("1", "tools/list", modernParams("")), header: []string{"MCP-Protocol-Version", "2025-11-25"}, status: 400, code: -32020},
	{name: "header without claim", body: list, header: []string{"MCP-Protocol-Version", "2026-07-28"}, status: 400, code: -32602},
}

// Each bad request gets its status and code, and the next good one of the same session is answered.
func TestBadInput(t *testing.T) {
	p := startBridge(t, needEverything(t)...)
	s := openSession(t, p.base, "/mcp", "e2e-bad", "2025-11-25")
	for _, in := range append(malformed, streamableOnly...) {
		t.Run("mcp "+in.name, func(t *testing.T) {
			checkBad(t, do(t, p.base, request{path: "/mcp", headers: s.headers(in.header...), body: in.body}), in)
			checkEcho(t, s)
		})
	}
	l, _ := openLegacy(t, p.base, "e2e-bad", "2024-11-05")
	for _, in := range malformed {
		t.Run("sse "+in.name, func(t *testing.T) {
			headers := jsonOnly()
			for i := 0; i < len(in.header); i += 2 {
				headers[in.header[i]] = in.header[i+1]
			}
			checkBad(t, do(t, p.base, request{path: l.endpoint, headers: headers, body: in.body}), in)
			checkEcho(t, l)
		})
	}
	if strays := l.strays(); len(strays) > 0 {
		t.Errorf("refused messages were answered on the stream too: %v", strays)
	}
}

func checkBad(t *testing.T, got answer, in badInput) {
	t.Helper()
	if got.status != in.status {
		t.Errorf("status: got %d %s, want %d", got.status, got.body, in.status)
	}
	if in.code == 0 {
		return
	}
	if got.message.Error == nil || got.message.Error.Code != in.code {
		t.Errorf("error: got %s, want code %d", got.body, in.code)
	}
	if in.noID && got.message.ID != nil {
		t.Errorf("id: got %s, want no member id", got.message.ID)
	}
}

// What is odd but allowed is answered: translation.md, sections 2 and 3.1.
func TestOddInput(t *testing.T) {
	p := startBridge(t, needEverything(t)...)
	s := openSession(t, p.base, "/mcp", "e2e-odd", "2025-11-25")
	l, _ := openLegacy(t, p.base, "e2e-odd", "2024-11-05")
	echo := `"method":"tools/call","params":{"name":"echo","arguments":{"message":"x"}}}`
	for _, tt := range []struct{ name, id, body string }{
		{"beyond 2^53", "9007199254740993", `{"jsonrpc":"2.0","id":9007199254740993,` + echo},
		{"negative", "-5", `{"jsonrpc":"2.0","id":-5,` + echo},
		{"empty string", `""`, `{"jsonrpc":"2.0","id":"",` + echo},
		{"digits with zeros", `"007"`, `{"jsonrpc":"2.0","id":"007",` + echo},
		{"escapes in the id", `"a\u002fb"`, `{"jsonrpc":"2.0","id":"a\u002fb",` + echo},
		{"duplicates in the payload", "3", `{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"echo","arguments":{"message":"y","message":"x"}}}`},
		{"lone surrogate", "4", `{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"echo","arguments":{"message":"x","a":"\ud800"}}}`},
		{"unknown top level member", "5", `{"jsonrpc":"2.0","id":5,"extra":[],` + echo},
		{"leading blanks", "6", "\r\n\t {\"jsonrpc\":\"2.0\",\"id\":6," + echo + "\n"},
	} {
		t.Run("mcp "+tt.name, func(t *testing.T) {
			a := do(t, p.base, request{path: "/mcp", headers: s.headers("Content-Type", "Application/JSON; charset=utf-8"), body: tt.body})
			checkOdd(t, a.message, nil, tt.id)
		})
		t.Run("sse "+tt.name, func(t *testing.T) {
			m, err := l.send(t.Context(), tt.id, tt.body)
			checkOdd(t, m, err, tt.id)
		})
	}
}

func checkOdd(t *testing.T, m message, err error, id string) {
	t.Helper()
	if err != nil || string(m.ID) != id || m.Text() != "Echo: x" {
		t.Errorf("got id %s text %q error %v %+v, want id %s and the echo", m.ID, m.Text(), err, m.Error, id)
	}
}

// Requests that need no body, and those that miss their session.
func TestBadRoutes(t *testing.T) {
	p := startBridge(t, needEverything(t)...)
	mine := openStream(t, p.base).endpoint
	route, query, _ := strings.Cut(mine, "?")
	name, _, _ := strings.Cut(query, "=")
	foreign := route + "?" + name + "=nobody"
	for _, tt := range []struct {
		name   string
		req    request
		status int
		allow  bool
	}{
		{"GET /mcp without a session", request{method: http.MethodGet, path: "/mcp", headers: streamable()}, 405, true},
		{"GET /mcp of nobody", request{method: http.MethodGet, path: "/mcp", headers: streamable("Mcp-Session-Id", "nobody")}, 404, false},
		{"DELETE /mcp without a session", request{method: http.MethodDelete, path: "/mcp"}, 400, false},
		{"DELETE /mcp of nobody", request{method: http.MethodDelete, path: "/mcp", headers: streamable("Mcp-Session-Id", "nobody")}, 404, false},
		{"PUT /mcp", request{method: http.MethodPut, path: "/mcp", headers: streamable(), body: list}, 405, true},
		{"POST /messages without a session", request{path: route, headers: jsonOnly(), body: list}, 400, false},
		{"POST /messages of nobody", request{path: foreign, headers: jsonOnly(), body: list}, 404, false},
		{"GET /messages", request{method: http.MethodGet, path: foreign}, 405, true},
		{"another path", request{method: http.MethodGet, path: "/nothing"}, 404, false},
		{"GET /sse from a foreign host", request{method: http.MethodGet, path: "/sse", headers: map[string]string{"Host": "evil.example"}}, 403, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := do(t, p.base, tt.req)
			if a.status != tt.status || tt.allow != (a.header.Get("Allow") != "") {
				t.Errorf("got %d, Allow %q, %s; want %d, Allow %v", a.status, a.header.Get("Allow"), a.body, tt.status, tt.allow)
			}
		})
	}
}

// On the legacy stream what is well formed but refused is answered there: translation.md, section 3.
func TestRefusedOnTheStream(t *testing.T) {
	p := startBridge(t, needEverything(t)...)
	l, _ := openLegacy(t, p.base, "e2e-refused", "2025-06-18")
	m, err := l.call(t.Context(), "7", "initialize", harness.Initialize("e2e-refused", "2025-06-18"))
	if err != nil || m.Error == nil || m.Error.Code != -32600 {
		t.Errorf("a second initialize: got %s %+v, error %v; want -32600", m.Result, m.Error, err)
	}
	if a := l.post(t, `{"jsonrpc":"2.0","method":"notifications/whatever","params":`+modernParams("")+`}`); a.status != http.StatusAccepted {
		t.Errorf("a notification with a modern claim: got %d %s, want 202", a.status, a.body)
	}
	if a := l.post(t, `{"jsonrpc":"2.0","method":"cancelled"}`); a.status != http.StatusAccepted {
		t.Errorf("an unknown notification: got %d %s, want 202", a.status, a.body)
	}
	checkEcho(t, l)
}
