package sse

import (
	"bytes"
	"strconv"
	"strings"
	"time"
)

// AppendEvent appends e in wire form to dst. Data is split at CR, LF and CRLF into data lines; no
// other character ends a line. A name or an id that would break its line is left out.
func AppendEvent(dst []byte, e Event) []byte {
	if e.Name != "" && !strings.ContainsAny(e.Name, "\r\n") {
		dst = append(dst, "event: "...)
		dst = append(dst, e.Name...)
		dst = append(dst, '\n')
	}
	if e.ID != "" && !strings.ContainsAny(e.ID, "\x00\r\n") {
		dst = append(dst, "id: "...)
		dst = append(dst, e.ID...)
		dst = append(dst, '\n')
	}
	if e.Retry > 0 {
		dst = append(dst, "retry: "...)
		dst = strconv.AppendInt(dst, int64((e.Retry-1)/time.Millisecond+1), 10)
		dst = append(dst, '\n')
	}
	if !e.NoData {
		dst = appendLines(dst, "data: ", e.Data)
	}
	return append(dst, '\n')
}

// AppendComment appends a comment line and the blank line that ends it; text must hold no line
// break. Readers ignore it: it keeps a connection alive.
func AppendComment(dst []byte, text string) []byte {
	return append(appendLines(dst, ": ", []byte(text)), '\n')
}

// appendLines appends the lines of text, each with prefix before it and LF behind it.
func appendLines(dst []byte, prefix string, text []byte) []byte {
	for {
		n := lineEnd(text)
		dst = append(dst, prefix...)
		dst = append(dst, text[:n]...)
		dst = append(dst, '\n')
		if n == len(text) {
			return dst
		}
		if bytes.HasPrefix(text[n:], []byte("\r\n")) {
			n++
		}
		text = text[n+1:]
	}
}

// lineEnd returns the index of the first CR or LF of b, len(b) if there is none.
func lineEnd(b []byte) int {
	// In blocks, so that a search for the rarer of the two does not go through the whole of b for
	// every line.
	const block = 4096
	for from := 0; from < len(b); from += block {
		c := b[from:min(from+block, len(b))]
		n := bytes.IndexByte(c, '\n')
		if n >= 0 {
			c = c[:n]
		}
		if k := bytes.IndexByte(c, '\r'); k >= 0 {
			return from + k
		}
		if n >= 0 {
			return from + n
		}
	}
	return len(b)
}
