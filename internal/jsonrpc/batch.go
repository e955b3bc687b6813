package jsonrpc

import "unicode/utf8"

// Split returns the elements of a JSON array, each a slice of text. It refuses what [Scan] refuses
// with CodeParse, and with CodeInvalidRequest what is not an array, an empty array and one of more
// than [MaxBatch] elements. The array counts as one level of nesting.
func Split(text []byte) (elems [][]byte, err *Error) {
	if !utf8.Valid(text) {
		return nil, &Error{Code: CodeParse, Message: whyUTF8}
	}
	s := scanner{text: text}
	elems, n, ok := s.elements()
	switch {
	case !ok:
		return nil, &Error{Code: CodeParse, Message: s.why}
	case !IsArray(text):
		return nil, &Error{Code: CodeInvalidRequest, Message: "batch is not an array"}
	case n == 0:
		return nil, &Error{Code: CodeInvalidRequest, Message: "batch is empty"}
	case n > MaxBatch:
		return nil, &Error{Code: CodeInvalidRequest, Message: "batch has more than 64 elements"}
	}
	return elems, nil
}

// elements consumes the whole text. If that is an array, n is the number of its elements, of which
// the first MaxBatch are returned.
func (s *scanner) elements() (elems [][]byte, n int, ok bool) {
	if !s.blanks() {
		return nil, 0, s.fail(whySyntax)
	}
	if s.text[s.pos] != '[' {
		return nil, 0, s.value() && s.end()
	}
	s.open()
	for first := true; s.element(first); first = false {
		start := s.pos
		if !s.value() {
			return nil, 0, false
		}
		if n < MaxBatch {
			elems = append(elems, s.since(start))
		}
		n++
	}
	return elems, n, s.why == "" && s.end()
}
