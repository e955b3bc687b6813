package negotiate_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
	. "github.com/mcp-dualstack/bridge/negotiate"
)

// scanParams returns a request with the params, if they are JSON that jsonrpc accepts.
func scanParams(method string, params []byte) (*jsonrpc.Message, bool) {
	text := jsonrpc.AppendRequest(nil, []byte("1"), method, params)
	m, err := jsonrpc.Scan(text)
	return &m, err == nil
}

func TestReadClaim(t *testing.T) {
	c := ReadClaim([]byte(`{"progressToken":1,"io.modelcontextprotocol/protocolVersion": "2026-07-28",` +
		`"io.modelcontextprotocol\/clientInfo":{"name":"x"},"io.modelcontextprotocol/clientCapabilities":{ },` +
		`"io.modelcontextprotocol/logLevel":"info","IO.modelcontextprotocol/logLevel":"error"}`))
	got := strings.Join([]string{string(c.Version), string(c.Info), string(c.Capabilities), string(c.LogLevel)}, " | ")
	if want := `"2026-07-28" | {"name":"x"} | { } | "info"`; got != want || !c.Present() {
		t.Errorf("got %s, want %s", got, want)
	}
	for _, meta := range []string{``, `{}`, `{"protocolVersion":"2026-07-28"}`} {
		if c := ReadClaim([]byte(meta)); c.Present() || c.Info != nil || c.Capabilities != nil || c.LogLevel != nil {
			t.Errorf("%s: got %+v, want nothing", meta, c)
		}
	}
}

func TestIsReserved(t *testing.T) {
	tests := []struct {
		key  string
		want bool
	}{
		{"io.modelcontextprotocol/protocolVersion", true},
		{"io.modelcontextprotocol/", true},
		{"dev.mcp/x", true},
		{"org.modelcontextprotocol.api/x", true},
		{"com.mcp.tools/x", true},
		{"io.modelcontextprotocol/a/b", true},
		{"com.example.mcp/x", false},
		{"com.example/mcp", false},
		{"mcp/x", false},
		{"modelcontextprotocol/x", false},
		{"mcp.io/x", false},
		{"a/io.mcp/x", false},
		{"io.mcp", false},
		{"io.mcpx/x", false},
		{"IO.MCP/x", false},
		{"progressToken", false},
		{"traceparent", false},
		{"", false},
		{"/", false},
	}
	for _, tt := range tests {
		if got := IsReserved(tt.key); got != tt.want {
			t.Errorf("%q: got %v, want %v", tt.key, got, tt.want)
		}
	}
}

func TestStripReserved(t *testing.T) {
	tests := []struct {
		name, params, want string
		keep               []string
	}{
		{"claim", `{"name":"x",` + claim2026 + `,"arguments":{"a":1.0}}`, `{"name":"x","_meta":{},"arguments":{"a":1.0}}`, nil},
		{"between others", `{"_meta":{"progressToken":7,"dev.mcp/a":1,"traceparent":"00"}}`, `{"_meta":{"progressToken":7,"traceparent":"00"}}`, nil},
		{"hidden by escapes", `{"_meta":{"io.\u006dodelcontextprotocol\/x":1,"com.example/y":2}}`, `{"_meta":{"com.example/y":2}}`, nil},
		{"kept", `{"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"t"},"io.modelcontextprotocol/x":1}}`,
			`{"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"t"}}}`, []string{MetaRelatedTask}},
		{"below _meta", `{"_meta":{"com.example/y":{"io.modelcontextprotocol/x":1}}}`, `{"_meta":{"com.example/y":{"io.modelcontextprotocol/x":1}}}`, nil},
		{"outside _meta", `{"io.modelcontextprotocol/x":1,"arguments":{"_meta":{"io.mcp/x":1}}}`, `{"io.modelcontextprotocol/x":1,"arguments":{"_meta":{"io.mcp/x":1}}}`, nil},
		{"duplicates of a key no one reads", `{"_meta":{"io.mcp/x":1,"io.mcp/x":2}}`, `{"_meta":{}}`, nil},
		{"no _meta", `{"name":"x"}`, `{"name":"x"}`, nil},
		{"_meta no object", `{"_meta":"io.modelcontextprotocol/x"}`, `{"_meta":"io.modelcontextprotocol/x"}`, nil},
		{"array", `["io.modelcontextprotocol/x"]`, `["io.modelcontextprotocol/x"]`, nil},
	}
	for _, tt := range tests {
		m, ok := scanParams("tools/call", []byte(tt.params))
		if !ok {
			t.Fatalf("%s: not scanned", tt.name)
		}
		before := bytes.Clone(m.Raw)
		if got := StripReserved(m, tt.keep...); string(got) != tt.want {
			t.Errorf("%s: got %s, want %s", tt.name, got, tt.want)
		}
		if !bytes.Equal(m.Raw, before) {
			t.Errorf("%s: the message changed", tt.name)
		}
	}
	if got := StripReserved(scan(t, `{"jsonrpc":"2.0","id":1,"method":"ping"}`)); got != nil {
		t.Errorf("no params: got %s, want nil", got)
	}
}

func TestStripReservedKeepsTheSlice(t *testing.T) {
	m, _ := scanParams("x", []byte(`{"_meta":{"com.example.mcp/x":1,"io.modelcontextprotocol/related-task":{"taskId":"t"}}}`))
	if got := StripReserved(m, MetaRelatedTask); &got[0] != &m.Params[0] || len(got) != len(m.Params) {
		t.Errorf("got %s, want the same slice", got)
	}
}

// Almost every legacy message takes this way, so it must cost nothing.
func TestStripReservedNothingAllocatesNothing(t *testing.T) {
	for _, params := range []string{
		`{"name":"x"}`,
		`{"_meta":{"progressToken":"abc"},"name":"x"}`,
		`{"_meta":{"com.example/key":{"a":[1,2,3]},"traceparent":"00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01"}}`,
	} {
		m, _ := scanParams("tools/call", []byte(params))
		var got []byte
		if n := testing.AllocsPerRun(100, func() { got = StripReserved(m, MetaRelatedTask) }); n != 0 {
			t.Errorf("%s: %v allocations, want 0", params, n)
		}
		if &got[0] != &m.Params[0] || len(got) != len(m.Params) {
			t.Errorf("%s: not the same slice", params)
		}
	}
}

func TestWithEnvelope(t *testing.T) {
	full := Envelope{Version: Rev20260728, Info: []byte(`{"name":"b","version":"1"}`), Capabilities: []byte(`{"roots":{}}`), LogLevel: "info"}
	bare := Envelope{Version: Rev20260728}
	const version, none = `"io.modelcontextprotocol/protocolVersion":"2026-07-28"`, `,"io.modelcontextprotocol/clientCapabilities":{}`
	const all = version + `,"io.modelcontextprotocol/clientCapabilities":{"roots":{}},"io.modelcontextprotocol/clientInfo":{"name":"b","version":"1"},"io.modelcontextprotocol/logLevel":"info"`
	tests := []struct {
		name, params string
		envelope     Envelope
		want         string
	}{
		{"no params", ``, bare, `{"_meta":{` + version + none + `}}`},
		{"empty params", `{}`, full, `{"_meta":{` + all + `}}`},
		{"no _meta", `{"name": "x"}`, bare, `{"name": "x","_meta":{` + version + none + `}}`},
		{"_meta of others", `{"_meta":{ "progressToken":7 },"name":"x"}`, bare, `{"_meta":{"progressToken":7,` + version + none + `},"name":"x"}`},
		{"in place of another", `{"_meta":{"io.modelcontextprotocol/logLevel":"debug","a":1,"io.modelcontextprotocol/clientInfo":{},"io.modelcontextprotocol/protocolVersion":"2025-11-25"}}`,
			bare, `{"_meta":{"a":1,` + version + none + `}}`},
		{"_meta no object", `{"_meta":null,"name":"x"}`, bare, `{"_meta":{` + version + none + `},"name":"x"}`},
		{"array", `[1]`, bare, `[1]`},
	}
	for _, tt := range tests {
		var params []byte
		if tt.params != "" {
			params = []byte(tt.params)
		}
		if got := WithEnvelope(params, tt.envelope); string(got) != tt.want {
			t.Errorf("%s: got %s, want %s", tt.name, got, tt.want)
		}
		if string(params) != tt.params {
			t.Errorf("%s: the params changed", tt.name)
		}
	}
}

func TestValidLogLevel(t *testing.T) {
	for _, s := range []string{"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"} {
		if !ValidLogLevel(s) {
			t.Errorf("%s is not valid", s)
		}
	}
	for _, s := range []string{"", "warn", "Info", "trace", "none", "info "} {
		if ValidLogLevel(s) {
			t.Errorf("%q is valid", s)
		}
	}
}

func FuzzStripReserved(f *testing.F) {
	f.Add([]byte(`{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}`))
	f.Add([]byte(`{"_meta":{"progressToken":1,"dev.mcp/a":1,"traceparent":"x"},"a":[1.0]}`))
	f.Add([]byte(`{"_meta":{"io.\u006dcp/x":{"io.mcp/y":1}}}`))
	f.Add([]byte(`{"_meta":{"a":1, "io.mcp/x":2 , "io.mcp/x":3}}`))
	f.Fuzz(func(t *testing.T, params []byte) {
		m, ok := scanParams("tools/call", params)
		if !ok {
			return
		}
		got := StripReserved(m)
		after, ok := scanParams("tools/call", got)
		if !ok {
			t.Fatalf("%s became %s, which is not accepted", params, got)
		}
		jsonrpc.Members(after.Meta, func(name string, _ []byte) bool {
			if IsReserved(name) {
				t.Fatalf("%s became %s, which has %q", params, got, name)
			}
			return true
		})
		for _, key := range []string{MetaProgressToken, "traceparent", "com.example/x"} {
			if before := jsonrpc.Get(m.Meta, key); !bytes.Equal(before, jsonrpc.Get(after.Meta, key)) {
				t.Fatalf("%s became %s: %s changed", params, got, key)
			}
		}
	})
}

func FuzzWithEnvelope(f *testing.F) {
	f.Add([]byte(`{"name":"x"}`), []byte(`{"roots":{}}`), []byte(`{"name":"n","version":"1"}`), "info")
	f.Add([]byte(`{"_meta":{"progressToken":1,"io.modelcontextprotocol/logLevel":"debug"}}`), []byte(`{}`), []byte(`{}`), "")
	f.Add([]byte(`{ "_meta" : { } , "a" : 1 }`), []byte(`{}`), []byte(`{}`), "error")
	f.Fuzz(func(t *testing.T, params, capabilities, info []byte, level string) {
		m, ok := scanParams("tools/call", params)
		if !ok || jsonrpc.IsArray(m.Params) {
			return
		}
		for _, obj := range [][]byte{capabilities, info} {
			if o, ok := scanParams("x", obj); !ok || !jsonrpc.IsObject(o.Params) {
				return
			}
		}
		level = strings.ToValidUTF8(level, "\uFFFD")
		e := Envelope{Version: Rev20260728, Info: bytes.TrimSpace(info), Capabilities: bytes.TrimSpace(capabilities), LogLevel: level}
		got := WithEnvelope(m.Params, e)
		after, ok := scanParams("tools/call", got)
		if !ok {
			t.Fatalf("%s became %s, which is not accepted", params, got)
		}
		c := ReadClaim(after.Meta)
		if string(c.Version) != `"2026-07-28"` || !bytes.Equal(c.Info, e.Info) || !bytes.Equal(c.Capabilities, e.Capabilities) {
			t.Fatalf("%s became %s, which reads as %+v", params, got, c)
		}
		if s, _ := jsonrpc.String(c.LogLevel); s != level || (c.LogLevel != nil) != (level != "") {
			t.Fatalf("log level: got %s, want %q", c.LogLevel, level)
		}
		if before := jsonrpc.Get(m.Meta, MetaProgressToken); !bytes.Equal(before, jsonrpc.Get(after.Meta, MetaProgressToken)) {
			t.Fatalf("%s became %s: the progress token changed", params, got)
		}
	})
}
