package jsonrpc

import (
	"bytes"

	"github.com/go-json-experiment/json/jsontext"
)

// String returns the Go string of a raw JSON string; ok is false if raw is not a string.
// Lone surrogates become U+FFFD.
func String(raw []byte) (s string, ok bool) {
	b, ok := unquote(trim(raw))
	return string(b), ok
}

// unquote returns what the raw JSON string says, where possible as a slice of it; ok is false if
// raw is not a string. Raw is checked text.
func unquote(raw []byte) (b []byte, ok bool) {
	if len(raw) < 2 || raw[0] != '"' {
		return nil, false
	}
	inner := raw[1 : len(raw)-1]
	if bytes.IndexByte(inner, '\\') < 0 {
		return inner, true
	}
	// The only error left is that of a lone surrogate, which has become U+FFFD.
	b, _ = jsontext.AppendUnquote(nil, raw)
	return b, true
}

// named reports whether the raw JSON string says name. Raw is checked text.
func named(raw []byte, name string) bool {
	inner := raw[1 : len(raw)-1]
	if bytes.IndexByte(inner, '\\') < 0 {
		return string(inner) == name
	}
	var space [64]byte
	b, _ := jsontext.AppendUnquote(space[:0], raw)
	return string(b) == name
}

// Quote returns s as a raw JSON string, without escaping HTML. Invalid UTF-8 becomes U+FFFD.
func Quote(s string) []byte { return appendQuote(make([]byte, 0, len(s)+2), s) }

func appendQuote(dst []byte, s string) []byte {
	if isPlain(s) {
		return append(append(append(dst, '"'), s...), '"')
	}
	// The only error is that of invalid UTF-8, which has become U+FFFD.
	dst, _ = jsontext.AppendQuote(dst, s)
	return dst
}

// isPlain reports whether s stands for itself between quotes: what the names of methods are made of.
func isPlain(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c == '"' || c == '\\' || c >= 0x7f {
			return false
		}
	}
	return true
}

// OneLine returns checked text without CR and LF, for framing by lines; a copy if there were any.
// They become blanks: in valid JSON they occur between tokens only.
func OneLine(text []byte) []byte {
	if bytes.IndexByte(text, '\n') < 0 && bytes.IndexByte(text, '\r') < 0 {
		return text
	}
	out := bytes.Clone(text)
	for i, c := range out {
		if c == '\n' || c == '\r' {
			out[i] = ' '
		}
	}
	return out
}

// IsObject reports whether raw is an object by its first character.
func IsObject(raw []byte) bool { return first(raw) == '{' }

// IsArray reports whether text is a JSON array by its first character.
func IsArray(text []byte) bool { return first(text) == '[' }

// IsNull reports whether raw is absent or null.
func IsNull(raw []byte) bool {
	raw = trim(raw)
	return len(raw) == 0 || string(raw) == "null"
}

// first returns the first byte of raw that is not white space, 0 if there is none.
func first(raw []byte) byte {
	s := scanner{text: raw}
	if !s.blanks() {
		return 0
	}
	return raw[s.pos]
}

// trim returns raw without JSON's white space around it.
func trim(raw []byte) []byte {
	s := scanner{text: raw}
	s.blanks()
	raw = raw[s.pos:]
	for len(raw) > 0 {
		switch raw[len(raw)-1] {
		case ' ', '\t', '\n', '\r':
			raw = raw[:len(raw)-1]
			continue
		}
		break
	}
	return raw
}
