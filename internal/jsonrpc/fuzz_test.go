package jsonrpc_test

import (
	"bytes"
	"encoding/json"
	"io"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
)

var seeds = []string{
	`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","_meta":{"progressToken":"t"},"arguments":{"a":[1.0,-2e+3,true,false,null]}}}`,
	`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":0.5}}`,
	` {"jsonrpc":"2.0","id":"a\u0062\ud800","result":{"x":"caf\u00e9 é 😀"}} `,
	`{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"m","data":[{}]}}`,
	`{"jsonrpc":"2.0","i\u0064":1,"Method":"x","id":2}`,
	`{"jsonrpc":"2.0","id":1,"method":"x","params":{"name":1,"n\u0061me":2,"_meta":{"io.modelcontextprotocol/a":1,"io.modelcontextprotocol/a":2}}}`,
	`[{"jsonrpc":"2.0","id":1,"method":"ping"},[],0]`,
	"\ufeff{}", `{"a":01}`, `{"a":1.}`, `{"a":-}`, `"\x"`, "\"\x1f\"", `{"a":"\u12g4"}`, `[1,]`, `{"":{"":{}},}`, `tru`, `1 2`, "{\"a\":\"\xff\"}", `-0`, `1E-7`, "\"\xed\xa0\x80\"",
}

// checked says what jsontext thinks of the text: one JSON value and nothing else.
func checked(text []byte) bool {
	d := jsontext.NewDecoder(bytes.NewReader(text), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	if _, err := d.ReadValue(); err != nil {
		return false
	}
	_, err := d.ReadToken()
	return err == io.EOF && utf8.Valid(text)
}

// tooDeep reports whether JSON text is nested deeper than MaxDepth.
func tooDeep(text []byte) bool {
	d := jsontext.NewDecoder(bytes.NewReader(text), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	for {
		if _, err := d.ReadToken(); err != nil {
			return false
		}
		if d.StackDepth() > jsonrpc.MaxDepth {
			return true
		}
	}
}

// Scan and Split take for JSON what two other parsers take for JSON, and Scan finds the members
// they find.
func FuzzScan(f *testing.F) {
	for _, s := range seeds {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		isJSON := checked(text)
		if std := json.Valid(text) && utf8.Valid(text); std != isJSON {
			t.Fatalf("encoding/json says %t, jsontext %t", std, isJSON)
		}
		want := isJSON && !tooDeep(text)
		m, err := jsonrpc.Scan(text)
		if got := err == nil || err.Code != jsonrpc.CodeParse; got != want {
			t.Fatalf("Scan: got %v, want JSON %t", err, want)
		}
		elems, splitErr := jsonrpc.Split(text)
		if got := splitErr == nil || splitErr.Code != jsonrpc.CodeParse; got != want {
			t.Fatalf("Split: got %v, want JSON %t", splitErr, want)
		}
		if splitErr == nil {
			checkElements(t, text, elems)
		}
		if err == nil {
			checkMessage(t, m)
		}
	})
}

func checkElements(t *testing.T, text []byte, elems [][]byte) {
	var want []json.RawMessage
	if err := json.Unmarshal(text, &want); err != nil {
		t.Fatal(err)
	}
	if !slices.EqualFunc(elems, want, func(a []byte, b json.RawMessage) bool { return bytes.Equal(a, b) }) {
		t.Errorf("got %q, want %q", elems, want)
	}
	var got [][]byte
	jsonrpc.Elements(text, func(v []byte) bool { got = append(got, v); return true })
	if !slices.EqualFunc(elems, got, bytes.Equal) {
		t.Errorf("Elements: got %q, Split %q", got, elems)
	}
}

// checkMessage compares an accepted message with its reading by encoding/json, which is the same
// as there is no duplicate and no other case at the top.
func checkMessage(t *testing.T, m jsonrpc.Message) {
	var top map[string]json.RawMessage
	if err := json.Unmarshal(m.Raw, &top); err != nil {
		t.Fatal(err)
	}
	var method string
	json.Unmarshal(top["method"], &method)
	want := seen{ID: string(top["id"]), Method: method, Raw: string(m.Raw), Result: string(top["result"])}
	_, hasError := top["error"]
	switch {
	case hasError || top["result"] != nil:
		want.Kind = jsonrpc.Response
	case top["id"] != nil:
		want.Kind = jsonrpc.Request
	default:
		want.Kind = jsonrpc.Notification
	}
	if want.ID == "null" {
		want.ID = ""
	}
	if want.Kind != jsonrpc.Response && string(top["params"]) != "null" {
		want.Params = string(top["params"])
		var params map[string]json.RawMessage
		if json.Unmarshal(top["params"], &params) == nil && len(params["_meta"]) > 0 && params["_meta"][0] == '{' {
			want.Meta = string(params["_meta"])
		}
	}
	got := see(m)
	if m.Error != nil {
		if string(m.Error.Raw) != string(top["error"]) {
			t.Errorf("got error %s, want %s", m.Error.Raw, top["error"])
		}
		got.Code, got.Text, got.Data = 0, "", ""
	}
	if want != got {
		t.Errorf("-want +got\n%s", cmp.Diff(want, got))
	}
	checkAgain(t, m)
}

// checkAgain writes a message from its parts and scans that.
func checkAgain(t *testing.T, m jsonrpc.Message) {
	var text []byte
	switch {
	case m.Kind == jsonrpc.Request:
		text = jsonrpc.AppendRequest(nil, m.ID, m.Method, m.Params)
	case m.Kind == jsonrpc.Notification:
		text = jsonrpc.AppendNotification(nil, m.Method, m.Params)
	case m.Error != nil:
		text = jsonrpc.AppendError(nil, m.ID, m.Error)
	default:
		text = jsonrpc.AppendResult(nil, m.ID, m.Result)
	}
	again, err := jsonrpc.Scan(text)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	again.Raw = m.Raw
	if see(again) != see(m) || (again.Error == nil) != (m.Error == nil) {
		t.Errorf("-first +again\n%s", cmp.Diff(see(m), see(again)))
	}
	line := jsonrpc.OneLine(m.Raw)
	var a, b bytes.Buffer
	if bytes.ContainsAny(line, "\r\n") || json.Compact(&a, m.Raw) != nil || json.Compact(&b, line) != nil || a.String() != b.String() {
		t.Errorf("on one line: %s", line)
	}
}

type member struct{ Name, Value string }

func members(obj []byte, but string) []member {
	all := []member{}
	jsonrpc.Members(obj, func(name string, value []byte) bool {
		if name != but {
			all = append(all, member{name, string(value)})
		}
		return true
	})
	return all
}

func count(obj []byte, name string) int {
	n := 0
	jsonrpc.Members(obj, func(have string, _ []byte) bool {
		if have == name {
			n++
		}
		return true
	})
	return n
}

// Editing changes the member meant and no byte of another.
func FuzzEdit(f *testing.F) {
	for _, s := range seeds {
		f.Add([]byte(s), "method", "x")
		f.Add([]byte(s), "params", "_meta")
	}
	f.Add([]byte(`{ "a" : 1 , "b":2, "a":3 , "c":{ } }`), "a", "b")
	f.Fuzz(func(t *testing.T, obj []byte, name, below string) {
		if !checked(obj) || tooDeep(obj) || !utf8.ValidString(name) || !utf8.ValidString(below) {
			// Nothing is promised but to return.
			jsonrpc.Get(obj, name, below)
			jsonrpc.Set(obj, nil, name, below)
			jsonrpc.Delete(obj, name)
			jsonrpc.String(obj)
			jsonrpc.Elements(obj, func([]byte) bool { return true })
			return
		}
		before := string(obj)
		value := []byte(`[1.0, "v"]`)

		var walked []byte // what Get returns by a shortcut where it can
		jsonrpc.Members(obj, func(n string, v []byte) bool {
			if n == name {
				walked = v
			}
			return n != name
		})
		if got := jsonrpc.Get(obj, name); !bytes.Equal(got, walked) {
			t.Fatalf("Get found %q, Members %q", got, walked)
		}

		set := jsonrpc.Set(obj, value, name)
		if !checked(set) || !bytes.Equal(jsonrpc.Get(set, name), value) {
			t.Fatalf("Set made %s", set)
		}
		if before, after := members(obj, name), members(set, name); !slices.Equal(before, after) {
			t.Errorf("Set changed others: -before +after\n%s", cmp.Diff(before, after))
		}
		if n := count(set, name); n != 1 {
			t.Errorf("Set left %d members %q: %s", n, name, set)
		}

		deep := jsonrpc.Set(obj, value, name, below)
		if !checked(deep) || !bytes.Equal(jsonrpc.Get(deep, name, below), value) {
			t.Fatalf("Set below made %s", deep)
		}
		if before, after := members(jsonrpc.Get(obj, name), below), members(jsonrpc.Get(deep, name), below); !slices.Equal(before, after) {
			t.Errorf("Set below changed others: -before +after\n%s", cmp.Diff(before, after))
		}

		less := jsonrpc.Delete(obj, name)
		if !checked(less) || jsonrpc.IsObject(less) && jsonrpc.Get(less, name) != nil {
			t.Fatalf("Delete made %s", less)
		}
		if before, after := members(obj, name), members(less, name); !slices.Equal(before, after) {
			t.Errorf("Delete changed others: -before +after\n%s", cmp.Diff(before, after))
		}
		if same := jsonrpc.DeleteFunc(obj, func(n string) bool { return n == name }); !bytes.Equal(same, less) {
			t.Errorf("DeleteFunc made %s, Delete %s", same, less)
		}
		lessBelow := jsonrpc.Delete(deep, name, below)
		if !checked(lessBelow) || jsonrpc.Get(lessBelow, name, below) != nil {
			t.Errorf("Delete below made %s", lessBelow)
		}
		if string(obj) != before {
			t.Errorf("input became %s", obj)
		}
	})
}

// Strings come out as encoding/json reads them.
func FuzzString(f *testing.F) {
	for _, s := range []string{`"a\u0062\n"`, `"\ud83d\ude00"`, `"\ud800x"`, `"é"`, `""`, `1`, ` "a" `} {
		f.Add([]byte(s), strings.Trim(s, `"`))
	}
	f.Fuzz(func(t *testing.T, raw []byte, s string) {
		if checked(raw) {
			var want string
			isString := json.Unmarshal(raw, &want) == nil && !jsonrpc.IsNull(raw)
			if got, ok := jsonrpc.String(raw); got != want || ok != isString {
				t.Errorf("String: got %q, %t, want %q, %t", got, ok, want, isString)
			}
		}
		quoted := jsonrpc.Quote(s)
		if got, ok := jsonrpc.String(quoted); !ok || got != strings.ToValidUTF8(s, "\ufffd") && utf8.ValidString(s) || !checked(quoted) {
			t.Errorf("Quote(%q) made %s", s, quoted)
		}
	})
}
