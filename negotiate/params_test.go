package negotiate_test

import (
	"math/big"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
	. "github.com/mcp-dualstack/bridge/negotiate"
)

func TestReadParams(t *testing.T) {
	tests := []struct {
		name, schema string
		want         []Param
	}{
		{"the example of the specification", `{"type":"object","properties":{"region":{"type":"string","description":"d","x-mcp-header":"Region"},"query":{"type":"string"}},"required":["region","query"]}`,
			[]Param{{[]string{"region"}, "Mcp-Param-Region", "string"}}},
		{"all types", `{"properties":{"s":{"type":"string","x-mcp-header":"s"},"i":{"x-mcp-header":"i","type":"integer"},"b":{"type":"boolean","x-mcp-header":"x-B"}}}`,
			[]Param{{[]string{"s"}, "Mcp-Param-S", "string"}, {[]string{"i"}, "Mcp-Param-I", "integer"}, {[]string{"b"}, "Mcp-Param-X-B", "boolean"}}},
		{"nested", `{"properties":{"a":{"type":"object","properties":{"b":{"properties":{"c":{"type":"string","x-mcp-header":"C"},"d":{"type":"string","x-mcp-header":"D"}}}}}}}`,
			[]Param{{[]string{"a", "b", "c"}, "Mcp-Param-C", "string"}, {[]string{"a", "b", "d"}, "Mcp-Param-D", "string"}}},
		{"name of a standard header", `{"properties":{"a":{"type":"string","x-mcp-header":"Method"}}}`, []Param{{[]string{"a"}, "Mcp-Param-Method", "string"}}},
		{"all token characters", "{\"properties\":{\"a\":{\"type\":\"string\",\"x-mcp-header\":\"!#$%&'*+-.^_`|~09\"}}}", []Param{{[]string{"a"}, "Mcp-Param-!#$%&'*+-.^_`|~09", "string"}}},
		{"ends of the alphabet", `{"properties":{"a":{"type":"string","x-mcp-header":"azAZ"}}}`, []Param{{[]string{"a"}, "Mcp-Param-Azaz", "string"}}},
		{"properties no object", `{"properties":["x-mcp-header"]}`, nil},
		{"keyword and name written with escapes", `{"properties":{"\u0061":{"type":"string","x-mcp-\u0068eader":"R\u0065gion"}}}`, []Param{{[]string{"a"}, "Mcp-Param-Region", "string"}}},
		{"a property of that name", `{"properties":{"x-mcp-header":{"type":"string"}}}`, nil},
		{"a property of that name with one", `{"properties":{"x-mcp-header":{"type":"string","x-mcp-header":"A"}}}`, []Param{{[]string{"x-mcp-header"}, "Mcp-Param-A", "string"}}},
		{"a property called properties", `{"properties":{"properties":{"properties":{"a":{"type":"string","x-mcp-header":"A"}}}}}`, []Param{{[]string{"properties", "a"}, "Mcp-Param-A", "string"}}},
		{"values that are no schemas", `{"properties":{"a":{"default":{"x-mcp-header":"A"},"const":{"x-mcp-header":""},"enum":[{"x-mcp-header":1}],"examples":[{"x-mcp-header":"A"}]}}}`, nil},
		{"text", `{"description":"see x-mcp-header","properties":{"a":{"title":"x-mcp-header"}}}`, nil},
		{"none", `{"type":"object"}`, nil},
		{"true", `true`, nil},
		{"absent", ``, nil},
	}
	for _, tt := range tests {
		got, ok := ReadParams([]byte(tt.schema))
		if diff := cmp.Diff(got, tt.want); diff != "" || !ok {
			t.Errorf("%s: ok %v, got -, want +\n%s", tt.name, ok, diff)
		}
	}
}

func TestReadParamsRefuses(t *testing.T) {
	tests := []struct{ name, schema string }{
		{"empty", `{"properties":{"a":{"type":"string","x-mcp-header":""}}}`},
		{"no string", `{"properties":{"a":{"type":"string","x-mcp-header":true}}}`},
		{"null", `{"properties":{"a":{"type":"string","x-mcp-header":null}}}`},
		{"space", `{"properties":{"a":{"type":"string","x-mcp-header":"My Region"}}}`},
		{"colon", `{"properties":{"a":{"type":"string","x-mcp-header":"Region:Primary"}}}`},
		{"non-ascii", `{"properties":{"a":{"type":"string","x-mcp-header":"Région"}}}`},
		{"control character", `{"properties":{"a":{"type":"string","x-mcp-header":"Region\t1"}}}`},
		{"line feed", `{"properties":{"a":{"type":"string","x-mcp-header":"Region\r\nX: y"}}}`},
		{"duplicate", `{"properties":{"a":{"type":"string","x-mcp-header":"Region"},"b":{"type":"string","x-mcp-header":"Region"}}}`},
		{"duplicate but for case", `{"properties":{"a":{"type":"string","x-mcp-header":"Region"},"b":{"properties":{"c":{"type":"string","x-mcp-header":"REGION"}}}}}`},
		{"number", `{"properties":{"a":{"type":"number","x-mcp-header":"A"}}}`},
		{"array", `{"properties":{"a":{"type":"array","x-mcp-header":"A"}}}`},
		{"object", `{"properties":{"a":{"type":"object","x-mcp-header":"A"}}}`},
		{"null type", `{"properties":{"a":{"type":"null","x-mcp-header":"A"}}}`},
		{"list of types", `{"properties":{"a":{"type":["string","null"],"x-mcp-header":"A"}}}`},
		{"no type", `{"properties":{"a":{"x-mcp-header":"A"}}}`},
		{"twice in one schema", `{"properties":{"a":{"type":"string","x-mcp-header":"A","x-mcp-header":"B"}}}`},
		{"at the root", `{"type":"string","x-mcp-header":"A"}`},
		{"items", `{"properties":{"a":{"items":{"type":"string","x-mcp-header":"A"}}}}`},
		{"properties below items", `{"properties":{"a":{"items":{"properties":{"b":{"type":"string","x-mcp-header":"A"}}}}}}`},
		{"prefixItems", `{"properties":{"a":{"prefixItems":[{"type":"string","x-mcp-header":"A"}]}}}`},
		{"oneOf", `{"oneOf":[{"properties":{"a":{"type":"string","x-mcp-header":"A"}}}]}`},
		{"anyOf in a property", `{"properties":{"a":{"anyOf":[{"type":"string","x-mcp-header":"A"},{"type":"null"}]}}}`},
		{"not", `{"not":{"properties":{"a":{"type":"string","x-mcp-header":"A"}}}}`},
		{"then", `{"then":{"properties":{"a":{"type":"string","x-mcp-header":"A"}}}}`},
		{"additionalProperties", `{"additionalProperties":{"type":"string","x-mcp-header":"A"}}`},
		{"patternProperties", `{"patternProperties":{"^a":{"type":"string","x-mcp-header":"A"}}}`},
		{"$defs", `{"$defs":{"a":{"type":"string","x-mcp-header":"A"}},"properties":{"a":{"$ref":"#/$defs/a"}}}`},
		{"patternProperties called const", `{"patternProperties":{"const":{"type":"string","x-mcp-header":"A"}}}`},
		{"dependentSchemas called default", `{"dependentSchemas":{"default":{"type":"string","x-mcp-header":"A"}}}`},
		{"$defs called const", `{"$defs":{"const":{"type":"string","x-mcp-header":"A"}}}`},
		{"good ones beside a bad one", `{"properties":{"a":{"type":"string","x-mcp-header":"A"},"b":{"type":"number","x-mcp-header":"B"},"c":{"type":"string","x-mcp-header":"C"}}}`},
	}
	for _, tt := range tests {
		if got, ok := ReadParams([]byte(tt.schema)); ok || got != nil {
			t.Errorf("%s: got %v, want a refusal", tt.name, got)
		}
	}
}

var mirrored = []Param{
	{[]string{"s"}, "Mcp-Param-S", "string"},
	{[]string{"deep", "i"}, "Mcp-Param-I", "integer"},
	{[]string{"b"}, "Mcp-Param-B", "boolean"},
}

// The rows are those of the table of translation.md 11.
func TestCheckParams(t *testing.T) {
	tests := []struct {
		name, args string
		header     http.Header
		code       int
	}{
		{"present, header absent", `{"s":"x"}`, nil, -32020},
		{"integer present, header absent", `{"deep":{"i":1}}`, nil, -32020},
		{"all equal", `{"s":"x","deep":{"i":42},"b":true}`, header("Mcp-Param-S", "x", "Mcp-Param-I", "42", "Mcp-Param-B", "true"), 0},
		{"text different", `{"s":"x"}`, header("Mcp-Param-S", "X"), -32020},
		{"text encoded", `{"s":" x"}`, header("Mcp-Param-S", "=?base64?IHg=?="), 0},
		{"text with escapes in the body", `{"s":"\u0078"}`, header("Mcp-Param-S", "x"), 0},
		{"text raw utf-8", `{"s":"世"}`, header("Mcp-Param-S", "世"), -32020},
		{"text bad base64", `{"s":"Hello"}`, header("Mcp-Param-S", "=?base64?SGVsbG8?="), -32020},
		{"text that looks like a number is text", `{"s":"42"}`, header("Mcp-Param-S", "42.0"), -32020},
		{"empty text", `{"s":""}`, header("Mcp-Param-S", ""), 0},
		{"empty text, header absent", `{"s":""}`, nil, -32020},
		{"integer as fraction", `{"deep":{"i":42}}`, header("Mcp-Param-I", "42.0"), 0},
		{"fraction as integer", `{"deep":{"i":42.0}}`, header("Mcp-Param-I", "42"), 0},
		{"exponent", `{"deep":{"i":4.2e1}}`, header("Mcp-Param-I", "42"), 0},
		{"minus zero", `{"deep":{"i":-0}}`, header("Mcp-Param-I", "0"), 0},
		{"negative", `{"deep":{"i":-7}}`, header("Mcp-Param-I", "-7"), 0},
		{"sign different", `{"deep":{"i":-7}}`, header("Mcp-Param-I", "7"), -32020},
		{"beyond 2^53, equal", `{"deep":{"i":9007199254740993}}`, header("Mcp-Param-I", "9007199254740993"), 0},
		{"beyond 2^53, equal as float64 only", `{"deep":{"i":9007199254740993}}`, header("Mcp-Param-I", "9007199254740992"), -32020},
		{"integer encoded", `{"deep":{"i":42}}`, header("Mcp-Param-I", "=?base64?NDI=?="), 0},
		{"plus sign", `{"deep":{"i":42}}`, header("Mcp-Param-I", "+42"), -32020},
		{"leading zero", `{"deep":{"i":42}}`, header("Mcp-Param-I", "042"), -32020},
		{"hexadecimal", `{"deep":{"i":42}}`, header("Mcp-Param-I", "0x2A"), -32020},
		{"list of two", `{"deep":{"i":42}}`, header("Mcp-Param-I", "42, 42"), -32020},
		{"no number", `{"deep":{"i":42}}`, header("Mcp-Param-I", ""), -32020},
		{"true against false", `{"b":true}`, header("Mcp-Param-B", "false"), -32020},
		{"capitals", `{"b":true}`, header("Mcp-Param-B", "True"), -32020},
		{"fraction", `{"deep":{"i":1.5}}`, header("Mcp-Param-I", "1.5"), -32020},
		{"object", `{"s":{}}`, header("Mcp-Param-S", "{}"), -32020},
		{"array", `{"s":["x"]}`, header("Mcp-Param-S", "x"), -32020},
		{"object, header absent", `{"s":{}}`, nil, -32020},
		{"absent, header absent", `{}`, nil, 0},
		{"null, header absent", `{"s":null}`, nil, 0},
		{"absent, header present", `{}`, header("Mcp-Param-S", "x"), -32020},
		{"absent, empty header present", `{}`, header("Mcp-Param-S", ""), -32020},
		{"null, header present", `{"s":null}`, header("Mcp-Param-S", "null"), -32020},
		{"no arguments", ``, nil, 0},
		{"no arguments, header present", ``, header("Mcp-Param-S", "x"), -32020},
		{"way leads through no object", `{"deep":[{"i":1}]}`, nil, 0},
		{"no annotation for it", `{}`, header("Mcp-Param-Other", "\x00"), 0},
		{"header twice", `{"s":"x"}`, header("Mcp-Param-S", "x", "Mcp-Param-S", "x"), -32020},
		{"argument twice", `{"s":"x","s":"y"}`, header("Mcp-Param-S", "x"), -32600},
		{"argument twice, once with escapes", `{"s":"x","\u0073":"y"}`, header("Mcp-Param-S", "y"), -32600},
		{"argument twice and null", `{"s":null,"s":"y"}`, nil, -32600},
		{"way twice", `{"deep":{},"deep":{"i":1}}`, nil, -32600},
		{"another argument twice", `{"z":1,"z":2,"s":"x"}`, header("Mcp-Param-S", "x"), 0},
	}
	for _, tt := range tests {
		code := 0
		err := CheckParams(tt.header, []byte(tt.args), mirrored)
		if err != nil {
			code = err.Code
		}
		if code != tt.code {
			t.Errorf("%s: got %v, want code %d", tt.name, err, tt.code)
		}
	}
}

// Header values are read by the grammar of JSON numbers (RFC 8259, section 6), nothing wider.
func TestCheckParamsNumbers(t *testing.T) {
	tests := []struct {
		body        string
		same, other []string
	}{
		{"0", []string{"0", "-0", "0.0", "0e5", "0E-5", "-0.000e+1"}, []string{"", "-", "00", "0.", ".0", "0e", "0e+", "0e+-1", "0e1x", "0x0", "0 0", "false", "0e1.0"}},
		{"10", []string{"10", "1e1", "1E+1", "1000e-2", "10.00", "0.1e2"}, []string{"-10", "+10", "010", "1e2", "1e-1", "1e01x", "10.", "10.0x", "10x", "1f1", "100", "1", "1e99999999999999999999", "1e2097152"}},
		{"-3.0", []string{"-3", "-3.0", "-30e-1", "-0.3e1"}, []string{"3", "--3", "- 3", "-03"}},
		{"9007199254740993e0", []string{"9007199254740993"}, []string{"9007199254740992", "9007199254740993.1"}},
	}
	for _, tt := range tests {
		args := []byte(`{"deep":{"i":` + tt.body + `}}`)
		for _, v := range tt.same {
			if err := CheckParams(http.Header{"Mcp-Param-I": {v}}, args, mirrored); err != nil {
				t.Errorf("body %s, header %q: got %v, want them equal", tt.body, v, err)
			}
		}
		for _, v := range tt.other {
			if err := CheckParams(http.Header{"Mcp-Param-I": {v}}, args, mirrored); err == nil {
				t.Errorf("body %s, header %q: got them equal", tt.body, v)
			}
		}
	}
}

func TestCheckParamsMessage(t *testing.T) {
	err := CheckParams(header("Mcp-Param-I", "41"), []byte(`{"deep":{"i":42}}`), mirrored)
	want := "Header mismatch: Mcp-Param-I header value '41' does not match body value '42' of 'arguments.deep.i'"
	if err == nil || err.Message != want || err.Data != nil {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestParamHeaders(t *testing.T) {
	tests := []struct {
		name, args string
		want       http.Header
		code       int
	}{
		{"all", `{"s":"x","deep":{"i":42},"b":false}`, header("Mcp-Param-S", "x", "Mcp-Param-I", "42", "Mcp-Param-B", "false"), 0},
		{"encoded", `{"s":"Hello, 世界"}`, header("Mcp-Param-S", "=?base64?SGVsbG8sIOS4lueVjA==?="), 0},
		{"injection", `{"s":"x\r\nMcp-Name: y"}`, header("Mcp-Param-S", "=?base64?eA0KTWNwLU5hbWU6IHk=?="), 0},
		{"integer as fraction", `{"deep":{"i":4.20e1}}`, header("Mcp-Param-I", "42"), 0},
		{"hundred", `{"deep":{"i":1e2}}`, header("Mcp-Param-I", "100"), 0},
		{"minus zero", `{"deep":{"i":-0.0}}`, header("Mcp-Param-I", "0"), 0},
		{"largest", `{"deep":{"i":9007199254740991}}`, header("Mcp-Param-I", "9007199254740991"), 0},
		{"smallest", `{"deep":{"i":-9007199254740991}}`, header("Mcp-Param-I", "-9007199254740991"), 0},
		{"too large", `{"deep":{"i":9007199254740992}}`, nil, -32602},
		{"too small", `{"deep":{"i":-9007199254740992}}`, nil, -32602},
		{"enormous", `{"deep":{"i":1e999999999999}}`, nil, -32602},
		{"fraction", `{"deep":{"i":1.5}}`, nil, -32602},
		{"object", `{"s":{}}`, nil, -32602},
		{"twice", `{"s":"x","s":"y"}`, nil, -32600},
		{"null", `{"s":null}`, nil, 0},
		{"absent", `{}`, nil, 0},
		{"no arguments", ``, nil, 0},
	}
	for _, tt := range tests {
		code := 0
		got, err := ParamHeaders([]byte(tt.args), mirrored)
		if err != nil {
			code = err.Code
		}
		if diff := cmp.Diff(got, tt.want); diff != "" || code != tt.code {
			t.Errorf("%s: error %v, want code %d; got -, want +\n%s", tt.name, err, tt.code, diff)
		}
	}
}

// What the bridge sends upstream it would itself accept, and integers agree with math/big.
func FuzzParams(f *testing.F) {
	f.Add([]byte(`{"s":"x","deep":{"i":42},"b":true}`), "42")
	f.Add([]byte(`{"s":" x","deep":{"i":-0.0e-7},"b":null}`), "0")
	f.Add([]byte(`{"deep":{"i":4.20e+1}}`), "42.0")
	f.Add([]byte(`{"deep":{"i":9007199254740993}}`), "9007199254740992")
	f.Fuzz(func(t *testing.T, args []byte, value string) {
		m, ok := scanParams("tools/call", args)
		if !ok {
			return
		}
		h, err := ParamHeaders(m.Params, mirrored)
		if err == nil {
			if err := CheckParams(h, m.Params, mirrored); err != nil {
				t.Fatalf("%s has headers %v, refused with %v", args, h, err)
			}
		}
		i := jsonrpc.Get(m.Params, "deep", "i")
		if len(i) == 0 || len(i) > 20 || len(value) > 20 || jsonrpc.IsNull(i) || i[0] == '"' || i[0] == 't' || i[0] == 'f' {
			return
		}
		body, _ := jsonrpc.Scan([]byte(`{"jsonrpc":"2.0","id":1,"method":"x","params":[` + value + `]}`))
		x, xok := ratio(string(i))
		y, yok := ratio(value)
		same := body.Method == "x" && xok && yok && x.IsInt() && x.Cmp(y) == 0
		err = CheckParams(http.Header{"Mcp-Param-I": {value}}, m.Params, mirrored[1:2])
		if err != nil && err.Code == -32600 {
			return
		}
		if (err == nil) != same {
			t.Fatalf("body %s, header %q: got %v, equal by value %v", i, value, err, same)
		}
	})
}

// ratio reads a short number without a large exponent.
func ratio(s string) (*big.Rat, bool) {
	for i, c := range s {
		if (c == 'e' || c == 'E') && len(s)-i > 4 {
			return nil, false
		}
	}
	return new(big.Rat).SetString(s)
}

func FuzzReadParams(f *testing.F) {
	f.Add([]byte(`{"properties":{"a":{"type":"string","x-mcp-header":"A"},"b":{"properties":{"c":{"type":"integer","x-mcp-header":"C"}}}}}`))
	f.Add([]byte(`{"properties":{"a":{"items":{"type":"string","x-mcp-header":"A"}}}}`))
	f.Fuzz(func(t *testing.T, schema []byte) {
		m, ok := scanParams("x", schema)
		if !ok {
			return
		}
		ps, ok := ReadParams(m.Params)
		if !ok && ps != nil {
			t.Fatal("annotations of a refused schema")
		}
		seen := map[string]bool{}
		for _, p := range ps {
			if seen[p.Header] || p.Header != http.CanonicalHeaderKey(p.Header) || len(p.Path) == 0 {
				t.Fatalf("%s gave %+v", schema, ps)
			}
			seen[p.Header] = true
		}
	})
}
