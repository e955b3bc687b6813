// Package sse frames and reads server-sent events (WHATWG HTML, Server-sent events).
package sse

import "time"

// An Event is one event of a stream.
type Event struct {
	ID     string        // empty: no id field. Must hold no NUL, CR or LF
	HasID  bool          // reader only: an id field was there, even an empty one, which clears the last event id
	Name   string        // empty: no event field, which readers take as "message"
	Data   []byte        // may hold line breaks; they arrive as LF
	NoData bool          // reader: there was no data field, so a browser would not dispatch it; writer: write no data line
	Retry  time.Duration // zero: no retry field; written in whole milliseconds, rounded up
}
