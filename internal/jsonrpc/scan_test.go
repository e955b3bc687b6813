package jsonrpc_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
)

// seen is what a test states of a message.
type seen struct {
	Kind                                  jsonrpc.Kind
	ID, Method, Params, Meta, Result, Raw string
	Code                                  int // of the error response
	Text, Data                            string
}

func see(m jsonrpc.Message) seen {
	s := seen{Kind: m.Kind, ID: string(m.ID), Method: m.Method, Params: string(m.Params), Meta: string(m.Meta),
		Result: string(m.Result), Raw: string(m.Raw)}
	if m.Error != nil {
		s.Code, s.Text, s.Data = m.Error.Code, m.Error.Message, string(m.Error.Data)
	}
	return s
}

func TestScan(t *testing.T) {
	tests := []struct {
		name, text string
		want       seen // Raw is left out where it is the text
	}{
		{"request", `{"jsonrpc":"2.0","id":1,"method":"ping"}`,
			seen{Kind: jsonrpc.Request, ID: "1", Method: "ping"}},
		{"request with params and meta", `{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"name":"x","_meta":{"progressToken": 7}}}`,
			seen{Kind: jsonrpc.Request, ID: `"a"`, Method: "tools/call", Params: `{"name":"x","_meta":{"progressToken": 7}}`, Meta: `{"progressToken": 7}`}},
		{"notification", `{"method":"notifications/x","jsonrpc":"2.0"}`,
			seen{Kind: jsonrpc.Notification, Method: "notifications/x"}},
		{"null params read as absent", `{"jsonrpc":"2.0","id":1,"method":"ping","params":null}`,
			seen{Kind: jsonrpc.Request, ID: "1", Method: "ping"}},
		{"array params", `{"jsonrpc":"2.0","id":1,"method":"x","params":[1]}`,
			seen{Kind: jsonrpc.Request, ID: "1", Method: "x", Params: "[1]"}},
		{"meta that is no object", `{"jsonrpc":"2.0","id":1,"method":"x","params":{"_meta":[1]}}`,
			seen{Kind: jsonrpc.Request, ID: "1", Method: "x", Params: `{"_meta":[1]}`}},
		{"result", `{"jsonrpc":"2.0","id":1,"result":{"a":1.0}}`,
			seen{Kind: jsonrpc.Response, ID: "1", Result: `{"a":1.0}`}},
		{"null result", `{"jsonrpc":"2.0","id":1,"result":null}`,
			seen{Kind: jsonrpc.Response, ID: "1", Result: `null`}},
		{"error", `{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"caf\u00e9","data":{"x":1}}}`,
			seen{Kind: jsonrpc.Response, ID: "1", Code: -32601, Text: "café", Data: `{"x":1}`}},
		{"error without id", `{"jsonrpc":"2.0","error":{"code":1,"message":"m"}}`,
			seen{Kind: jsonrpc.Response, Code: 1, Text: "m"}},
		{"error with null id", `{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"m"}}`,
			seen{Kind: jsonrpc.Response, Code: 1, Text: "m"}},
		{"error members of other types", `{"jsonrpc":"2.0","id":1,"error":{"code":1e3,"message":5}}`,
			seen{Kind: jsonrpc.Response, ID: "1"}},
		{"error code beyond int", `{"jsonrpc":"2.0","id":1,"error":{"code":99999999999999999999,"message":"m"}}`,
			seen{Kind: jsonrpc.Response, ID: "1", Text: "m"}},
		{"blanks around", " \r\n{\"jsonrpc\":\"2.0\",\t\"id\" : 1 ,\"method\":\"x\"}\n",
			seen{Kind: jsonrpc.Request, ID: "1", Method: "x", Raw: "{\"jsonrpc\":\"2.0\",\t\"id\" : 1 ,\"method\":\"x\"}"}},
		{"names written with escapes", `{"json\u0072pc":"\u0032.0","id":1,"\u006dethod":"pi\u006eg","params":{"_m\u0065ta":{}}}`,
			seen{Kind: jsonrpc.Request, ID: "1", Method: "ping", Params: `{"_m\u0065ta":{}}`, Meta: "{}"}},
		{"lone surrogate in payload", `{"jsonrpc":"2.0","id":"\ud800","method":"x","params":{"t":"\udc00"}}`,
			seen{Kind: jsonrpc.Request, ID: `"\ud800"`, Method: "x", Params: `{"t":"\udc00"}`}},
		{"duplicates in payload", `{"jsonrpc":"2.0","id":1,"x":1,"x":2,"method":"m","params":{"a":1,"a":2,"arguments":{"name":1,"name":2},"_meta":{"k":1,"k":2}}}`,
			seen{Kind: jsonrpc.Request, ID: "1", Method: "m", Params: `{"a":1,"a":2,"arguments":{"name":1,"name":2},"_meta":{"k":1,"k":2}}`, Meta: `{"k":1,"k":2}`}},
		{"names in other case in payload", `{"jsonrpc":"2.0","id":1,"method":"m","params":{"ID":1,"Name":1,"name":2}}`,
			seen{Kind: jsonrpc.Request, ID: "1", Method: "m", Params: `{"ID":1,"Name":1,"name":2}`}},
		{"params of a response are payload", `{"jsonrpc":"2.0","id":1,"result":{},"params":{"a":1}}`,
			seen{Kind: jsonrpc.Response, ID: "1", Result: "{}"}},
		{"unknown member first", `{"":[{},[],"]}",1e-5,true,false,null],"jsonrpc":"2.0","id":1,"method":"m"}`,
			seen{Kind: jsonrpc.Request, ID: "1", Method: "m"}},
		{"empty method", `{"jsonrpc":"2.0","id":1,"method":""}`,
			seen{Kind: jsonrpc.Request, ID: "1"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m, err := jsonrpc.Scan([]byte(tt.text))
			if err != nil {
				t.Fatal(err)
			}
			if tt.want.Raw == "" {
				tt.want.Raw = tt.text
			}
			if diff := cmp.Diff(tt.want, see(m)); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}

func TestScanKeepsIDs(t *testing.T) {
	for _, id := range []string{`1`, `0`, `-0`, `-5`, `9007199254740993`, `18446744073709551615`, `123456789012345678901234567890`,
		`"1"`, `""`, `"007"`, `"1e3"`, `"a\u0062\n"`, `"\"}"`} {
		m, err := jsonrpc.Scan([]byte(`{"jsonrpc":"2.0","id":` + id + `,"method":"x"}`))
		if err != nil || string(m.ID) != id {
			t.Errorf("id %s: got %s, %v", id, m.ID, err)
		}
	}
}

func TestScanRefusesIDs(t *testing.T) {
	for _, id := range []string{`null`, `true`, `false`, `[1]`, `{}`, `1.0`, `3.14`, `1e2`, `1E2`, `-1.5`, `0e0`} {
		for _, rest := range []string{`"method":"x"`, `"result":{}`} {
			m, err := jsonrpc.Scan([]byte(`{"jsonrpc":"2.0","id":` + id + `,` + rest + `}`))
			if err == nil || err.Code != jsonrpc.CodeInvalidRequest || m.ID != nil {
				t.Errorf("id %s, %s: got id %s, error %v", id, rest, m.ID, err)
			}
		}
	}
}

func TestScanRefuses(t *testing.T) {
	const parse, invalid = jsonrpc.CodeParse, jsonrpc.CodeInvalidRequest
	tests := []struct {
		name, text string
		code       int
		id         string       // what the refusal may carry
		kind       jsonrpc.Kind // as far as known
	}{
		{"empty", ``, parse, "", 0},
		{"blanks", " \n", parse, "", 0},
		{"byte order mark", "\ufeff" + `{"jsonrpc":"2.0","id":1,"method":"x"}`, parse, "", 0},
		{"cut off", `{"jsonrpc":"2.0","id":1,"method":"x"`, parse, "", 0},
		{"second value", `{"jsonrpc":"2.0","id":1,"method":"x"}{}`, parse, "", 0},
		{"bytes after", `{"jsonrpc":"2.0","id":1,"method":"x"}x`, parse, "", 0},
		{"form feed", "{\"jsonrpc\":\"2.0\",\f\"id\":1,\"method\":\"x\"}", parse, "", 0},
		{"comma at the end", `{"jsonrpc":"2.0","id":1,"method":"x",}`, parse, "", 0},
		{"no colon", `{"jsonrpc" "2.0"}`, parse, "", 0},
		{"control character in string", "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"x\n\"}", parse, "", 0},
		{"bad escape", `{"jsonrpc":"2.0","id":1,"method":"\x"}`, parse, "", 0},
		{"bad number", `{"jsonrpc":"2.0","id":01,"method":"x"}`, parse, "", 0},
		{"broken UTF-8", "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"x\",\"params\":{\"a\":\"\xff\"}}", parse, "", 0},
		{"encoded surrogate", "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"x\",\"params\":{\"a\":\"\xed\xa0\x80\"}}", parse, "", 0},
		{"parse error beats the rest", `{"id":null,"id":1}]`, parse, "", 0},

		{"array", `[]`, invalid, "", 0},
		{"string", `"x"`, invalid, "", 0},
		{"null", `null`, invalid, "", 0},
		{"no version", `{"id":1,"method":"x"}`, invalid, "1", jsonrpc.Request},
		{"version as number", `{"jsonrpc":2.0,"id":1,"method":"x"}`, invalid, "1", jsonrpc.Request},
		{"other version", `{"jsonrpc":"2.00","id":"a","method":"x"}`, invalid, `"a"`, jsonrpc.Request},
		{"version in other case", `{"JSONRPC":"2.0","id":1,"method":"x"}`, invalid, "1", jsonrpc.Request},
		{"method in other case", `{"jsonrpc":"2.0","id":1,"Method":"x"}`, invalid, "1", jsonrpc.Request},
		{"method twice by case", `{"jsonrpc":"2.0","id":1,"method":"x","METHOD":"y"}`, invalid, "1", jsonrpc.Request},
		{"params with a long s", "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"x\",\"param\u017f\":{}}", invalid, "1", jsonrpc.Request},
		{"id in other case", `{"jsonrpc":"2.0","id":1,"Id":2,"method":"x"}`, invalid, "", jsonrpc.Request},
		{"id twice", `{"jsonrpc":"2.0","id":1,"id":1,"method":"x"}`, invalid, "", jsonrpc.Request},
		{"id twice by escape", `{"jsonrpc":"2.0","id":1,"i\u0064":2,"method":"x"}`, invalid, "", jsonrpc.Request},
		{"version twice", `{"jsonrpc":"2.0","jsonrpc":"2.0","id":1,"method":"x"}`, invalid, "1", jsonrpc.Request},
		{"method twice", `{"jsonrpc":"2.0","id":1,"method":"x","method":"y"}`, invalid, "1", jsonrpc.Request},
		{"params twice", `{"jsonrpc":"2.0","id":1,"method":"x","params":{},"params":{}}`, invalid, "1", jsonrpc.Request},
		{"result twice", `{"jsonrpc":"2.0","id":1,"result":{},"result":{}}`, invalid, "", jsonrpc.Response},
		{"error twice", `{"jsonrpc":"2.0","id":1,"error":{},"error":{}}`, invalid, "", jsonrpc.Response},
		{"method and result", `{"jsonrpc":"2.0","id":1,"method":"x","result":{}}`, invalid, "", 0},
		{"method and error", `{"jsonrpc":"2.0","id":1,"method":"x","error":null}`, invalid, "", 0},
		{"result and error", `{"jsonrpc":"2.0","id":1,"result":{},"error":{}}`, invalid, "", jsonrpc.Response},
		{"none of the three", `{"jsonrpc":"2.0","id":1}`, invalid, "1", jsonrpc.Request},
		{"method no string", `{"jsonrpc":"2.0","id":1,"method":1}`, invalid, "1", jsonrpc.Request},
		{"params string", `{"jsonrpc":"2.0","id":1,"method":"x","params":"{}"}`, invalid, "1", jsonrpc.Request},
		{"params number", `{"jsonrpc":"2.0","id":1,"method":"x","params":5}`, invalid, "1", jsonrpc.Request},
		{"error string", `{"jsonrpc":"2.0","id":1,"error":"x"}`, invalid, "", jsonrpc.Response},
		{"error null", `{"jsonrpc":"2.0","id":1,"error":null}`, invalid, "", jsonrpc.Response},
		{"result without id", `{"jsonrpc":"2.0","result":{}}`, invalid, "", jsonrpc.Response},
		{"error with a fractional id", `{"jsonrpc":"2.0","id":1.5,"error":{}}`, invalid, "", jsonrpc.Response},
		{"progress token twice", `{"jsonrpc":"2.0","id":1,"method":"x","params":{"_meta":{"progressToken":1,"progressToken":1}}}`, invalid, "1", jsonrpc.Request},
		{"reserved key twice", `{"jsonrpc":"2.0","id":1,"method":"x","params":{"_meta":{"io.modelcontextprotocol/x":1,"io.modelcontextprotocol\/x":1}}}`, invalid, "1", jsonrpc.Request},
		{"in a notification", `{"jsonrpc":"2.0","method":"x","params":{"uri":1,"uri":1}}`, invalid, "", jsonrpc.Notification},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m, err := jsonrpc.Scan([]byte(tt.text))
			if err == nil || err.Code != tt.code {
				t.Fatalf("got error %v, want code %d", err, tt.code)
			}
			if string(m.ID) != tt.id || m.Kind != tt.kind {
				t.Errorf("got id %s, kind %d, want %s, %d", m.ID, m.Kind, tt.id, tt.kind)
			}
		})
	}
}

func TestScanRefusesDuplicateDecidingMembers(t *testing.T) {
	for _, name := range []string{"_meta", "name", "uri", "taskId", "protocolVersion", "capabilities", "requestState", "inputResponses"} {
		text := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"x","params":{%q:1,"a":{},%q:{}}}`, name, name)
		m, err := jsonrpc.Scan([]byte(text))
		if err == nil || err.Code != jsonrpc.CodeInvalidRequest || string(m.ID) != "1" {
			t.Errorf("%s: got id %s, error %v", name, m.ID, err)
		}
	}
}

// The set of keys seen in _meta changes its form as it grows.
func TestScanManyReservedKeys(t *testing.T) {
	var keys []string
	for n := range 40 {
		keys = append(keys, fmt.Sprintf(`"io.modelcontextprotocol/%d":1`, n))
	}
	text := func(keys []string) []byte {
		return []byte(`{"jsonrpc":"2.0","id":1,"method":"x","params":{"_meta":{` + strings.Join(keys, ",") + `}}}`)
	}
	if _, err := jsonrpc.Scan(text(keys)); err != nil {
		t.Error(err)
	}
	for n := range keys {
		if _, err := jsonrpc.Scan(text(append(keys[:len(keys):len(keys)], keys[n]))); err == nil {
			t.Errorf("second key %d passed", n)
		}
	}
}

func TestDepth(t *testing.T) {
	// The envelope and params are two levels.
	nested := func(n int, in, out string) string {
		return strings.Repeat(in, n) + "1" + strings.Repeat(out, n)
	}
	for _, tt := range []struct{ in, out string }{{"[", "]"}, {`{"a":`, "}"}, {"[[", "]]"}} {
		levels := strings.Count(tt.in, "[") + strings.Count(tt.in, "{")
		for n, want := range map[int]bool{(jsonrpc.MaxDepth - 2) / levels: true, (jsonrpc.MaxDepth-2)/levels + 1: false} {
			_, err := jsonrpc.Scan([]byte(`{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":` + nested(n, tt.in, tt.out) + `}}`))
			if (err == nil) != want {
				t.Errorf("%d levels of %s: got %v", n*levels+2, tt.in, err)
			}
		}
	}
	if _, err := jsonrpc.Scan([]byte(strings.Repeat("[", 1<<20))); err == nil || err.Code != jsonrpc.CodeParse {
		t.Errorf("a megabyte of brackets: got %v", err)
	}
	// Width is not depth.
	if _, err := jsonrpc.Scan([]byte(`{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":[` + strings.Repeat("[{}],", 2000) + `1]}}`)); err != nil {
		t.Error(err)
	}
}

func TestScanRefusesEveryPrefix(t *testing.T) {
	text := []byte(`{"jsonrpc":"2.0", "id":-12, "params":{"_meta":{"progressToken":1.5e+3,"a":[true,false,null,{}]},"\u00e9":"\n"},"method":"x"}`)
	if _, err := jsonrpc.Scan(text); err != nil {
		t.Fatal(err)
	}
	for n := range text {
		for _, cut := range [][]byte{text[:n], append(text[:n:n], ' ')} {
			if _, err := jsonrpc.Scan(cut); err == nil || err.Code != jsonrpc.CodeParse {
				t.Errorf("%s: got %v", cut, err)
			}
		}
	}
}

// Strings are looked through eight bytes at a time, so every byte is tried in every place.
func TestScanStrings(t *testing.T) {
	for c := range 0x80 {
		for at := range 20 {
			inner := strings.Repeat("~", at) + string(rune(c)) + strings.Repeat("~", 20-at)
			text := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"x","params":["%s"]}`, inner)
			_, err := jsonrpc.Scan([]byte(text))
			if want := c >= ' ' && c != '"' && c != '\\'; (err == nil) != want {
				t.Fatalf("byte %#x at %d: got %v", c, at, err)
			}
		}
	}
	for _, esc := range []string{`\u000g`, `\u00g0`, `\u0g00`, `\ug000`, `\u000`, `\U0000`, `\'`, `\0`, `\v`, "\\\n", "\\é"} {
		text := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"x","params":["%s"]}`, esc)
		if _, err := jsonrpc.Scan([]byte(text)); err == nil {
			t.Errorf("%s passed", esc)
		}
	}
}

// What Scan returns must not let an append write over what follows it in the text.
func TestScanClips(t *testing.T) {
	text := []byte(`{"jsonrpc":"2.0","id":1,"method":"x","params":{"_meta":{}}}`)
	before := string(text)
	m, err := jsonrpc.Scan(text)
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range [][]byte{m.ID, m.Params, m.Meta, m.Raw, jsonrpc.Get(m.Params, "_meta")} {
		_ = append(b, 'x')
	}
	if string(text) != before {
		t.Errorf("got %s", text)
	}
}

func TestSplit(t *testing.T) {
	many := func(n int) string { return "[" + strings.TrimSuffix(strings.Repeat("1,", n), ",") + "]" }
	tests := []struct {
		name, text string
		want       []string
		code       int
	}{
		{"two", ` [ {"a":[1,2]} , "]" ] `, []string{`{"a":[1,2]}`, `"]"`}, 0},
		{"64", many(64), strings.Split(strings.Trim(many(64), "[]"), ","), 0},
		{"65", many(65), nil, jsonrpc.CodeInvalidRequest},
		{"65 and then broken", many(65) + "x", nil, jsonrpc.CodeParse},
		{"empty", `[ ]`, nil, jsonrpc.CodeInvalidRequest},
		{"object", `{}`, nil, jsonrpc.CodeInvalidRequest},
		{"nothing", ``, nil, jsonrpc.CodeParse},
		{"cut off", `[1,`, nil, jsonrpc.CodeParse},
		{"comma", `[1,]`, nil, jsonrpc.CodeParse},
		{"after", `[1]]`, nil, jsonrpc.CodeParse},
		{"broken UTF-8", "[\"\xc0\"]", nil, jsonrpc.CodeParse},
		{"deep", strings.Repeat("[", 513) + strings.Repeat("]", 513), nil, jsonrpc.CodeParse},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			elems, err := jsonrpc.Split([]byte(tt.text))
			code := 0
			if err != nil {
				code = err.Code
			}
			var got []string
			for _, e := range elems {
				got = append(got, string(e))
			}
			if diff := cmp.Diff(tt.want, got); diff != "" || code != tt.code {
				t.Errorf("got code %d, want %d; elements -want +got\n%s", code, tt.code, diff)
			}
		})
	}
}
