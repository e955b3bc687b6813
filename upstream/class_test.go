package upstream

import (
	"bytes"
	"strings"
	"testing"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
)

func TestClassify(t *testing.T) {
	for _, test := range []struct {
		name, capabilities string
		masked             []string
		want               class
	}{
		{"nothing", ``, nil, ""},
		{"no capability", `{"experimental":{"x":{}}}`, nil, ""},
		{"empty elicitation", `{"elicitation":{}}`, nil, capForm},
		{"no mode that is known", `{"elicitation":{"x":{}}}`, nil, capForm},
		{"URLs", `{"elicitation":{"url":{}}}`, nil, capURL},
		{"both modes", `{"elicitation":{"url":{},"form":{}}}`, nil, capForm + "\n" + capURL},
		{"null is not declared", `{"elicitation":null,"roots":null,"sampling":null}`, nil, ""},
		{"order does not matter", `{"roots":{"listChanged":true},"sampling":{"tools":{},"context":{}}}`, nil, capRoots + "\n" + capSampling + "\n" + capContext + "\n" + capTools},
		{"extensions", `{"extensions":{"b/x":{"n": 1},"a\u002fx":{}}}`, nil, extensionMark + `"a/x"{}` + "\n" + extensionMark + `"b/x"{"n": 1}`},
		{"settings that are none", `{"extensions":{"a/x":true}}`, nil, extensionMark + `"a/x"{}`},
		{"the tasks extension", `{"extensions":{"io.modelcontextprotocol/tasks":{}}}`, nil, ""},
		{"too many extensions", `{"roots":{},"extensions":{"a/x":{"` + strings.Repeat("x", maxExtensions) + `":1}}}`, nil, capRoots},
		{"masked whole", `{"elicitation":{"form":{},"url":{}},"sampling":{"tools":{}},"roots":{}}`, []string{"elicitation", "sampling"}, capRoots},
		{"masked in part", `{"elicitation":{"form":{},"url":{}},"sampling":{"tools":{}}}`, []string{"elicitation.url", "sampling.tools"}, capForm + "\n" + capSampling},
		{"masked extension", `{"extensions":{"a/x":{},"b/x":{}}}`, []string{"a/x"}, extensionMark + `"b/x"{}`},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := classify([]byte(test.capabilities), test.masked); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// What is declared for a class is of that class, whatever a client has sent, and bounded.
func FuzzClassify(f *testing.F) {
	f.Add([]byte(`{"elicitation":{"url":{}},"sampling":{"tools":{},"context":null},"roots":{},"extensions":{"a/x":{"n":1.0},"a/x":{},"\"\\":{}}}`))
	f.Add([]byte("{\"extensions\":{\"a\\nb\":{\n\"x\":1}}}"))
	f.Fuzz(func(t *testing.T, capabilities []byte) {
		message := append(append([]byte(`{"jsonrpc":"2.0","method":"m","params":`), capabilities...), '}')
		m, refusal := jsonrpc.Scan(message)
		if refusal != nil {
			return
		}
		c := classify(m.Params, nil)
		declared := c.capabilities()
		if bytes.ContainsAny(declared, "\n") || len(declared) > 8*maxExtensions {
			t.Fatalf("declared %d bytes: %.200q", len(declared), declared)
		}
		if got := classify(declared, nil); got != c {
			t.Fatalf("got %q of %s, want %q", got, declared, c)
		}
	})
}

// The server's cursor comes back as it was.
func FuzzCursor(f *testing.F) {
	f.Add("next", uint64(1))
	f.Add("b1.2.x", uint64(1<<63))
	f.Fuzz(func(t *testing.T, cursor string, id uint64) {
		raw := jsonrpc.Quote(cursor)
		cursor, _ = jsonrpc.String(raw)
		if id == 0 {
			return
		}
		m := &member{id: id}
		sealed := m.seal("tools/list", exchange.Response{Result: jsonrpc.Set(nil, raw, "nextCursor")})
		params := jsonrpc.Set(nil, jsonrpc.Get(sealed.Result, "nextCursor"), "cursor")
		req, want := unseal(exchange.Request{Method: "tools/list", Params: params})
		if got, _ := jsonrpc.String(jsonrpc.Get(req.Params, "cursor")); got != cursor || want != id {
			t.Fatalf("got %q of %d, want %q of %d", got, want, cursor, id)
		}
	})
}
