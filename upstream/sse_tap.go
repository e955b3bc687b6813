package upstream

import (
	"bufio"
	"bytes"
	"io"
)

// An eventTap is a stream of events on its way to the reader that takes them apart. It keeps both ends of the event that is
// being read, so that of one over the limit it can be told which call it answers. No Read goes beyond the blank line that ends
// an event.
type eventTap struct {
	r    *bufio.Reader
	seen func() // called when bytes have come; nil: nobody asks

	blank bool // at the beginning of a line
	cr    bool // after a CR, so that a LF belongs to the line end before
	ended bool // the event has ended with the last Read

	head, tail []byte // of the event, as they came
	size       int
	most       int // bytes of an event before the stream counts as broken; 0: no bound
}

func newEventTap(r io.Reader, seen func()) *eventTap {
	return &eventTap{r: bufio.NewReaderSize(r, 16<<10), seen: seen, blank: true}
}

// Read reads up to the end of the event.
func (t *eventTap) Read(p []byte) (int, error) {
	if _, err := t.r.Peek(1); err != nil {
		return 0, err
	}
	if t.seen != nil {
		t.seen()
	}
	if t.ended {
		t.size, t.ended = 0, false
	}
	if t.most > 0 && t.size > t.most {
		return 0, errEndless
	}
	part, _ := t.r.Peek(min(len(p), t.r.Buffered()))
	n := copy(p, part[:t.scan(part)])
	_, _ = t.r.Discard(n) // it is buffered
	t.keep(p[:n])
	return n, nil
}

// scan returns how much of part belongs to the event.
func (t *eventTap) scan(part []byte) int {
	for i := 0; i < len(part); {
		switch c := part[i]; {
		case c == '\n' && t.cr:
			t.cr = false
			i++
		case c == '\n' || c == '\r':
			t.cr = c == '\r'
			i++
			if t.blank {
				t.ended = true
				return i
			}
			t.blank = true
		default:
			t.blank, t.cr = false, false
			next := bytes.IndexAny(part[i:], "\r\n")
			if next < 0 {
				return len(part)
			}
			i += next
		}
	}
	return len(part)
}

// keep notes what has been read.
func (t *eventTap) keep(part []byte) {
	if t.size == 0 {
		t.head, t.tail = t.head[:0], t.tail[:0]
	}
	t.size += len(part)
	t.head = append(t.head, part[:min(len(part), max(0, endBytes-len(t.head)))]...)
	t.tail = joinTail(t.tail, part)
}

// longLine returns the ends of the data of the event.
func (t *eventTap) longLine() *longLine {
	l := &longLine{size: t.size}
	for _, line := range eventLines(t.head) {
		if data, ok := bytes.CutPrefix(line, []byte("data:")); ok {
			l.head = bytes.TrimPrefix(data, []byte(" "))
			break
		}
	}
	lines := eventLines(t.tail) // the first may be the end of one
	for i := len(lines) - 1; i >= 0 && l.tail == nil; i-- {
		data, ok := bytes.CutPrefix(lines[i], []byte("data:"))
		if ok || i == 0 {
			l.tail = last(data)
		}
	}
	return l
}

func eventLines(text []byte) [][]byte {
	return bytes.Split(bytes.ReplaceAll(text, []byte("\r"), newline), newline)
}
