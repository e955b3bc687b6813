package jsonrpc

import (
	"bytes"
	"encoding/binary"
	"math/bits"
)

// Public texts of refusals with CodeParse.
const (
	whySyntax = "text is not JSON"
	whyUTF8   = "text is not valid UTF-8"
	whyDepth  = "nesting is deeper than 512"
)

// A scanner goes through JSON text once, from left to right, and checks it (RFC 8259) apart from
// UTF-8, which its users check for the whole text. Its methods expect pos at the first byte of what
// they consume and leave it after the last. They return false once the text is refused; why then
// says why.
type scanner struct {
	text  []byte
	pos   int
	depth int
	key   int // where the name of the latest member began
	why   string

	clean bool // text has no control characters, so that only quotes and backslashes matter in strings
	slash int  // if clean: the first backslash from pos on, len(text) if there is none
}

// swift makes strings of a text without control characters be read faster.
func (s *scanner) swift() {
	s.clean = true
	s.seekSlash(s.pos)
}

// seekSlash sets slash to the first backslash from i on.
func (s *scanner) seekSlash(i int) {
	s.slash = len(s.text)
	if n := bytes.IndexByte(s.text[i:], '\\'); n >= 0 {
		s.slash = i + n
	}
}

// fail refuses the text.
func (s *scanner) fail(why string) bool {
	if s.why == "" {
		s.why = why
	}
	return false
}

// blanks skips white space and reports whether anything is left.
func (s *scanner) blanks() bool {
	for s.pos < len(s.text) {
		if c := s.text[s.pos]; c > ' ' || c != ' ' && c != '\n' && c != '\t' && c != '\r' {
			return true
		}
		s.pos++
	}
	return false
}

// since returns the text from start to pos. It has no room behind it, so that appending to it
// copies.
func (s *scanner) since(start int) []byte { return s.text[start:s.pos:s.pos] }

// end checks that only white space is left.
func (s *scanner) end() bool {
	if s.blanks() {
		return s.fail(whySyntax)
	}
	return true
}

// value consumes one JSON value.
func (s *scanner) value() bool {
	if s.pos >= len(s.text) {
		return s.fail(whySyntax)
	}
	switch s.text[s.pos] {
	case '"':
		return s.str()
	case '{':
		return s.object()
	case '[':
		return s.array()
	case 't':
		return s.literal("true")
	case 'f':
		return s.literal("false")
	case 'n':
		return s.literal("null")
	}
	return s.number()
}

func (s *scanner) object() bool {
	if !s.open() {
		return false
	}
	for first := true; ; first = false {
		_, more := s.member(first)
		if !more {
			return s.why == ""
		}
		if !s.value() {
			return false
		}
	}
}

func (s *scanner) array() bool {
	if !s.open() {
		return false
	}
	for first := true; s.element(first); first = false {
		if !s.value() {
			return false
		}
	}
	return s.why == ""
}

// open consumes the bracket that begins an object or array.
func (s *scanner) open() bool {
	if s.depth++; s.depth > MaxDepth {
		return s.fail(whyDepth)
	}
	s.pos++
	return true
}

// member goes to the value of the next member of the object begun with open and returns the
// member's name with its quotes. At the end of the object, which it consumes, more is false; so it
// is where the text is refused.
func (s *scanner) member(first bool) (name []byte, more bool) {
	if !s.next(first, '}') {
		return nil, false
	}
	s.key = s.pos
	if s.text[s.pos] != '"' {
		return nil, s.fail(whySyntax)
	}
	if !s.str() {
		return nil, false
	}
	name = s.since(s.key)
	if !s.blanks() || s.text[s.pos] != ':' {
		return nil, s.fail(whySyntax)
	}
	s.pos++
	if !s.blanks() {
		return nil, s.fail(whySyntax)
	}
	return name, true
}

// element goes to the next element of the array begun with open. It ends like member.
func (s *scanner) element(first bool) bool { return s.next(first, ']') }

// next goes to the next item of an object or array, or consumes the bracket that ends it and
// returns false.
func (s *scanner) next(first bool, end byte) bool {
	if !s.blanks() {
		return s.fail(whySyntax)
	}
	c := s.text[s.pos]
	if c == end {
		s.pos++
		s.depth--
		return false
	}
	if first {
		return true
	}
	if c != ',' {
		return s.fail(whySyntax)
	}
	s.pos++
	if !s.blanks() {
		return s.fail(whySyntax)
	}
	return true
}

func (s *scanner) str() bool {
	if s.clean {
		return s.swiftStr()
	}
	i := s.pos + 1
	for {
		i = plain(s.text, i)
		if i >= len(s.text) {
			return s.fail(whySyntax)
		}
		if s.text[i] == '"' {
			s.pos = i + 1
			return true
		}
		n := escape(s.text[i:])
		if n == 0 {
			return s.fail(whySyntax)
		}
		i += n
	}
}

// swiftStr is str where there are no control characters.
func (s *scanner) swiftStr() bool {
	i := s.pos + 1
	for {
		n := bytes.IndexByte(s.text[i:], '"')
		if n < 0 {
			return s.fail(whySyntax)
		}
		quote := i + n
		for s.slash < quote {
			n := escape(s.text[s.slash:])
			if n == 0 {
				return s.fail(whySyntax)
			}
			i = s.slash + n
			s.seekSlash(i)
		}
		if i <= quote { // it was not escaped
			s.pos = quote + 1
			return true
		}
	}
}

// survey reports whether b is ASCII throughout, and whether it is without control characters. It may report false for clean where it is true of a text
// that is not ASCII.
func survey(b []byte) (ascii, clean bool) {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	var high, low uint64
	for len(b) >= 32 {
		w0, w1 := binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:])
		w2, w3 := binary.LittleEndian.Uint64(b[16:]), binary.LittleEndian.Uint64(b[24:])
		high |= w0 | w1 | w2 | w3
		low |= (w0-ones*' ')&^w0 | (w1-ones*' ')&^w1 | (w2-ones*' ')&^w2 | (w3-ones*' ')&^w3
		b = b[32:]
	}
	for _, c := range b {
		high |= uint64(c)
		if c < ' ' {
			low |= 0x80
		}
	}
	return high&highs == 0, low&highs == 0
}

// plain returns the index, from i on, of the first byte that cannot stand for itself in a JSON
// string (a quote, a backslash, a control character), or a number not below len(b).
func plain(b []byte, i int) int {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	for ; i+8 <= len(b); i += 8 {
		// The usual test for a zero byte, three times. A borrow can only spoil bytes above
		// the first hit, and the first hit is the one taken.
		w := binary.LittleEndian.Uint64(b[i:])
		quote := w ^ ones*'"'
		slash := w ^ ones*'\\'
		hit := ((w-ones*' ')&^w | (quote-ones)&^quote | (slash-ones)&^slash) & highs
		if hit != 0 {
			return i + bits.TrailingZeros64(hit)/8
		}
	}
	for ; i < len(b); i++ {
		if c := b[i]; c == '"' || c == '\\' || c < ' ' {
			break
		}
	}
	return i
}

// escape returns the length of the escape sequence b begins with, 0 if there is none. Surrogates
// need not come in pairs.
func escape(b []byte) int {
	if len(b) < 2 || b[0] != '\\' {
		return 0
	}
	switch b[1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return 2
	case 'u':
		if len(b) >= 6 && isHex(b[2]) && isHex(b[3]) && isHex(b[4]) && isHex(b[5]) {
			return 6
		}
	}
	return 0
}

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'f'
}

func (s *scanner) literal(word string) bool {
	end := s.pos + len(word)
	if end > len(s.text) || string(s.text[s.pos:end]) != word {
		return s.fail(whySyntax)
	}
	s.pos = end
	return true
}

func (s *scanner) number() bool {
	n := integer(s.text[s.pos:])
	if n == 0 {
		return s.fail(whySyntax)
	}
	i := s.pos + n
	if i < len(s.text) && s.text[i] == '.' {
		n = digits(s.text[i+1:])
		if n == 0 {
			return s.fail(whySyntax)
		}
		i += 1 + n
	}
	if i < len(s.text) && s.text[i]|0x20 == 'e' {
		i++
		if i < len(s.text) && (s.text[i] == '+' || s.text[i] == '-') {
			i++
		}
		n = digits(s.text[i:])
		if n == 0 {
			return s.fail(whySyntax)
		}
		i += n
	}
	s.pos = i
	return true
}

// integer returns the length of the -?(0|[1-9][0-9]*) that b begins with, 0 if there is none.
func integer(b []byte) int {
	sign := 0
	if len(b) > 0 && b[0] == '-' {
		sign = 1
	}
	n := digits(b[sign:])
	if n == 0 {
		return 0
	}
	if b[sign] == '0' {
		n = 1
	}
	return sign + n
}

// digits returns how many decimal digits b begins with.
func digits(b []byte) int {
	n := 0
	for n < len(b) && '0' <= b[n] && b[n] <= '9' {
		n++
	}
	return n
}
