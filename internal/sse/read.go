package sse

import (
	"bytes"
	"errors"
	"io"
	"math"
	"strconv"
	"time"
)

// ErrTooLong is what [Reader.Next] returns with an event over the limit. Its data is gone and the
// reader is at the next event.
var ErrTooLong = errors.New("event is too long")

const (
	// maxFieldBytes bounds the value of an event or id field. An id goes into a header when a
	// stream is resumed, and no server takes much longer ones.
	maxFieldBytes = 4 << 10

	// A reader of an idle stream holds minBuffer bytes. A larger buffer is let go when all it held
	// was used: above keepBuffer at once, below after one more piece that did not need it, so that
	// a run of large events does not make it anew for each.
	minBuffer  = 1 << 10
	keepBuffer = 256 << 10
)

var byteOrderMark = []byte("\ufeff")

// A Reader reads events from a stream with any mix of LF, CRLF and CR line ends and an optional
// BOM. It returns an event as soon as the line end of its blank line is there, and holds no more
// than a small multiple of the limit. Methods must not be called concurrently.
type Reader struct {
	r        io.Reader
	maxBytes int
	err      error // of r, for when everything before it is used

	// The data of the event so far is buf[data:dataEnd], what is to be read buf[pos:end], of
	// which nothing before seen ends a line. dataEnd <= pos: data lines are joined in place.
	buf                           []byte
	data, dataEnd, pos, end, seen int

	event     Event // without Data
	dataLines int
	tooLong   bool // the event is over the limit; its data lines are dropped
	began     bool // the place for a BOM is past
	afterCR   bool // a LF at pos belongs to the line end before
	skipping  bool // what is left of the line is dropped
}

// NewReader returns a Reader that refuses events of more than maxBytes of data.
func NewReader(r io.Reader, maxBytes int) *Reader { return &Reader{r: r, maxBytes: maxBytes} }

// Next returns the next event that has data, an id or a retry time. Data is valid until the
// following call. For an event of too much data, or with an overlong id or name, it returns
// ErrTooLong and what else the event holds: going on after it, or resuming, needs the id. At the
// end of the stream it returns io.EOF, or the error that ended it, now and ever after; an event
// that the end cut off is dropped, as the standard says.
func (r *Reader) Next() (Event, error) {
	r.reset()
	for {
		line, ok := r.line()
		switch {
		case ok && len(line) > 0:
			r.field(line)
		case ok && r.tooLong:
			return r.event, ErrTooLong
		case ok && (r.dataLines > 0 || r.event.HasID || r.event.Retry > 0):
			r.event.NoData = r.dataLines == 0
			r.event.Data = r.buf[r.data:r.dataEnd:r.dataEnd]
			return r.event, nil
		case ok:
			r.reset()
		case r.err != nil:
			return Event{}, r.err
		default:
			r.fill()
		}
	}
}

// reset forgets the event.
func (r *Reader) reset() {
	r.event = Event{}
	r.event.NoData = true
	r.dataLines = 0
	r.data, r.dataEnd = r.pos, r.pos
	r.tooLong = false
}

// line returns the next line without its end; ok is false if more must be read first.
func (r *Reader) line() (line []byte, ok bool) {
	for {
		r.skipMarks()
		n := lineEnd(r.buf[r.seen:r.end])
		start, at := r.pos, r.seen+n
		if at == r.end {
			r.seen = at
			r.partial()
			return nil, false
		}
		r.began = true
		r.afterCR = r.buf[at] == '\r'
		r.pos, r.seen = at+1, at+1
		if !r.skipping {
			return r.buf[start:at], true
		}
		r.skipping = false
	}
}

// skipMarks goes past the LF of a CRLF and past the BOM. A CR ends its line without a look at
// what follows, which may be a long time coming.
func (r *Reader) skipMarks() {
	if r.afterCR && r.pos < r.end {
		r.afterCR = false
		if r.buf[r.pos] == '\n' {
			r.pos++
		}
	}
	if !r.began && r.end-r.pos >= len(byteOrderMark) {
		r.began = true
		if bytes.HasPrefix(r.buf[r.pos:r.end], byteOrderMark) {
			r.pos += len(byteOrderMark)
		}
	}
	r.seen = max(r.seen, r.pos)
}

// partial looks at the line of which only the beginning is there, and drops it if it is not to be
// kept until its end has come.
func (r *Reader) partial() {
	line := r.buf[r.pos:r.end]
	const longest = len("event:")
	if !r.skipping && len(line) < longest {
		return
	}
	if !r.skipping && bytes.IndexByte(line[:longest], ':') >= 0 {
		name, value := split(line)
		r.skipping = !r.fits(name, value)
	} else {
		r.skipping = true
	}
	if r.skipping {
		r.pos, r.seen = r.end, r.end
	}
}

// fits reports whether a field is to be kept. If it is one whose loss matters it marks the event.
func (r *Reader) fits(name, value []byte) bool {
	switch string(name) {
	case "data":
		size := r.dataEnd - r.data + len(value)
		if r.dataLines > 0 {
			size++
		}
		if size > r.maxBytes {
			r.spoil()
		}
		return !r.tooLong
	case "event", "id":
		if len(value) > maxFieldBytes {
			r.spoil()
			return false
		}
		return true
	case "retry":
		return len(value) <= maxFieldBytes
	}
	return false
}

// spoil gives up the data of the event, what came of it and what is to come.
func (r *Reader) spoil() {
	r.tooLong = true
	r.dataEnd = r.data
}

// field takes one whole line that is not empty.
func (r *Reader) field(line []byte) {
	name, value := split(line)
	if !r.fits(name, value) {
		return
	}
	switch string(name) {
	case "data":
		r.addData(value)
	case "event":
		r.event.Name = eventName(value)
	case "id":
		if bytes.IndexByte(value, 0) < 0 {
			r.event.ID, r.event.HasID = string(value), true
		}
	case "retry":
		r.event.Retry = retry(value, r.event.Retry)
	}
}

// addData joins value, which lies behind it in buf, to the data.
func (r *Reader) addData(value []byte) {
	r.dataLines++
	if r.dataLines == 1 {
		r.dataEnd = r.pos - 1 // where the line ended
		r.data = r.dataEnd - len(value)
		return
	}
	// The field name and the line end before it leave room for the LF.
	r.buf[r.dataEnd] = '\n'
	r.dataEnd += 1 + copy(r.buf[r.dataEnd+1:], value)
}

// fill reads once more.
func (r *Reader) fill() {
	r.makeRoom()
	for range 100 {
		n, err := r.r.Read(r.buf[r.end:])
		r.end += n
		r.err = err
		if n > 0 || err != nil {
			return
		}
	}
	r.err = io.ErrNoProgress
}

// makeRoom sees to it that a quarter of buf is free.
func (r *Reader) makeRoom() {
	held := r.dataEnd - r.data + r.end - r.pos
	size := len(r.buf)
	switch {
	case held == 0 && (size > keepBuffer || r.end <= minBuffer):
		size = minBuffer
	case held > size/4*3:
		size *= 2
	}
	switch {
	case size != len(r.buf):
		r.move(make([]byte, size))
	case held == 0 || size-r.end < size/4:
		r.move(r.buf)
	}
}

// move brings what is held to the front of buf, which may be the buffer itself.
func (r *Reader) move(buf []byte) {
	dataEnd := copy(buf, r.buf[r.data:r.dataEnd])
	end := dataEnd + copy(buf[dataEnd:], r.buf[r.pos:r.end])
	r.seen -= r.pos - dataEnd
	r.buf, r.data, r.dataEnd, r.pos, r.end = buf, 0, dataEnd, dataEnd, end
}

// split returns the name and value of a field. A comment has an empty name.
func split(line []byte) (name, value []byte) {
	name, value, _ = bytes.Cut(line, []byte(":"))
	return name, bytes.TrimPrefix(value, []byte(" "))
}

// eventName returns b as a string, without allocation for the names MCP uses.
func eventName(b []byte) string {
	switch string(b) {
	case "message":
		return "message"
	case "endpoint":
		return "endpoint"
	}
	return string(b)
}

// retry reads a number of milliseconds; what is not made of digits alone leaves the time as it was.
func retry(value []byte, was time.Duration) time.Duration {
	for _, c := range value {
		if c < '0' || c > '9' {
			return was
		}
	}
	const most = math.MaxInt64 / uint64(time.Millisecond)
	n, err := strconv.ParseUint(string(value), 10, 64)
	if errors.Is(err, strconv.ErrSyntax) { // empty
		return was
	}
	return time.Duration(min(n, most)) * time.Millisecond
}
