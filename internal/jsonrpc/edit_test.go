package jsonrpc_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
)

func path(dotted string) []string { return strings.Split(dotted, ".") }

func TestGet(t *testing.T) {
	tests := []struct{ name, obj, path, want string }{
		{"first of two", `{"a":1,"a":2}`, "a", "1"},
		{"below", `{"x":{"a":1},"a":{"b":{"c":[1, 2]}}}`, "a.b.c", "[1, 2]"},
		{"escaped name", `{"\u0061":1.0}`, "a", "1.0"},
		{"escaped slash", `{"io\/y":1}`, "io/y", "1"},
		{"blanks", " { \"a\" : \"x\" } ", "a", `"x"`},
		{"case counts", `{"A":1}`, "a", ""},
		{"missing", `{"a":1}`, "b", ""},
		{"below a string", `{"a":"x"}`, "a.b", ""},
		{"array", `[1]`, "a", ""},
		{"empty", ``, "a", ""},
		{"prefix", `{"ab":1}`, "a", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := jsonrpc.Get([]byte(tt.obj), path(tt.path)...)
			if string(got) != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
	if got := jsonrpc.Get(nil, "a"); got != nil {
		t.Errorf("nil object: got %s", got)
	}
}

func TestSet(t *testing.T) {
	tests := []struct{ name, obj, path, want string }{
		{"replace", `{"a":1, "b" : 2 ,"c":3.10}`, "b", `{"a":1, "b" : V ,"c":3.10}`},
		{"add", `{"a":1 }`, "b", `{"a":1,"b":V }`},
		{"add to empty", `{ }`, "a", `{"a":V }`},
		{"nil", ``, "a", `{"a":V}`},
		{"null", `null`, "a", `{"a":V}`},
		{"below nil", ``, "a.b.c", `{"a":{"b":{"c":V}}}`},
		{"add below", `{"x":0,"a":{"y":1},"z":2}`, "a.b", `{"x":0,"a":{"y":1,"b":V},"z":2}`},
		{"in place of null", `{"a":null,"z":2}`, "a.b", `{"a":{"b":V},"z":2}`},
		{"in place of a string", `{"a":"s","z":2}`, "a.b", `{"a":{"b":V},"z":2}`},
		{"duplicates go", `{"a":1,"x":0,"a":2 , "a":3,"y":1}`, "a", `{"a":V,"x":0,"y":1}`},
		{"other duplicates stay", `{"x":1,"x":2,"a":1}`, "a", `{"x":1,"x":2,"a":V}`},
		{"escaped name stays", `{"\u0061":1}`, "a", `{"\u0061":V}`},
		{"name to escape", `{}`, "\"\n", `{"\"\n":V}`},
		{"blanks around", " {\"a\":1}\n", "a", " {\"a\":V}\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			in := []byte(tt.obj)
			got := jsonrpc.Set(in, []byte("V"), path(tt.path)...)
			if string(got) != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
			if string(in) != tt.obj {
				t.Errorf("input became %s", in)
			}
		})
	}
}

func TestDelete(t *testing.T) {
	tests := []struct{ name, obj, path, want string }{
		{"first", `{ "a":1, "b":2 }`, "a", `{ "b":2 }`},
		{"middle", `{"a":1 , "b":2 , "c":3}`, "b", `{"a":1 , "c":3}`},
		{"last", `{"a":1, "b":2 }`, "b", `{"a":1 }`},
		{"only", `{ "a":1 }`, "a", `{  }`},
		{"all duplicates", `{"a":1,"b":2,"a":3,"c":4,"a":5}`, "a", `{"b":2,"c":4}`},
		{"first two", `{"a":1,"a":2, "b":3}`, "a", `{"b":3}`},
		{"below", `{"x":1,"a":{"b":1,"c":2},"y":2}`, "a.b", `{"x":1,"a":{"c":2},"y":2}`},
		{"escaped", `{"\u0061":1}`, "a", `{}`},
		{"missing", `{ "a":1}`, "b", `{ "a":1}`},
		{"missing on the way", `{"a":1}`, "b.c", `{"a":1}`},
		{"no object", `[1]`, "a", `[1]`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			in := []byte(tt.obj)
			got := jsonrpc.Delete(in, path(tt.path)...)
			if string(got) != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
			if string(in) != tt.obj {
				t.Errorf("input became %s", in)
			}
			if tt.obj == tt.want && &got[0] != &in[0] {
				t.Error("copied without need")
			}
		})
	}
}

func TestDeleteFunc(t *testing.T) {
	got := jsonrpc.DeleteFunc([]byte(`{"io.x/a":1, "k":{"io.x/a":1}, "io\u002ex/b":2,"l":1}`), func(name string) bool { return strings.HasPrefix(name, "io.x/") })
	if want := `{"k":{"io.x/a":1},"l":1}`; string(got) != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestMembersAndElements(t *testing.T) {
	var got []string
	jsonrpc.Members([]byte(` {"a":1,"\u0061":[2],"":{ }} `), func(name string, value []byte) bool {
		got = append(got, name+"="+string(value))
		return true
	})
	jsonrpc.Elements([]byte(" [ 1 ,\"x\",[ ],{}] "), func(value []byte) bool {
		got = append(got, string(value))
		return len(got) < 6
	})
	jsonrpc.Members([]byte(`[1]`), func(string, []byte) bool { got = append(got, "array"); return true })
	jsonrpc.Elements([]byte(`{"a":1}`), func([]byte) bool { got = append(got, "object"); return true })
	if diff := cmp.Diff([]string{"a=1", "a=[2]", "={ }", "1", `"x"`, "[ ]"}, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func TestString(t *testing.T) {
	tests := []struct {
		raw, want string
		ok        bool
	}{
		{`"a"`, "a", true},
		{` "a" `, "a", true},
		{`""`, "", true},
		{`"\u00e9\ud83d\ude00\/\n"`, "é😀/\n", true},
		{`"x\ud800y"`, "x\ufffdy", true},
		{`"\udc00\ud800"`, "\ufffd\ufffd", true},
		{`1`, "", false},
		{`null`, "", false},
		{``, "", false},
		{`{"a":1}`, "", false},
	}
	for _, tt := range tests {
		got, ok := jsonrpc.String([]byte(tt.raw))
		if got != tt.want || ok != tt.ok {
			t.Errorf("%s: got %q, %t, want %q, %t", tt.raw, got, ok, tt.want, tt.ok)
		}
	}
}

func TestQuote(t *testing.T) {
	for s, want := range map[string]string{
		"a<b>&c":     `"a<b>&c"`,
		"\"\\\n\x01": `"\"\\\n\u0001"`,
		"a\u2028b":   "\"a\u2028b\"",
		"\xff":       "\"\ufffd\"",
		"":           `""`,
	} {
		if got := jsonrpc.Quote(s); string(got) != want {
			t.Errorf("%q: got %s, want %s", s, got, want)
		}
	}
}

func TestOneLine(t *testing.T) {
	for in, want := range map[string]string{
		"{\"a\":\r\n\"\\n\u2028\"}\n": "{\"a\":  \"\\n\u2028\"} ",
		"{}":                          "{}",
	} {
		if got := jsonrpc.OneLine([]byte(in)); string(got) != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}

func TestFirstCharacter(t *testing.T) {
	for raw, want := range map[string][3]bool{ // object, array, null
		"":       {false, false, true},
		" null ": {false, false, true},
		" {}":    {true, false, false},
		"\n[1]":  {false, true, false},
		`"null"`: {false, false, false},
	} {
		b := []byte(raw)
		if got := [3]bool{jsonrpc.IsObject(b), jsonrpc.IsArray(b), jsonrpc.IsNull(b)}; got != want {
			t.Errorf("%q: got %v, want %v", raw, got, want)
		}
	}
}

// A name is found however it is written, and not taken for absent because of its spelling.
func TestGetOfEscapedNames(t *testing.T) {
	tests := []struct{ obj, name, want string }{
		{`{"a":1,"_meta":2}`, "_meta", "2"},
		{`{"a":1,"\u005fmeta":2}`, "_meta", "2"},
		{`{"a":"\n","\u005fmeta":2}`, "_meta", "2"},
		{`{"a\/b":3}`, "a/b", "3"},
		{`{"a":"x\\u005fmeta","b":1}`, "_meta", ""},
		{`{"a":"_meta"}`, "_meta", ""},
		{`{"a":{"_meta":1}}`, "_meta", ""},
		{`{"a":"\n"}`, "_meta", ""},
		{`{"q\"r":4}`, `q"r`, "4"},
		{`{"n\nl":5}`, "n\nl", "5"},
		{`{"":6}`, "", "6"},
		{`{}`, "", ""},
	}
	for _, tt := range tests {
		if got := string(jsonrpc.Get([]byte(tt.obj), tt.name)); got != tt.want {
			t.Errorf("%s of %s: got %q, want %q", tt.name, tt.obj, got, tt.want)
		}
	}
}
