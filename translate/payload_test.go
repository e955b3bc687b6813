package translate

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"testing"

	"github.com/mcp-dualstack/bridge/negotiate"
)

var revisions = []negotiate.Revision{
	negotiate.Rev20241105, negotiate.Rev20250326, negotiate.Rev20250618, negotiate.Rev20251125, negotiate.Rev20260728,
}

func payloadFor(client, server negotiate.Revision) *payload {
	return &payload{client: client, server: server, log: slog.New(slog.DiscardHandler)}
}

const (
	textB    = `{"type":"text","text":"a\u2028b","x":1.50}`
	audioB   = `{"type":"audio","data":"UklGRg==","mimeType":"audio/wav","annotations":{"priority":0.50},"x-more":[1.0]}`
	linkB    = `{"type":"resource_link","uri":"file:///a","name":"a.txt","title":"The A","mimeType":"text/plain","description":"one \"a\"","_meta":{"k":1e2}}`
	videoB   = `{"type":"video", "frames":[1.0, 2]}`
	audioRes = `{"type":"resource","annotations":{"priority":0.50},"x-more":[1.0],"resource":{"uri":"urn:bridge:audio:aa40ebcc97ccf9ef","mimeType":"audio/wav","blob":"UklGRg=="}}`
	linkT    = `{"type":"text","text":"The A\nfile:///a\ntext/plain\none \"a\"","_meta":{"k":1e2}}`
	videoT   = `{"type":"text","text":"{\"type\":\"video\",\"frames\":[1.0,2]}"}`
)

// TestResults shows every transform of results, for each client revision in front of the server named: the five
// wanted results are those of the clients from 2024-11-05 to 2026-07-28. "=" is the result as it was.
func TestResults(t *testing.T) {
	l3, m := negotiate.Rev20251125, negotiate.Rev20260728
	for _, tc := range []struct {
		name   string
		server negotiate.Revision
		method string
		in     string
		want   [5]string
	}{
		{
			"T1 T2 T3 blocks of a tool", l3, "tools/call",
			`{"content":[` + textB + ", " + audioB + `,` + linkB + ` ],"n":25.0}`,
			[5]string{
				`{"content":[` + textB + ", " + audioRes + `,` + linkT + ` ],"n":25.0}`,
				`{"content":[` + textB + ", " + audioB + `,` + linkT + ` ],"n":25.0}`,
				"=", "=",
				`{"content":[` + textB + ", " + audioB + `,` + linkB + ` ],"n":25.0,"resultType":"complete"}`,
			},
		},
		{
			"T3 unknown block", l3, "tools/call", `{"content":[` + videoB + `],"isError":false}`,
			[5]string{
				`{"content":[` + videoT + `],"isError":false}`, `{"content":[` + videoT + `],"isError":false}`,
				`{"content":[` + videoT + `],"isError":false}`, `{"content":[` + videoT + `],"isError":false}`,
				`{"content":[` + videoT + `],"isError":false,"resultType":"complete"}`,
			},
		},
		{
			"T1 T2 T3 in a prompt", l3, "prompts/get",
			`{"messages":[{"role":"user","content":` + audioB + `},{"role":"assistant","content":` + linkB + `}]}`,
			[5]string{
				`{"messages":[{"role":"user","content":` + audioRes + `},{"role":"assistant","content":` + linkT + `}]}`,
				`{"messages":[{"role":"user","content":` + audioB + `},{"role":"assistant","content":` + linkT + `}]}`,
				"=", "=",
				`{"messages":[{"role":"user","content":` + audioB + `},{"role":"assistant","content":` + linkB + `}],"resultType":"complete"}`,
			},
		},
		{
			"T4 T9 tools", l3, "tools/list",
			`{"tools":[{"name":"a","outputSchema":{"type":"array"},"inputSchema":{"type":"object"}}, {"name":"b","execution":{"taskSupport":"optional"},"icons":[]},{"name":"c","execution":{"taskSupport":"required"}}],"nextCursor":"2"}`,
			[5]string{
				`{"tools":[{"name":"a","inputSchema":{"type":"object"}}, {"name":"b","icons":[]}],"nextCursor":"2"}`,
				`{"tools":[{"name":"a","inputSchema":{"type":"object"}}, {"name":"b","icons":[]}],"nextCursor":"2"}`,
				`{"tools":[{"name":"a","inputSchema":{"type":"object"}}, {"name":"b","icons":[]}],"nextCursor":"2"}`,
				`{"tools":[{"name":"a","inputSchema":{"type":"object"}}, {"name":"b","execution":{"taskSupport":"optional"},"icons":[]},{"name":"c","execution":{"taskSupport":"required"}}],"nextCursor":"2"}`,
				`{"tools":[{"name":"a","outputSchema":{"type":"array"},"inputSchema":{"type":"object"}}, {"name":"b","icons":[]}],"nextCursor":"2","resultType":"complete","ttlMs":0,"cacheScope":"private"}`,
			},
		},
		{
			"T5 structured array", m, "tools/call", `{"content":[],"structuredContent":[1.0, {"a":2}],"resultType":"complete"}`,
			[5]string{
				`{"content":[{"type":"text","text":"[1.0,{\"a\":2}]"}]}`, `{"content":[{"type":"text","text":"[1.0,{\"a\":2}]"}]}`,
				`{"content":[{"type":"text","text":"[1.0,{\"a\":2}]"}]}`, `{"content":[{"type":"text","text":"[1.0,{\"a\":2}]"}]}`,
				"=",
			},
		},
		{
			"T5 with text beside it", m, "tools/call", `{"structuredContent":7,"content":[` + textB + `]}`,
			[5]string{
				`{"content":[` + textB + `]}`, `{"content":[` + textB + `]}`, `{"content":[` + textB + `]}`, `{"content":[` + textB + `]}`, "=",
			},
		},
		{
			"T6 no content", l3, "tools/call", `{"structuredContent":{"a":1.0}}`,
			[5]string{
				`{"structuredContent":{"a":1.0},"content":[{"type":"text","text":"{\"a\":1.0}"}]}`,
				`{"structuredContent":{"a":1.0},"content":[{"type":"text","text":"{\"a\":1.0}"}]}`,
				`{"structuredContent":{"a":1.0},"content":[{"type":"text","text":"{\"a\":1.0}"}]}`,
				`{"structuredContent":{"a":1.0},"content":[{"type":"text","text":"{\"a\":1.0}"}]}`,
				`{"structuredContent":{"a":1.0},"content":[{"type":"text","text":"{\"a\":1.0}"}],"resultType":"complete"}`,
			},
		},
		{
			"T6 content null", m, "tools/call", `{"content":null}`,
			[5]string{`{"content":[]}`, `{"content":[]}`, `{"content":[]}`, `{"content":[]}`, `{"content":[]}`},
		},
		{
			"T7 envelope", m, "resources/read",
			`{"resultType":"complete","contents":[],"ttlMs":5,"cacheScope":"public","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"s","version":"1"}}}`,
			[5]string{`{"contents":[]}`, `{"contents":[]}`, `{"contents":[]}`, `{"contents":[]}`, "="},
		},
		{
			"T7 keeps other meta", m, "prompts/list", `{"prompts":[],"_meta":{"io.mcp.x/y":1,"trace":"t"},"x":1e3}`,
			[5]string{
				`{"prompts":[],"_meta":{"trace":"t"},"x":1e3}`, `{"prompts":[],"_meta":{"trace":"t"},"x":1e3}`,
				`{"prompts":[],"_meta":{"trace":"t"},"x":1e3}`, `{"prompts":[],"_meta":{"trace":"t"},"x":1e3}`, "=",
			},
		},
		{
			"T8 invalid cache fields", negotiate.Rev20241105, "resources/list", `{"resources":[],"ttlMs":-1,"cacheScope":7}`,
			[5]string{"=", "=", "=", "=", `{"resources":[],"ttlMs":0,"cacheScope":"private","resultType":"complete"}`},
		},
		{
			"T8 valid cache fields", l3, "resources/read", `{"contents":[],"ttlMs":60000,"cacheScope":"public"}`,
			[5]string{"=", "=", "=", "=", `{"contents":[],"ttlMs":60000,"cacheScope":"public","resultType":"complete"}`},
		},
		{
			"not final", m, "tools/call", `{"resultType":"input_required","content":null,"requestState":"s"}`,
			[5]string{
				"=", "=", "=", "=", "=",
			},
		},
		{
			"a task", l3, "tools/call", `{"task":{"taskId":"1"}}`,
			[5]string{`{"task":{"taskId":"1"},"content":[]}`, `{"task":{"taskId":"1"},"content":[]}`, `{"task":{"taskId":"1"},"content":[]}`, "=",
				`{"task":{"taskId":"1"},"content":[],"resultType":"complete"}`},
		},
	} {
		for i, client := range revisions {
			want := tc.want[i]
			if want == "=" {
				want = tc.in
			}
			p := payloadFor(client, tc.server)
			if got := string(p.result(tc.method, []byte(tc.in))); got != want {
				t.Errorf("%s, %v client:\n got %s\nwant %s", tc.name, client, got, want)
			}
		}
	}
}

func TestServerInfoIsAdded(t *testing.T) {
	p := payloadFor(negotiate.Rev20260728, negotiate.Rev20250618)
	p.info = []byte(`{"name":"s","version":"1.0"}`)
	got := string(p.result("prompts/get", []byte(`{"messages":[],"_meta":{"k":1.0}}`)))
	want := `{"messages":[],"_meta":{"k":1.0,"io.modelcontextprotocol/serverInfo":{"name":"s","version":"1.0"}},"resultType":"complete"}`
	if got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestLargeUnknownBlockIsNamedOnly(t *testing.T) {
	in := `{"content":[{"type":"video","data":"` + strings.Repeat("x", maxShown) + `"}]}`
	got := string(payloadFor(negotiate.Rev20251125, negotiate.Rev20251125).result("tools/call", []byte(in)))
	want := `{"content":[{"type":"text","text":"[content of type video, 4122 bytes, which this client cannot show]"}]}`
	if got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestToolsThatHeadersCannotCallAreLeftOut(t *testing.T) {
	in := `{"tools":[{"name":"bad","inputSchema":{"properties":{"a":{"type":"number","x-mcp-header":"A"}}}},{"name":"good","inputSchema":{"properties":{"a":{"type":"string","x-mcp-header":"A"}}}}]}`
	p := payloadFor(negotiate.Rev20250618, negotiate.Rev20260728)
	if got := string(p.result("tools/list", []byte(in))); got != in {
		t.Errorf("on stdio: got %s, want it unchanged", got)
	}
	p.headers = true
	want := `{"tools":[{"name":"good","inputSchema":{"properties":{"a":{"type":"string","x-mcp-header":"A"}}}}]}`
	if got := string(p.result("tools/list", []byte(in))); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestQuestions shows T3, T10 and T11, with wants as in TestResults; "no" is a question that cannot be put.
func TestQuestions(t *testing.T) {
	const (
		array  = `{"messages":[{"role":"user","content":[{"type":"text","text":"a"}, {"type":"tool_use","id":"1"},` + audioB + `],"x":1.0}],"maxTokens":1e2}`
		toolT  = `{"type":"text","text":"{\"type\":\"tool_use\",\"id\":\"1\"}"}`
		soundT = `{"type":"text","text":"{\"type\":\"audio\",\"data\":\"UklGRg==\",\"mimeType\":\"audio/wav\",\"annotations\":{\"priority\":0.50},\"x-more\":[1.0]}","annotations":{"priority":0.50}}`
	)
	split := func(audio string) string {
		return `{"messages":[{"role":"user","content":{"type":"text","text":"a"},"x":1.0},{"role":"user","content":` + toolT +
			`,"x":1.0},{"role":"user","content":` + audio + `,"x":1.0}],"maxTokens":1e2}`
	}
	titled := `{"message":"m","requestedSchema":{"type":"object","properties":{"n":{"type":"number","default":1.0},"c":{"type":"string","oneOf":[{"const":"r","title":"Red"}, {"const":"g"}],"default":"r"}}}}`
	plain := `{"message":"m","requestedSchema":{"type":"object","properties":{"n":{"type":"number","default":1.0},"c":{"type":"string","default":"r","enum":["r","g"],"enumNames":["Red","g"]}}}}`
	several := `{"message":"m","requestedSchema":{"type":"object","properties":{"c":{"type":"array","items":{"enum":["a"]}}}}}`
	for _, tc := range []struct {
		name, method, in string
		want             [5]string
	}{
		{"T11", "sampling/createMessage", array, [5]string{split(soundT), split(audioB), split(audioB), "=", "="}},
		{"T3 single", "sampling/createMessage", `{"messages":[{"content":` + videoB + `}]}`, [5]string{
			`{"messages":[{"content":` + videoT + `}]}`, `{"messages":[{"content":` + videoT + `}]}`, `{"messages":[{"content":` + videoT + `}]}`,
			`{"messages":[{"content":` + videoT + `}]}`, `{"messages":[{"content":` + videoT + `}]}`,
		}},
		{"T10", "elicitation/create", titled, [5]string{plain, plain, plain, "=", "="}},
		{"T10 several choices", "elicitation/create", several, [5]string{"no", "no", "no", "=", "="}},
		{"roots", "roots/list", `{"x":1.0}`, [5]string{"=", "=", "=", "=", "="}},
	} {
		for i, client := range revisions {
			want := tc.want[i]
			if want == "=" {
				want = tc.in
			}
			out, ok := payloadFor(client, negotiate.Rev20260728).question(tc.method, []byte(tc.in))
			got := string(out)
			if !ok {
				got = "no"
			}
			if got != want {
				t.Errorf("%s, %v client:\n got %s\nwant %s", tc.name, client, got, want)
			}
		}
	}
}

func TestElicitationID(t *testing.T) {
	a, id := withElicitationID([]byte(`{"mode":"url","url":"https://x"}`))
	_, other := withElicitationID(nil)
	if want := `{"mode":"url","url":"https://x","elicitationId":"` + id + `"}`; string(a) != want {
		t.Errorf("got %s, want %s", a, want)
	}
	if len(id) != 36 || id[14] != '4' || id == other {
		t.Errorf("got %s and %s, want two random UUIDs", id, other)
	}
}

// untouched has a result per method that every revision defines completely.
var untouched = []struct{ method, result string }{
	{"tools/call", `{"content":[{"type":"text","text":"a"},{"type":"image","data":"AA==","mimeType":"image/png"},{"type":"resource","resource":{"uri":"a:b","text":""}}],"isError":false}`},
	{"tools/list", `{"tools":[{"name":"a","inputSchema":{"type":"object","properties":{"a":{"type":"string"}}}},{"name":"b","inputSchema":{"type":"object"}}]}`},
	{"prompts/get", `{"messages":[{"role":"user","content":{"type":"text","text":"a"}}]}`},
	{"resources/read", `{"contents":[{"uri":"a:b","text":"x"}]}`},
	{"x/unknown", `{"content":[{"type":"video"}]}`},
}

// TestUntouched: what the client's revision defines comes back as the slice it was, and costs nothing.
func TestUntouched(t *testing.T) {
	for _, client := range revisions {
		server := negotiate.Rev20251125
		if client.Modern() {
			server = client
		}
		p := payloadFor(client, server)
		for _, tc := range untouched {
			in := []byte(tc.result)
			if got := p.result(tc.method, in); !same(got, in) {
				t.Errorf("%s for %v: got %s", tc.method, client, got)
			}
			if n := testing.AllocsPerRun(100, func() { p.result(tc.method, in) }); n != 0 {
				t.Errorf("%s for %v: got %v allocations, want 0", tc.method, client, n)
			}
		}
	}
}

var methods = []string{"tools/call", "tools/list", "prompts/get", "resources/read"}

// FuzzResults: the output is JSON when the input is, a second run changes nothing, and what was legal for
// all stays the slice it was.
func FuzzResults(f *testing.F) {
	for _, tc := range untouched {
		f.Add([]byte(tc.result))
	}
	f.Add([]byte(`{"content":[` + audioB + `,` + linkB + `,` + videoB + `, 7, null],"structuredContent":[1],"_meta":{"io.mcp/x":1}}`))
	f.Add([]byte(`{"tools":[{"execution":{"taskSupport":"required"}}, {"outputSchema":true}], "ttlMs":1}`))
	f.Add([]byte(`{"messages":[{"content":[{"type":"text"},{"type":"audio","data":"a"}]},{"content":{"type":"resource_link"}}]}`))
	f.Add([]byte(`{"c\u006fntent":[{"type":"vide\u006f"}], "content" : [ ]}`))
	f.Fuzz(func(t *testing.T, in []byte) {
		if !json.Valid(in) || !bytes.HasPrefix(in, []byte("{")) {
			t.Skip()
		}
		before := bytes.Clone(in)
		for _, client := range revisions {
			for _, server := range revisions {
				p := payloadFor(client, server)
				for _, method := range methods {
					out := p.result(method, in)
					if !json.Valid(out) {
						t.Fatalf("%s, %v in front of %v: not JSON: %s", method, client, server, out)
					}
					if again := p.result(method, out); !same(again, out) {
						t.Fatalf("%s, %v in front of %v: %s changes again to %s", method, client, server, out, again)
					}
				}
				for _, method := range []string{"sampling/createMessage", "elicitation/create"} {
					out, ok := p.question(method, in)
					if !json.Valid(out) {
						t.Fatalf("%s, %v: not JSON: %s", method, client, out)
					}
					if again, _ := p.question(method, out); ok && !same(again, out) {
						t.Fatalf("%s, %v: %s changes again to %s", method, client, out, again)
					}
				}
			}
		}
		if !bytes.Equal(before, in) {
			t.Fatalf("the input was changed to %s", in)
		}
	})
}

// TestCostIsLinear: what a large message of many parts costs grows as it does, not as its square.
func TestCostIsLinear(t *testing.T) {
	const parts = 1000
	list := func(part string) string { return strings.Repeat(part+",", parts) + part }
	fields := func(field string) string {
		var all []string
		for i := range parts {
			all = append(all, fmt.Sprintf(`"f%d":%s`, i, field))
		}
		return strings.Join(all, ",")
	}
	for _, tc := range []struct{ name, method, in string }{
		{"T1", "tools/call", `{"content":[` + list(audioB) + `]}`},
		{"T2", "tools/call", `{"content":[` + list(linkB) + `]}`},
		{"T3", "tools/call", `{"content":[` + list(videoB) + `]}`},
		{"T4", "tools/list", `{"tools":[` + list(`{"name":"a","outputSchema":true,"execution":{}}`) + `]}`},
		{"prompt", "prompts/get", `{"messages":[` + list(`{"role":"user","content":`+audioB+`}`) + `]}`},
		{"T10", "elicitation/create", `{"requestedSchema":{"type":"object","properties":{` + fields(`{"type":"string","oneOf":[{"const":"x"}]}`) + `}}}`},
		{"T11", "sampling/createMessage", `{"messages":[{"role":"user","content":[` + list(textB) + `]}]}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p, in := payloadFor(negotiate.Rev20241105, negotiate.Rev20251125), []byte(tc.in)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			if strings.Contains(tc.method, "create") {
				out, ok := p.question(tc.method, in)
				if same(out, in) || !ok {
					t.Errorf("nothing changed, or %v", ok)
				}
			} else if same(p.result(tc.method, in), in) {
				t.Error("nothing changed")
			}
			runtime.ReadMemStats(&after)
			if got, most := after.TotalAlloc-before.TotalAlloc, uint64(60*len(in)); got > most {
				t.Errorf("got %d bytes for %d, want at most %d", got, len(in), most)
			}
		})
	}
}

func BenchmarkResults(b *testing.B) {
	sizes := []struct {
		name  string
		bytes int
	}{{"1KiB", 1 << 10}, {"64KiB", 64 << 10}, {"1MiB", 1 << 20}}
	wide := func(block string, size int) string { return strings.Repeat(block+",", max(1, size/len(block))) + textB }
	for _, size := range sizes {
		filler := strings.Repeat("x", size.bytes)
		for _, tc := range []struct{ name, method, result string }{
			{"identity", "tools/call", `{"content":[{"type":"text","text":"` + filler + `"}]}`},
			{"T1", "tools/call", `{"content":[{"type":"audio","mimeType":"a/b","data":"` + filler + `"}]}`},
			{"T2", "tools/call", `{"content":[` + wide(linkB, size.bytes) + `]}`},
			{"T3", "tools/call", `{"content":[` + wide(videoB, size.bytes) + `]}`},
			{"T4", "tools/list", `{"tools":[{"name":"a","description":"` + filler + `","outputSchema":{"type":"array"}}]}`},
			{"T5", "tools/call", `{"content":[],"structuredContent":["` + filler + `"]}`},
			{"T6", "tools/call", `{"structuredContent":{"a":"` + filler + `"}}`},
			{"T9", "tools/list", `{"tools":[{"name":"a","description":"` + filler + `","execution":{}}]}`},
		} {
			b.Run(tc.name+"/"+size.name, func(b *testing.B) {
				p, in := payloadFor(negotiate.Rev20241105, negotiate.Rev20251125), []byte(tc.result)
				b.SetBytes(int64(len(in)))
				b.ReportAllocs()
				for b.Loop() {
					p.result(tc.method, in)
				}
			})
		}
		b.Run("T7/"+size.name, func(b *testing.B) {
			p := payloadFor(negotiate.Rev20241105, negotiate.Rev20260728)
			in := []byte(`{"resultType":"complete","contents":[{"uri":"a:b","text":"` + filler + `"}],"ttlMs":0,"cacheScope":"private"}`)
			b.SetBytes(int64(len(in)))
			b.ReportAllocs()
			for b.Loop() {
				p.result("resources/read", in)
			}
		})
		b.Run("T8/"+size.name, func(b *testing.B) {
			p := payloadFor(negotiate.Rev20260728, negotiate.Rev20251125)
			in := []byte(`{"contents":[{"uri":"a:b","text":"` + filler + `"}]}`)
			b.SetBytes(int64(len(in)))
			b.ReportAllocs()
			for b.Loop() {
				p.result("resources/read", in)
			}
		})
		described := `"description":"` + filler + `"`
		for _, tc := range []struct{ name, method, params string }{
			{"T10", "elicitation/create", `{"message":"m","requestedSchema":{"type":"object","properties":{"a":{"type":"string",` + described + `},` +
				`"b":{"type":"string","oneOf":[{"const":"x","title":"X"},{"const":"y"}]}}}}`},
			{"T11", "sampling/createMessage", `{"messages":[{"role":"user","content":[` + wide(textB, size.bytes) + `]}],"maxTokens":9}`},
			{"question identity", "sampling/createMessage", `{"messages":[{"role":"user","content":{"type":"text","text":"` + filler + `"}}],"maxTokens":9}`},
		} {
			b.Run(tc.name+"/"+size.name, func(b *testing.B) {
				p, in := payloadFor(negotiate.Rev20250618, negotiate.Rev20251125), []byte(tc.params)
				b.SetBytes(int64(len(in)))
				b.ReportAllocs()
				for b.Loop() {
					p.question(tc.method, in)
				}
			})
		}
		b.Run("T12/"+size.name, func(b *testing.B) {
			in := []byte(`{"mode":"url","url":"https://a.test/","message":"` + filler + `"}`)
			b.SetBytes(int64(len(in)))
			b.ReportAllocs()
			for b.Loop() {
				withElicitationID(in)
			}
		})
	}
}
