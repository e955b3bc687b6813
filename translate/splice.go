package translate

import (
	"bytes"

	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
)

// The functions of this file edit checked JSON text. What they do not change keeps its bytes, and when they
// change nothing they return the slice they were given.

// mapElements returns arr with what f makes of each element in its place: the same slice keeps it, nil removes it.
// f may return several elements, joined by commas. What is not an array comes back as it was.
func mapElements(arr []byte, f func(e []byte) []byte) []byte {
	if !jsonrpc.IsArray(arr) {
		return arr
	}
	var out []byte // nil as long as nothing has changed
	kept := false
	done := bytes.IndexByte(arr, '[') + 1 // where the element before ended
	jsonrpc.Elements(arr, func(e []byte) bool {
		start := done
		for isBetween(arr[start]) {
			start++
		}
		r := f(e)
		if out == nil && !same(r, e) {
			out = append(make([]byte, 0, len(arr)+len(r)), arr[:done]...)
		}
		if r != nil && out != nil {
			if kept {
				out = append(out, arr[done:start]...)
			}
			out = append(out, r...)
		}
		kept = kept || r != nil
		done = start + len(e)
		return true
	})
	if out == nil {
		return arr
	}
	return append(out, arr[done:]...)
}

// mapMembers returns obj with what f makes of each member's value in its place. What is not an object comes back as it was.
func mapMembers(obj []byte, f func(v []byte) []byte) []byte {
	var out []byte // nil as long as nothing has changed
	done := 0      // where the value before ended, in out too
	jsonrpc.Members(obj, func(_ string, v []byte) bool {
		r := f(v)
		if same(r, v) {
			return true
		}
		start := done
		for &obj[start] != &v[0] { // a value is a part of obj
			start++
		}
		if out == nil {
			out = make([]byte, 0, len(obj)+len(r))
		}
		out = append(append(out, obj[done:start]...), r...)
		done = start + len(v)
		return true
	})
	if out == nil {
		return obj
	}
	return append(out, obj[done:]...)
}

// isBetween reports whether c can stand between the elements of an array.
func isBetween(c byte) bool {
	switch c {
	case ' ', '\t', '\r', '\n', ',':
		return true
	}
	return false
}

// same reports whether a and b are one slice, or both nothing.
func same(a, b []byte) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

// members are members of an object as text, each behind a comma.
type members []byte

// add appends one. Its name needs no escapes.
func (m *members) add(name string, value []byte) {
	*m = append(*m, `,"`...)
	*m = append(*m, name...)
	*m = append(*m, `":`...)
	*m = append(*m, value...)
}

// after returns obj with m at its end, in one copy.
func (m members) after(obj []byte) []byte {
	if len(m) == 0 {
		return obj
	}
	if isEmpty(obj) {
		m = m[1:]
	}
	end := bytes.LastIndexByte(obj, '}')
	out := append(make([]byte, 0, len(obj)+len(m)), obj[:end]...)
	return append(append(out, m...), obj[end:]...)
}

// setChanged returns obj with the member name set to value, or obj itself if value is the slice old that was there.
func setChanged(obj, value, old []byte, name string) []byte {
	if same(value, old) {
		return obj
	}
	return jsonrpc.Set(obj, value, name)
}

// mayHave reports whether a member called name can be anywhere in text. It is much faster than to look, and almost
// always the answer is no. \u may hide a letter.
func mayHave(text []byte, name string) bool {
	return bytes.Contains(text, []byte(name)) || bytes.Contains(text, []byte(`\u`))
}

// is reports whether raw is the JSON string s.
func is(raw []byte, s string) bool {
	if len(raw) == len(s)+2 && raw[0] == '"' && string(raw[1:len(raw)-1]) == s {
		return true
	}
	if bytes.IndexByte(raw, '\\') < 0 {
		return false
	}
	got, ok := jsonrpc.String(raw)
	return ok && got == s
}

// compact returns raw without the blanks between its tokens.
func compact(raw []byte) []byte {
	out := make([]byte, 0, len(raw))
	for quoted, i := false, 0; i < len(raw); i++ {
		c := raw[i]
		switch {
		case quoted && c == '\\':
			out = append(out, c)
			i++
			c = raw[i]
		case c == '"':
			quoted = !quoted
		case !quoted && (c == ' ' || c == '\t' || c == '\r' || c == '\n'):
			continue
		}
		out = append(out, c)
	}
	return out
}
