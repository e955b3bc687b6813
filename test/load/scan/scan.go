// Package scan walks the members of a JSON object without building a tree. It trusts its input to be well formed: it is a test
// tool's fast path, and a lower bound for what a checked scanner can cost, not a validator.
package scan

import "bytes"

func ws(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\r' || b[i] == '\t') {
		i++
	}
	return i
}

// str returns the index just past the string that starts at b[i] == '"'.
func str(b []byte, i int) int {
	i++
	for i < len(b) {
		j := bytes.IndexByte(b[i:], '"')
		if j < 0 {
			return len(b)
		}
		i += j
		n := 0
		for k := i - 1; k >= 0 && b[k] == '\\'; k-- {
			n++
		}
		i++
		if n&1 == 0 {
			return i
		}
	}
	return i
}

// skip returns the index just past the value that starts at b[i].
func skip(b []byte, i int) int {
	if i >= len(b) {
		return i
	}
	switch b[i] {
	case '"':
		return str(b, i)
	case '{', '[':
		depth := 0
		for i < len(b) {
			switch b[i] {
			case '"':
				i = str(b, i)
				continue
			case '{', '[':
				depth++
			case '}', ']':
				depth--
				if depth == 0 {
					return i + 1
				}
			}
			i++
		}
		return i
	}
	for i < len(b) && b[i] != ',' && b[i] != '}' && b[i] != ']' && b[i] != ' ' && b[i] != '\n' && b[i] != '\r' && b[i] != '\t' {
		i++
	}
	return i
}

// Each calls f for every member of the object in b with its raw key (without
// quotes) and raw value, until f returns false.
func Each(b []byte, f func(key, val []byte) bool) {
	i := ws(b, 0)
	if i >= len(b) || b[i] != '{' {
		return
	}
	i++
	for {
		i = ws(b, i)
		if i >= len(b) || b[i] != '"' {
			return
		}
		e := str(b, i)
		if e-1 < i+1 {
			return
		}
		k := b[i+1 : e-1]
		i = ws(b, e)
		if i >= len(b) || b[i] != ':' {
			return
		}
		i = ws(b, i+1)
		v := i
		i = skip(b, i)
		if !f(k, b[v:i]) {
			return
		}
		i = ws(b, i)
		if i >= len(b) || b[i] != ',' {
			return
		}
		i++
	}
}

// Get returns the raw value at the path of object keys, or nil.
func Get(b []byte, path ...string) []byte {
	for _, p := range path {
		var hit []byte
		Each(b, func(k, v []byte) bool {
			if string(k) == p {
				hit = v
				return false
			}
			return true
		})
		if hit == nil {
			return nil
		}
		b = hit
	}
	return b
}

// Env is the part of a JSON-RPC message that routing needs.
type Env struct {
	ID, Method, Params, Result, Error []byte
	IDPos                             int // offset of ID in the message, -1 if absent
}

// Envelope reads the top-level members of one message.
func Envelope(b []byte) (e Env) {
	e.IDPos = -1
	i := ws(b, 0)
	if i >= len(b) || b[i] != '{' {
		return
	}
	i++
	for {
		i = ws(b, i)
		if i >= len(b) || b[i] != '"' {
			return
		}
		end := str(b, i)
		k := b[i+1 : end-1]
		i = ws(b, end)
		if i >= len(b) {
			return
		}
		i = ws(b, i+1)
		v := i
		i = skip(b, i)
		switch string(k) {
		case "id":
			e.ID, e.IDPos = b[v:i], v
		case "method":
			e.Method = Unquote(b[v:i])
		case "params":
			e.Params = b[v:i]
		case "result":
			e.Result = b[v:i]
		case "error":
			e.Error = b[v:i]
		}
		i = ws(b, i)
		if i >= len(b) || b[i] != ',' {
			return
		}
		i++
	}
}

// Unquote strips the quotes of a plain string; escapes are left as they are.
func Unquote(v []byte) []byte {
	if len(v) >= 2 && v[0] == '"' {
		return v[1 : len(v)-1]
	}
	return v
}
