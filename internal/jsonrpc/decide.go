package jsonrpc

import "bytes"

// deciding lists the members of params the bridge decides by (translation.md 2). _meta is the first.
var deciding = [...]string{"_meta", "name", "uri", "taskId", "protocolVersion", "capabilities", "requestState", "inputResponses"}

// params reads the object params, finds its _meta and refuses duplicates of what the bridge decides by.
func (e *envelope) params() bool {
	if !e.open() {
		return false
	}
	seen := 0
	for first := true; ; first = false {
		name, more := e.member(first)
		if !more {
			return e.why == ""
		}
		n := decides(name)
		if n >= 0 && seen&(1<<n) != 0 {
			e.refuse("duplicate member " + deciding[n] + " in params")
		}
		if n >= 0 {
			seen |= 1 << n
		}
		start := e.pos
		if n != 0 || e.text[start] != '{' {
			if !e.value() {
				return false
			}
			continue
		}
		if !e.metaKeys() {
			return false
		}
		e.meta = e.since(start)
	}
}

// decides returns the place of the raw name in deciding, -1 if it is none of them.
func decides(raw []byte) int {
	name, _ := unquote(raw)
	for n, d := range deciding {
		if string(name) == d {
			return n
		}
	}
	return -1
}

// reserved is how the keys of _meta begin that the protocol has for itself.
var reserved = []byte("io.modelcontextprotocol/")

// metaKeys reads the object _meta and refuses duplicates of keys the bridge decides by.
func (e *envelope) metaKeys() bool {
	if !e.open() {
		return false
	}
	var seen nameSet
	for first := true; ; first = false {
		raw, more := e.member(first)
		if !more {
			return e.why == ""
		}
		name, _ := unquote(raw)
		if (string(name) == "progressToken" || bytes.HasPrefix(name, reserved)) && !seen.add(name) {
			e.refuse("duplicate key in _meta")
		}
		if !e.value() {
			return false
		}
	}
}

// A nameSet remembers names. The few of an honest message cost no allocation; many cost no more
// than a map.
type nameSet struct {
	few  [8][]byte
	n    int
	many map[string]bool
}

// add reports whether name is new to the set.
func (s *nameSet) add(name []byte) bool {
	for _, have := range s.few[:s.n] {
		if string(have) == string(name) {
			return false
		}
	}
	if s.n < len(s.few) {
		s.few[s.n] = name
		s.n++
		return true
	}
	if s.many[string(name)] {
		return false
	}
	if s.many == nil {
		s.many = map[string]bool{}
	}
	s.many[string(name)] = true
	return true
}
