// Package sse frames and reads server-sent events (WHATWG HTML, Server-sent events).
package sse

import (
	"io"
	"time"
)

// An Event is one event of a stream.
type Event struct {
	ID     string        // empty: no id field. Must hold no NUL, CR or LF
	HasID  bool          // reader only: an id field was there, even an empty one
	Name   string        // empty: no event field, which readers take as "message"
	Data   []byte        // may hold line breaks; they arrive as LF
	NoData bool          // reader: no data field at all (comment or retry only blocks are not dispatched by browsers but a bridge must see retry and id); writer: write no data line
	Retry  time.Duration // zero: no retry field; written in whole milliseconds
}

// AppendEvent appends e in wire form to dst. Data is split at CR, LF and CRLF into data lines.
func AppendEvent(dst []byte, e Event) []byte { panic("not built") }

// AppendComment appends a comment line and the blank line that ends it; text must hold no line break.
func AppendComment(dst []byte, text string) []byte { panic("not built") }

// ErrTooLong is returned by [Reader.Next] for an event over the limit; the reader is then at the next event.
type tooLong struct{}

// A Reader reads events from a stream with any mix of LF, CRLF and CR line ends and an optional BOM.
type Reader struct{ _ io.Reader }

// NewReader returns a Reader that refuses events of more than maxBytes of data.
func NewReader(r io.Reader, maxBytes int) *Reader { panic("not built") }

// Next returns the next event. Data is valid until the following call. At the end of the stream it
// returns io.EOF; an event that the end cut off is dropped, as the standard says.
func (r *Reader) Next() (Event, error) { panic("not built") }
