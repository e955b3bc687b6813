package negotiate_test

import (
	"bufio"
	"net/http"
	"strings"
	"testing"

	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
	. "github.com/mcp-dualstack/bridge/negotiate"
)

// request returns a request with the members of params and of its _meta.
func request(method, params, meta string) string {
	if params != "" {
		params += ","
	}
	return `{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":{` + params + `"_meta":{` + meta + `}}}`
}

const (
	version2026  = `"io.modelcontextprotocol/protocolVersion":"2026-07-28"`
	capabilities = `,"io.modelcontextprotocol/clientCapabilities":{}`
	envelope     = version2026 + capabilities
	tasks        = version2026 + `,"io.modelcontextprotocol/clientCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}`
)

// modern returns the three standard headers; an empty value leaves its header out.
func modern(version, method, name string) http.Header {
	h := http.Header{}
	for key, value := range map[string]string{"MCP-Protocol-Version": version, "Mcp-Method": method, "Mcp-Name": name} {
		if value != "" {
			h.Set(key, value)
		}
	}
	return h
}

func TestCheckModernAccepts(t *testing.T) {
	tests := []struct {
		name, request string
		header        http.Header
		raw           bool
	}{
		{"tools/list", request("tools/list", "", envelope), modern("2026-07-28", "tools/list", ""), false},
		{"with an Mcp-Name nobody asked for", request("tools/list", "", envelope), modern("2026-07-28", "tools/list", "x"), false},
		{"an unknown method is the caller's", request("vendor/method", "", envelope), modern("2026-07-28", "vendor/method", ""), false},
		{"client info and log level", request("tools/list", "", envelope+`,"io.modelcontextprotocol/clientInfo":{"name":"x","version":"1","new":1},"io.modelcontextprotocol/logLevel":"notice"`), modern("2026-07-28", "tools/list", ""), false},
		{"session headers are ignored", request("tools/list", "", envelope), header("Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/list", "Mcp-Session-Id", "x", "Last-Event-Id", "1"), false},
		{"tools/call", request("tools/call", `"name":"add"`, envelope), modern("2026-07-28", "tools/call", "add"), false},
		{"prompts/get", request("prompts/get", `"name":"p"`, envelope), modern("2026-07-28", "prompts/get", "p"), false},
		{"resources/read", request("resources/read", `"uri":"file:///a%20b"`, envelope), modern("2026-07-28", "resources/read", "file:///a%20b"), false},
		{"name encoded", request("tools/call", `"name":"世界"`, envelope), modern("2026-07-28", "tools/call", "=?base64?5LiW55WM?="), false},
		{"plain name encoded", request("tools/call", `"name":"Hello"`, envelope), modern("2026-07-28", "tools/call", "=?base64?SGVsbG8=?="), false},
		{"name with escapes in the body", request("tools/call", `"name":"\u0061dd"`, envelope), modern("2026-07-28", "tools/call", "add"), false},
		{"raw name, switched on", request("tools/call", `"name":"世界"`, envelope), modern("2026-07-28", "tools/call", "世界"), true},
		{"encoded name, raw switched on", request("tools/call", `"name":"世界"`, envelope), modern("2026-07-28", "tools/call", "=?base64?5LiW55WM?="), true},
		{"raw sentinel, switched on (go-sdk v1.8.0)", request("tools/call", `"name":"=?base64?literal?="`, envelope), modern("2026-07-28", "tools/call", "=?base64?literal?="), true},
		{"tasks/get", request("tasks/get", `"taskId":"t1"`, tasks), modern("2026-07-28", "tasks/get", "t1"), false},
		{"tasks/get without the extension is the caller's", request("tasks/get", `"taskId":"t1"`, envelope), modern("2026-07-28", "tasks/get", ""), false},
	}
	for _, tt := range tests {
		c, r := CheckModern(tt.header, scan(t, tt.request), All, tt.raw)
		if r != nil || string(c.Version) != `"2026-07-28"` {
			t.Errorf("%s: got %v, want it accepted", tt.name, r)
		}
	}
	h := http.Header{}
	h.Set("Mcp-Name", "")
	h.Set("mcp-method", "tools/call")
	h.Set("MCP-PROTOCOL-VERSION", "2026-07-28")
	if _, r := CheckModern(h, scan(t, request("tools/call", `"name":""`, envelope)), Modern, false); r != nil {
		t.Errorf("empty name and empty header: got %v, want it accepted", r)
	}
}

// Each row fails at the step it names and would fail at a later one too wherever that can be, so the
// rows fix the order.
func TestCheckModernRefuses(t *testing.T) {
	mismatch := refusal{400, -32020, ""}
	malformed := refusal{400, -32602, reason("malformed_claim")}
	removed := refusal{404, -32601, reason("method_removed")}
	unsupported := func(requested string) refusal {
		return refusal{400, -32022, `{"supported":["2026-07-28","2025-11-25","2025-06-18","2025-03-26","2024-11-05"],"requested":"` + requested + `"}`}
	}
	call := func(meta string) string { return request("tools/call", `"name":"add"`, meta) }
	tests := []struct {
		name, request string
		header        http.Header
		want          refusal
	}{
		{"2: no claim", call(`"io.modelcontextprotocol/clientCapabilities":{}`), nil, refusal{400, -32602, reason("missing_claim")}},
		{"2: claim no string", call(`"io.modelcontextprotocol/protocolVersion":20260728` + capabilities), nil, malformed},
		{"2: claim null", call(`"io.modelcontextprotocol/protocolVersion":null` + capabilities), nil, malformed},
		{"2: no capabilities", call(version2026), nil, malformed},
		{"2: capabilities an array", call(version2026 + `,"io.modelcontextprotocol/clientCapabilities":[]`), nil, malformed},
		{"2: capabilities null", call(version2026 + `,"io.modelcontextprotocol/clientCapabilities":null`), nil, malformed},
		{"2: info a string", call(envelope + `,"io.modelcontextprotocol/clientInfo":"me"`), nil, malformed},
		{"2: info null", call(envelope + `,"io.modelcontextprotocol/clientInfo":null`), nil, malformed},
		{"2: info without version", call(envelope + `,"io.modelcontextprotocol/clientInfo":{"name":"me"}`), nil, malformed},
		{"2: info with a number for a name", call(envelope + `,"io.modelcontextprotocol/clientInfo":{"name":1,"version":"1"}`), nil, malformed},
		{"2 before 4: legacy claim without capabilities", call(`"io.modelcontextprotocol/protocolVersion":"2025-11-25"`), nil, malformed},

		{"3: no version header", call(envelope), modern("", "tools/call", "add"), mismatch},
		{"3: other version header", call(envelope), modern("2025-11-25", "tools/call", "add"), mismatch},
		{"3: version header twice", call(envelope), header("Mcp-Protocol-Version", "2026-07-28", "Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", "add"), mismatch},
		{"3: version header encoded", call(envelope), modern("=?base64?MjAyNi0wNy0yOA==?=", "tools/call", "add"), mismatch},
		{"3 before 4: unknown claim, other header", call(`"io.modelcontextprotocol/protocolVersion":"2099-01-01"` + capabilities), modern("2026-07-28", "tools/call", "add"), mismatch},

		{"4: legacy version", call(`"io.modelcontextprotocol/protocolVersion":"2025-11-25"` + capabilities), modern("2025-11-25", "", ""), unsupported("2025-11-25")},
		{"4: unknown version", call(`"io.modelcontextprotocol/protocolVersion":"1900-01-01"` + capabilities), modern("1900-01-01", "", ""), unsupported("1900-01-01")},
		{"4: later version", call(`"io.modelcontextprotocol/protocolVersion":"2099-01-01"` + capabilities), modern("2099-01-01", "x", "y"), unsupported("2099-01-01")},
		{"4: no date", call(`"io.modelcontextprotocol/protocolVersion":"zzz"` + capabilities), modern("zzz", "", ""), unsupported("zzz")},
		{"4 before 7", request("ping", "", `"io.modelcontextprotocol/protocolVersion":"2099-01-01"`+capabilities), modern("2099-01-01", "ping", ""), unsupported("2099-01-01")},

		{"5: no Mcp-Method (R23)", call(envelope), modern("2026-07-28", "", "add"), mismatch},
		{"5: other Mcp-Method", call(envelope), modern("2026-07-28", "tools/list", "add"), mismatch},
		{"5: Mcp-Method in capitals", call(envelope), modern("2026-07-28", "TOOLS/CALL", "add"), mismatch},
		{"5: Mcp-Method encoded", call(envelope), modern("2026-07-28", "=?base64?dG9vbHMvY2FsbA==?=", "add"), mismatch},
		{"5: Mcp-Method twice", call(envelope), header("Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Method", "tools/call", "Mcp-Name", "add"), mismatch},
		{"5 before 7: removed method, other Mcp-Method", request("ping", "", envelope), modern("2026-07-28", "tools/list", ""), mismatch},

		{"6: no Mcp-Name (R23)", call(envelope), modern("2026-07-28", "tools/call", ""), mismatch},
		{"6: other Mcp-Name", call(envelope), modern("2026-07-28", "tools/call", "sub"), mismatch},
		{"6: Mcp-Name in capitals", call(envelope), modern("2026-07-28", "tools/call", "ADD"), mismatch},
		{"6: Mcp-Name twice", call(envelope), header("Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", "add", "Mcp-Name", "add"), mismatch},
		{"6: base64 without padding", request("tools/call", `"name":"Hello"`, envelope), modern("2026-07-28", "tools/call", "=?base64?SGVsbG8?="), mismatch},
		{"6: base64 not UTF-8", call(envelope), modern("2026-07-28", "tools/call", "=?base64?/w==?="), mismatch},
		{"6: sentinel taken literally", request("tools/call", `"name":"=?base64?literal?="`, envelope), modern("2026-07-28", "tools/call", "=?base64?literal?="), mismatch},
		{"6: raw name", request("tools/call", `"name":"世界"`, envelope), modern("2026-07-28", "tools/call", "世界"), mismatch},
		{"6: prompts/get", request("prompts/get", `"name":"p"`, envelope), modern("2026-07-28", "prompts/get", ""), mismatch},
		{"6: resources/read by name", request("resources/read", `"name":"x","uri":"file:///a"`, envelope), modern("2026-07-28", "resources/read", "x"), mismatch},
		{"6: body without name", request("tools/call", ``, envelope), modern("2026-07-28", "tools/call", "add"), mismatch},
		{"6: body without name, no header", request("tools/call", ``, envelope), modern("2026-07-28", "tools/call", ""), mismatch},
		{"6: body with a number for a name", request("tools/call", `"name":1`, envelope), modern("2026-07-28", "tools/call", "1"), mismatch},
		{"6: tasks/get", request("tasks/get", `"taskId":"t1"`, tasks), modern("2026-07-28", "tasks/get", "t2"), mismatch},
		{"6: tasks/update", request("tasks/update", `"taskId":"t1"`, tasks), modern("2026-07-28", "tasks/update", ""), mismatch},
		{"6: tasks/cancel", request("tasks/cancel", `"taskId":"t1"`, tasks), modern("2026-07-28", "tasks/cancel", ""), mismatch},
		{"6 before 8", call(envelope + `,"io.modelcontextprotocol/logLevel":"loud"`), modern("2026-07-28", "tools/call", "sub"), mismatch},

		{"7: initialize", request("initialize", `"protocolVersion":"2026-07-28"`, envelope), modern("2026-07-28", "initialize", ""), removed},
		{"7: ping", request("ping", "", envelope), modern("2026-07-28", "ping", ""), removed},
		{"7: logging/setLevel", request("logging/setLevel", `"level":"info"`, envelope), modern("2026-07-28", "logging/setLevel", ""), removed},
		{"7: resources/subscribe", request("resources/subscribe", `"uri":"x:y"`, envelope), modern("2026-07-28", "resources/subscribe", ""), removed},
		{"7: resources/unsubscribe", request("resources/unsubscribe", `"uri":"x:y"`, envelope), modern("2026-07-28", "resources/unsubscribe", ""), removed},
		{"7: tasks/result", request("tasks/result", `"taskId":"t"`, tasks), modern("2026-07-28", "tasks/result", ""), removed},
		{"7: tasks/list", request("tasks/list", "", tasks), modern("2026-07-28", "tasks/list", ""), removed},
		{"7 before 8", request("ping", "", envelope+`,"io.modelcontextprotocol/logLevel":"loud"`), modern("2026-07-28", "ping", ""), removed},

		{"8: log level", call(envelope + `,"io.modelcontextprotocol/logLevel":"loud"`), modern("2026-07-28", "tools/call", "add"), refusal{200, -32602, reason("invalid_log_level")}},
		{"8: log level no string", call(envelope + `,"io.modelcontextprotocol/logLevel":3`), modern("2026-07-28", "tools/call", "add"), refusal{200, -32602, reason("invalid_log_level")}},
	}
	for _, tt := range tests {
		if _, r := CheckModern(tt.header, scan(t, tt.request), All, false); seen(r) != tt.want {
			t.Errorf("%s: got %v, want %v", tt.name, seen(r), tt.want)
		}
	}
}

func TestCheckModernServesWhatIsServed(t *testing.T) {
	m := scan(t, request("tools/list", "", envelope))
	_, r := CheckModern(modern("2026-07-28", "tools/list", ""), m, Legacy, false)
	want := refusal{400, -32022, `{"supported":["2025-11-25","2025-06-18","2025-03-26","2024-11-05"],"requested":"2026-07-28"}`}
	if seen(r) != want {
		t.Errorf("got %v, want %v", seen(r), want)
	}
}

func TestCheckModernMessages(t *testing.T) {
	tests := []struct {
		name, request string
		header        http.Header
		want          string
	}{
		{"name", request("tools/call", `"name":"bar"`, envelope), modern("2026-07-28", "tools/call", "foo"),
			"Header mismatch: Mcp-Name header value 'foo' does not match body value 'bar' of params.name"},
		{"missing", request("tools/call", `"name":"bar"`, envelope), modern("2026-07-28", "tools/call", ""),
			"Header mismatch: the Mcp-Name header is missing"},
		{"version", request("tools/list", ``, envelope), modern("2025-11-25", "tools/list", ""),
			`Header mismatch: MCP-Protocol-Version header value '2025-11-25' does not match '2026-07-28' of _meta "io.modelcontextprotocol/protocolVersion"`},
		{"long and with control characters", request("tools/call", `"name":"`+strings.Repeat("é", 70)+`"`, envelope), modern("2026-07-28", "tools/call", "a\tb"),
			"Header mismatch: Mcp-Name header value 'ab' does not match body value '" + strings.Repeat("é", 64) + "...' of params.name"},
		{"removed", request("ping", ``, envelope), modern("2026-07-28", "ping", ""),
			"Method not found: ping does not exist in 2026-07-28; any request tells whether the server is there"},
	}
	for _, tt := range tests {
		_, r := CheckModern(tt.header, scan(t, tt.request), All, false)
		if r == nil || r.Err.Message != tt.want {
			t.Errorf("%s: got %v, want %s", tt.name, r, tt.want)
		}
	}
}

// A request passes only if its headers say what its body says, read here by other means than the code's.
func FuzzClassifyAndCheckModern(f *testing.F) {
	f.Add([]byte(request("tools/call", `"name":"add"`, envelope)), "2026-07-28", "tools/call", "add", false)
	f.Add([]byte(request("resources/read", `"uri":"世界"`, envelope)), "2026-07-28", "resources/read", "=?base64?5LiW55WM?=", false)
	f.Add([]byte(request("tools/call", `"name":"世界"`, envelope)), "2026-07-28", "tools/call", "世界", true)
	f.Add([]byte(request("tasks/get", `"taskId":"t"`, tasks)), "2026-07-28", "tasks/get", "t", false)
	f.Add([]byte(request("initialize", "", `"io.modelcontextprotocol/protocolVersion":"2025-11-25"`)), "", "", "", false)
	f.Add([]byte(`{"jsonrpc":"2.0","method":"notifications/cancelled"}`), "2026-07-28", "", "", false)
	f.Add([]byte(`{"jsonrpc":"2.0","id":1,"result":{}}`), "zzz", "", "", false)
	f.Fuzz(func(t *testing.T, text []byte, version, method, name string, raw bool) {
		m, err := jsonrpc.Scan(text)
		if err != nil {
			return
		}
		h := http.Header{"Mcp-Protocol-Version": {version}, "Mcp-Method": {method}, "Mcp-Name": {name}}
		class, r := Classify(h, &m)
		if (class == ClassRefused) != (r != nil) {
			t.Fatalf("class %v with refusal %v", class, r)
		}
		if m.Kind == jsonrpc.Response && class != ClassLegacy || (class == ClassModernNotification) != (m.Kind == jsonrpc.Notification && class != ClassLegacy) {
			t.Fatalf("kind %v is class %v", m.Kind, class)
		}
		c, refused := CheckModern(h, &m, All, raw)
		if refused != nil {
			if refused.Status < 200 || refused.Err == nil || refused.Err.Code == 0 {
				t.Fatalf("refusal %+v", refused)
			}
			return
		}
		if class != ClassModern && m.Kind == jsonrpc.Request {
			t.Fatalf("class %v passes as modern", class)
		}
		if claimed, _ := jsonrpc.String(c.Version); claimed != version || claimed != "2026-07-28" {
			t.Fatalf("header %q, claim %q", version, claimed)
		}
		if m.Method != method {
			t.Fatalf("header %q, method %q", method, m.Method)
		}
		member := map[string]string{"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}[method]
		if member == "" {
			return
		}
		body, ok := jsonrpc.String(jsonrpc.Get(m.Params, member))
		decoded, _ := DecodeValue(name)
		if !ok || body != decoded && !(raw && body == name) {
			t.Fatalf("header %q, %s %q", name, member, body)
		}
	})
}

func BenchmarkCheckModern(b *testing.B) {
	m := scan(b, request("tools/call", `"name":"get_weather","arguments":{"location":"Seattle, WA"}`,
		envelope+`,"io.modelcontextprotocol/clientInfo":{"name":"ExampleClient","version":"1.0.0"},"progressToken":7`))
	h := modern("2026-07-28", "tools/call", "get_weather")
	b.ReportAllocs()
	for b.Loop() {
		if _, r := CheckModern(h, m, All, false); r != nil {
			b.Fatal(r)
		}
	}
}

func BenchmarkReadClaim(b *testing.B) {
	m := scan(b, request("tools/call", `"name":"x"`, envelope+`,"io.modelcontextprotocol/clientInfo":{"name":"ExampleClient","version":"1.0.0"},"progressToken":7`))
	b.ReportAllocs()
	for b.Loop() {
		if !ReadClaim(m.Meta).Present() {
			b.Fatal("no claim")
		}
	}
}

func BenchmarkStripReserved(b *testing.B) {
	for name, meta := range map[string]string{"nothing": `"progressToken":7`, "claim": envelope + `,"progressToken":7`} {
		b.Run(name, func(b *testing.B) {
			m := scan(b, request("tools/call", `"name":"x","arguments":{"location":"Seattle, WA"}`, meta))
			b.ReportAllocs()
			for b.Loop() {
				StripReserved(m)
			}
		})
	}
}

func BenchmarkWithEnvelope(b *testing.B) {
	params := []byte(`{"name":"get_weather","arguments":{"location":"Seattle, WA"},"_meta":{"progressToken":7}}`)
	e := Envelope{Version: Rev20260728, Info: []byte(`{"name":"ExampleClient","version":"1.0.0"}`), Capabilities: []byte(`{"roots":{}}`)}
	b.ReportAllocs()
	for b.Loop() {
		WithEnvelope(params, e)
	}
}

// SEP-2243, Conformance Test Cases: names of headers in any case and blanks around values, as the
// HTTP server reads them from the wire.
func TestCheckModernFromTheWire(t *testing.T) {
	body := request("tools/call", `"name":"foo"`, envelope)
	wire := "POST /mcp HTTP/1.1\r\nHost: x\r\nmcp-protocol-version:2026-07-28\r\nMCP-METHOD: \ttools/call\r\nmCp-NaMe:  foo \r\n\r\n"
	r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(wire)))
	if err != nil {
		t.Fatal(err)
	}
	m := scan(t, body)
	if class, _ := Classify(r.Header, m); class != ClassModern {
		t.Errorf("got class %v, want %v", class, ClassModern)
	}
	if _, refused := CheckModern(r.Header, m, All, false); refused != nil {
		t.Errorf("got %v, want it accepted", refused)
	}
}
