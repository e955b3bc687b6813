package negotiate

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
)

const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

func TestReadTrace(t *testing.T) {
	tests := []struct {
		name, params string
		want         Trace
	}{
		{"nothing", ``, Trace{}},
		{"no meta", `{"name":"traceparent"}`, Trace{}},
		{"in the arguments only", `{"arguments":{"_meta":{"traceparent":"` + parent + `"}}}`, Trace{}},
		{"all three", `{"_meta":{"traceparent":"` + parent + `","tracestate":"a=b","baggage":"k=v"}}`, Trace{parent, "a=b", "k=v"}},
		{"baggage alone", `{"_meta":{"baggage":"k=v"}}`, Trace{Baggage: "k=v"}},
		{"escaped", `{"_meta":{"tr\u0061ceparent":"` + parent + `"}}`, Trace{Parent: parent}},
		{"no string", `{"_meta":{"traceparent":7,"tracestate":[]}}`, Trace{}},
		{"twice", `{"_meta":{"traceparent":"a","traceparent":"b"}}`, Trace{Parent: "a"}},
		{"meta is no object", `{"_meta":"traceparent"}`, Trace{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := ReadTrace([]byte(tt.params)); got != tt.want {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
		})
	}
}

func TestWithTrace(t *testing.T) {
	full := Trace{Parent: parent, State: "a=b", Baggage: "not written"}
	tests := []struct {
		name, params string
		trace        Trace
		want         string
	}{
		{"no params", ``, full, `{"_meta":{"traceparent":"` + parent + `","tracestate":"a=b"}}`},
		{"no meta", `{ "name" : 1e0 }`, full, `{ "name" : 1e0,"_meta":{"traceparent":"` + parent + `","tracestate":"a=b"} }`},
		{"replaced", `{"_meta":{"traceparent":"x","progressToken":1.0,"tracestate":"y","baggage":"z"},"a":[ ]}`, full,
			`{"_meta":{"traceparent":"` + parent + `","progressToken":1.0,"tracestate":"a=b","baggage":"z"},"a":[ ]}`},
		{"the state of another parent goes", `{"_meta":{"tracestate":"y","b":2}}`, Trace{Parent: parent}, `{"_meta":{"b":2,"traceparent":"` + parent + `"}}`},
		{"no parent", `{"a":1}`, Trace{State: "a=b"}, `{"a":1}`},
		{"an array", `[1]`, full, `[1]`},
		{"meta is no object", `{"_meta":7}`, full, `{"_meta":7}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var params []byte
			if tt.params != "" {
				params = []byte(tt.params)
			}
			if got := WithTrace(params, tt.trace); string(got) != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

// What is written is what is read, the text is JSON, and nothing but the two members has changed.
func FuzzWithTrace(f *testing.F) {
	f.Add([]byte(`{"_meta":{"traceparent":"x"},"arguments":{"a":1}}`), parent, "a=b")
	f.Add([]byte(`{"_meta":{}}`), "p\"\\", "")
	f.Add([]byte(`{"a":{"_meta":1}}`), "p", "s")
	f.Fuzz(func(t *testing.T, params []byte, parent, state string) {
		line := jsonrpc.AppendNotification(nil, "x", params)
		m, bad := jsonrpc.Scan(line)
		if bad != nil || m.Params == nil || !jsonrpc.IsObject(m.Params) {
			t.Skip("no params of a message")
		}
		got := WithTrace(m.Params, Trace{Parent: parent, State: state})
		if !json.Valid(got) {
			t.Fatalf("no JSON: %s", got)
		}
		meta := jsonrpc.Get(m.Params, "_meta")
		if parent == "" || meta != nil && !jsonrpc.IsObject(meta) {
			if !bytes.Equal(got, m.Params) {
				t.Fatalf("changed to %s", got)
			}
			return
		}
		read := ReadTrace(got)
		want, _ := jsonrpc.String(jsonrpc.Quote(parent))
		wantState, _ := jsonrpc.String(jsonrpc.Quote(state))
		if read.Parent != want || read.State != wantState {
			t.Fatalf("read %+v from %s", read, got)
		}
		before := jsonrpc.Delete(jsonrpc.Delete(m.Params, "_meta", MetaTraceParent), "_meta", MetaTraceState)
		after := jsonrpc.Delete(jsonrpc.Delete(got, "_meta", MetaTraceParent), "_meta", MetaTraceState)
		if meta != nil && !bytes.Equal(bytes.Join(bytes.Fields(before), nil), bytes.Join(bytes.Fields(after), nil)) {
			t.Fatalf("more has changed: %s to %s", m.Params, got)
		}
	})
}

func TestNameOf(t *testing.T) {
	tests := []struct{ name, params, want string }{
		{"plain", `{"name":"echo","arguments":{"name":"x"}}`, "echo"},
		{"escaped", `{"name":"\u0065cho"}`, "echo"},
		{"last", `{"arguments":{"name":"x"}, "name" : "echo" }`, "echo"},
		{"no string", `{"name":7}`, ""},
		{"none", `{}`, ""},
		{"no params", ``, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := NameOf([]byte(tt.params), func(b []byte) string { return string(b) }); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
	params := []byte(`{"name":"echo","arguments":{"a":1}}`)
	known := map[string]string{"echo": "echo"}
	find := func(b []byte) string { return known[string(b)] }
	if n := testing.AllocsPerRun(100, func() { NameOf(params, find) }); n != 0 {
		t.Errorf("got %v allocations, want none", n)
	}
}

func TestListedNames(t *testing.T) {
	var got []string
	ListedNames([]byte(`{"tools":[{"name":"a"},{"title":"no name"},{"name":7},{"name":"\u0062"},{"name":"c"}],"prompts":[{"name":"p"}]}`), "tools", func(name string) bool {
		got = append(got, name)
		return name != "b"
	})
	if len(got) != 2 || got[0] != "a" || got[1] != "b" {
		t.Errorf("got %q, want a and b", got)
	}
}

func TestIsToolError(t *testing.T) {
	for text, want := range map[string]bool{
		`{"content":[],"isError":true}`:                  true,
		`{"isError" : true,"content":[]}`:                true,
		`{"isError":false}`:                              false,
		`{"content":[{"text":"\"isError\":true"}]}`:      false,
		`{"structuredContent":{"isError":true}}`:         false,
		`{"content":[{"type":"text","text":"isError"}]}`: false,
		``: false,
	} {
		if got := IsToolError([]byte(text)); got != want {
			t.Errorf("%s: got %v, want %v", text, got, want)
		}
	}
}
