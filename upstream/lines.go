package upstream

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"slices"
)

// A lineReader reads lines that end with LF, and nothing else ends one (U+2028 does not); one CR
// before it goes too.
type lineReader struct {
	r    *bufio.Reader
	max  int // bytes of a line
	most int // bytes of a line over max before the input counts as broken; 0: it is read to its end
}

// endBytes is how much is kept of either end of a line that is too long.
const endBytes = 4 << 10

// A longLine is the error for a line over the limit. It has been read to its end.
type longLine struct {
	head, tail []byte // its first and last 4 KiB
	size       int
}

func (*longLine) Error() string { return "line over the limit" }

func newLineReader(r io.Reader, max int) *lineReader {
	return &lineReader{r: bufio.NewReaderSize(r, 64<<10), max: max}
}

// next returns a line without its end, in memory of its own. A last line that is cut short by the end of
// the input is dropped: half a message is none. The error is a *longLine, errEndless or one of the input's.
func (l *lineReader) next() ([]byte, error) {
	part, err := l.r.ReadSlice('\n')
	if err == nil && len(part) <= l.max+1 {
		return bytes.Clone(chomp(part)), nil
	}
	var line []byte
	for errors.Is(err, bufio.ErrBufferFull) && len(line)+len(part) <= l.max {
		if cap(line)-len(line) < len(part) { // doubled: append would add a quarter at a time, and copy a long line five times
			line = slices.Grow(line, max(len(line), 2*len(part)))
		}
		line = append(line, part...)
		part, err = l.r.ReadSlice('\n')
	}
	if err == nil && len(line)+len(part) <= l.max+1 {
		return chomp(append(line, part...)), nil
	}
	if err == nil || errors.Is(err, bufio.ErrBufferFull) {
		return nil, l.skip(line, part, err)
	}
	return nil, err
}

// skip reads to the end of a line of which start and part have been read.
func (l *lineReader) skip(start, part []byte, err error) error {
	long := &longLine{size: len(start) + len(part)}
	long.head = append(long.head, start[:min(len(start), endBytes)]...)
	long.head = append(long.head, part[:min(len(part), endBytes-len(long.head))]...)
	tail := joinTail(joinTail(nil, start), part)
	for errors.Is(err, bufio.ErrBufferFull) {
		part, err = l.r.ReadSlice('\n')
		long.size += len(part)
		tail = joinTail(tail, part)
		if l.most > 0 && long.size > l.most {
			return errEndless
		}
	}
	if err != nil {
		return err
	}
	long.tail = last(chomp(tail))
	return long
}

// joinTail returns what is to be kept of a line that ended with tail and goes on with part: room for the
// line's end too, which chomp takes away.
func joinTail(tail, part []byte) []byte {
	const keep = endBytes + len("\r\n")
	tail = append(tail, part[max(0, len(part)-keep):]...)
	return append(tail[:0], tail[max(0, len(tail)-keep):]...)
}

func last(b []byte) []byte { return b[max(0, len(b)-endBytes):] }

func chomp(line []byte) []byte {
	return bytes.TrimSuffix(bytes.TrimSuffix(line, []byte("\n")), []byte("\r"))
}
