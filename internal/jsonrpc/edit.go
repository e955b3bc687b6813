package jsonrpc

import "bytes"

// The functions of this file work on text that Scan has checked. What is not an object counts as
// one without members.

// Get returns the raw value at the path of member names below obj, or nil if there is none. Where a
// name occurs twice it returns the first. Names are compared after unescaping.
func Get(obj []byte, path ...string) []byte {
	start, end := locate(obj, path)
	if end == 0 {
		return nil
	}
	return obj[start:end:end]
}

// locate returns where the value at path lies in obj; end is 0 if there is none.
func locate(obj []byte, path []string) (start, end int) {
	end = len(obj)
	for _, name := range path {
		at := find(obj[start:end], name)
		if at.end == 0 {
			return 0, 0
		}
		start, end = start+at.start, start+at.end
	}
	return start, end
}

// A span is where a member of an object lies: its name from key on, its value from start to end.
// The zero span is none.
type span struct{ key, start, end int }

// find returns the first member of obj with that name.
func find(obj []byte, name string) span {
	if absent(obj, name) {
		return span{}
	}
	w := walk(obj)
	for w.next() {
		if named(w.name, name) {
			return w.at
		}
	}
	return span{}
}

// absent reports whether no member of obj can have that name, at any depth. Most questions are for members that are not there,
// and this answers them many times faster than a walk: a name that does not stand in the text as it is would need an escape.
func absent(obj []byte, name string) bool {
	var space [64]byte // keeps the copy off the heap
	if bytes.Contains(obj, append(space[:0], name...)) {
		return false
	}
	slash := bytes.IndexByte(obj, '\\')
	if slash < 0 {
		return true
	}
	return plain(append(space[:0], name...), 0) >= len(name) && !bytes.Contains(obj[slash:], escapeU) && !bytes.Contains(obj[slash:], escapeSlash)
}

// The escapes that a character may be written with that could stand for itself.
var escapeU, escapeSlash = []byte(`\u`), []byte(`\/`)

// A walker goes through the members of an object.
type walker struct {
	s       scanner
	name    []byte // with its quotes
	at      span
	started bool
	open    bool
}

func walk(obj []byte) walker {
	w := walker{s: scanner{text: obj}}
	if w.s.blanks() && obj[w.s.pos] == '{' {
		w.open = w.s.open()
		w.at.end = w.s.pos
	}
	return w
}

// next goes to the next member. After the last, at.end is where the last one ended, or the inside
// of the object begins.
func (w *walker) next() bool {
	if !w.open {
		return false
	}
	w.name, w.open = w.s.member(!w.started)
	if !w.open {
		return false
	}
	key, start := w.s.key, w.s.pos
	if w.open = w.s.skip(); !w.open {
		return false
	}
	w.started = true
	w.at = span{key, start, w.s.pos}
	return true
}

// Members calls yield with the unescaped name and raw value of each member of obj, in order, until it returns false.
// It does nothing if obj is not an object.
func Members(obj []byte, yield func(name string, value []byte) bool) {
	w := walk(obj)
	for w.next() {
		name, _ := unquote(w.name)
		if !yield(known(members, name), obj[w.at.start:w.at.end:w.at.end]) {
			return
		}
	}
}

// Elements calls yield with the raw value of each element of arr, in order, until it returns false.
// It does nothing if arr is not an array.
func Elements(arr []byte, yield func(value []byte) bool) {
	if !IsArray(arr) {
		return
	}
	s := scanner{text: arr}
	s.blanks()
	s.open()
	for first := true; s.element(first); first = false {
		start := s.pos
		if !s.skip() || !yield(s.since(start)) {
			return
		}
	}
}

// Set returns a copy of obj in which the member at path has value; members and objects on the way
// are added at the end where they are missing, and stand in for what is not an object. Further
// duplicates of the last name go. All other bytes stay as they were. A nil obj counts as {}.
func Set(obj []byte, value []byte, path ...string) []byte {
	room := len(obj) + len(value) + 2
	for _, name := range path {
		room += len(name) + 6
	}
	return appendSet(make([]byte, 0, room), obj, value, path)
}

func appendSet(dst, obj, value []byte, path []string) []byte {
	if len(path) == 0 {
		return append(dst, value...)
	}
	if !IsObject(obj) {
		obj = []byte("{}")
	}
	w := walk(obj)
	var at span
	for at.end == 0 && w.next() {
		if named(w.name, path[0]) {
			at = w.at
		}
	}
	if at.end == 0 {
		return appendAdd(dst, obj, value, path, w.at.end, w.started)
	}
	dst = append(dst, obj[:at.start]...)
	dst = appendSet(dst, obj[at.start:at.end], value, path[1:])
	last := at.end
	for len(path) == 1 && w.next() {
		if named(w.name, path[0]) {
			dst = append(dst, obj[at.end:last]...)
			at.end = w.at.end
		}
		last = w.at.end
	}
	return append(dst, obj[at.end:]...)
}

// appendAdd appends obj with a member added at its offset end.
func appendAdd(dst, obj, value []byte, path []string, end int, comma bool) []byte {
	dst = append(dst, obj[:end]...)
	if comma {
		dst = append(dst, ',')
	}
	dst = appendQuote(dst, path[0])
	dst = append(dst, ':')
	dst = appendSet(dst, nil, value, path[1:])
	return append(dst, obj[end:]...)
}

// Delete returns obj without the member at path, a copy if anything was removed. All duplicates of
// the last name go. The other bytes stay as they were.
func Delete(obj []byte, path ...string) []byte {
	if len(path) == 0 {
		return obj
	}
	last := len(path) - 1
	start, end := locate(obj, path[:last])
	less := deleteWhere(obj[start:end], func(raw []byte) bool { return named(raw, path[last]) })
	if len(less) == end-start {
		return obj
	}
	return bytes.Join([][]byte{obj[:start], less, obj[end:]}, nil)
}

// DeleteFunc returns obj without the members whose unescaped name drop reports, a copy if anything was removed.
func DeleteFunc(obj []byte, drop func(name string) bool) []byte {
	return deleteWhere(obj, func(raw []byte) bool {
		name, _ := String(raw)
		return drop(name)
	})
}

// deleteWhere removes the members whose raw name drop reports. A member goes with the comma and
// the blanks before it; the first that stays takes the place of the first that was there.
func deleteWhere(obj []byte, drop func(raw []byte) bool) []byte {
	var out []byte // nil as long as all members stay
	kept := false
	done := -1 // where the member before ended
	w := walk(obj)
	for w.next() {
		if done < 0 {
			done = w.at.key
		}
		from := done
		if !kept {
			from = w.at.key
		}
		gone := drop(w.name)
		switch {
		case gone && out == nil:
			out = append(make([]byte, 0, len(obj)), obj[:done]...)
		case !gone && out != nil:
			out = append(out, obj[from:w.at.end]...)
		}
		kept = kept || !gone
		done = w.at.end
	}
	if out == nil {
		return obj
	}
	return append(out, obj[done:]...)
}
