package jsonrpc

import "bytes"

// skip consumes one value of a text that Scan has checked. It looks for its end only, which is several times faster than value. Of
// another text it consumes something or reports false.
func (s *scanner) skip() bool {
	if s.pos >= len(s.text) {
		return s.fail(whySyntax)
	}
	switch s.text[s.pos] {
	case '"':
		end := quoteAfter(s.text, s.pos+1)
		if end < 0 {
			return s.fail(whySyntax)
		}
		s.pos = end + 1
		return true
	case '{', '[':
		return s.skipNested()
	}
	start := s.pos
	for s.pos < len(s.text) && kinds[s.text[s.pos]] == 0 {
		s.pos++
	}
	return s.pos > start || s.fail(whySyntax)
}

// skipNested consumes an object or array.
func (s *scanner) skipNested() bool {
	depth := 0
	for i := s.pos; i < len(s.text); i++ {
		switch kinds[s.text[i]] {
		case kindQuote:
			if i = quoteAfter(s.text, i+1); i < 0 {
				return s.fail(whySyntax)
			}
		case kindOpen:
			depth++
		case kindClose:
			if depth--; depth == 0 {
				s.pos = i + 1
				return true
			}
		}
	}
	return s.fail(whySyntax)
}

// What a byte outside of strings means for where a value ends; zero is part of a number or a literal.
const (
	kindQuote = iota + 1
	kindOpen
	kindClose
	kindBetween
)

var kinds = [256]uint8{
	'"': kindQuote, '{': kindOpen, '[': kindOpen, '}': kindClose, ']': kindClose,
	',': kindBetween, ':': kindBetween, ' ': kindBetween, '\t': kindBetween, '\n': kindBetween, '\r': kindBetween,
}

// quoteAfter returns the index of the quote that ends the string whose inside begins at i, negative if there is none.
func quoteAfter(text []byte, i int) int {
	for {
		n := bytes.IndexByte(text[i:], '"')
		if n < 0 {
			return -1
		}
		end := i + n
		first := end // of the backslashes before it
		for first > i && text[first-1] == '\\' {
			first--
		}
		if (end-first)%2 == 0 {
			return end
		}
		i = end + 1 // that one was escaped
	}
}
