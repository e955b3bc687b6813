package upstream

import (
	"bufio"
	"context"
	"errors"
	"io"
	"runtime"
	"sync"
)

// An outbox is the queue of lines for the server and their order. One goroutine writes them (run), so
// that nobody who hands one over waits for a server that does not read.
type outbox struct {
	max   int // bytes that may wait
	limit int // bytes that may wait when answers are counted too
	wake  chan struct{}

	mu     sync.Mutex
	lines  [][]byte
	spare  [][]byte      // buffers of lines that were written
	size   int           // bytes handed over and not yet written
	room   chan struct{} // closed when size has sunk; nil when nobody waits
	closed bool          // nothing more is taken
	cut    bool          // what waits is not to be written any more
}

var (
	errOutboxClosed = errors.New("connection is closed for writing")
	errOutboxFull   = errors.New("server does not read")
)

func newOutbox(max, limit int) *outbox {
	return &outbox{max: max, limit: limit, wake: make(chan struct{}, 1)}
}

const (
	maxSpares    = 64      // buffers that are kept
	maxSpareSize = 8 << 10 // bytes of one
)

// buffer returns an empty buffer for a line of n bytes.
func (b *outbox) buffer(n int) []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	if last := len(b.spare) - 1; last >= 0 && n <= maxSpareSize {
		buf := b.spare[last]
		b.spare[last], b.spare = nil, b.spare[:last]
		if cap(buf) >= n {
			return buf
		}
	}
	return make([]byte, 0, n)
}

// keep takes the buffer of a line that was written. The caller holds mu.
func (b *outbox) keep(line []byte) {
	if len(b.spare) < maxSpares && cap(line) <= maxSpareSize {
		b.spare = append(b.spare, line[:0])
	}
}

// push queues a line, which is the outbox's from here on. It waits for room until ctx ends, whose cause is the error then.
func (b *outbox) push(ctx context.Context, line []byte) error {
	for {
		room, err := b.try(line, b.max)
		if room == nil {
			return err
		}
		select {
		case <-room:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// force queues a line without waiting: a cancellation, or an answer that the reader of the connection
// gives. The error is errOutboxFull when far too much waits already.
func (b *outbox) force(line []byte) error {
	room, err := b.try(line, b.limit)
	if room != nil {
		return errOutboxFull
	}
	return err
}

// try queues a line if less than max bytes wait, and returns nil. Otherwise it returns a channel that
// is closed when trying again makes sense.
func (b *outbox) try(line []byte, max int) (room <-chan struct{}, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil, errOutboxClosed
	}
	if b.size > 0 && b.size+len(line) > max {
		if b.room == nil {
			b.room = make(chan struct{})
		}
		return b.room, nil
	}
	b.lines = append(b.lines, line)
	b.size += len(line)
	b.nudge()
	return nil, nil
}

// finish takes no more lines; run returns when those that wait are written.
func (b *outbox) finish() { b.shut(false) }

// abandon takes no more lines and drops those that wait.
func (b *outbox) abandon() { b.shut(true) }

func (b *outbox) shut(cut bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	b.cut = b.cut || cut
	b.freed()
	b.nudge()
}

// nudge wakes run. The caller holds mu.
func (b *outbox) nudge() {
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// freed tells everybody who waits for room. The caller holds mu.
func (b *outbox) freed() {
	if b.room != nil {
		close(b.room)
		b.room = nil
	}
}

// run writes to w until the outbox is closed or a write fails.
func (b *outbox) run(w io.Writer) error {
	bw := bufio.NewWriterSize(w, 32<<10)
	var lines [][]byte
	for range b.wake {
		runtime.Gosched() // who is about to hand a line over does it now: one write for all
		for {
			var more bool
			if lines, more = b.take(lines[:0]); !more {
				return nil
			}
			if len(lines) == 0 {
				break
			}
			if err := b.write(bw, lines); err != nil {
				b.abandon()
				return err
			}
		}
	}
	return nil
}

// take exchanges the lines that wait for the empty slice spent. more is false when there are none
// and will be none.
func (b *outbox) take(spent [][]byte) (lines [][]byte, more bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.cut || len(b.lines) == 0 && b.closed {
		return nil, false
	}
	lines, b.lines = b.lines, spent
	return lines, true
}

func (b *outbox) write(bw *bufio.Writer, lines [][]byte) error {
	n := 0
	for _, line := range lines {
		if _, err := bw.Write(line); err != nil {
			return err
		}
		n += len(line)
	}
	if err := bw.Flush(); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, line := range lines {
		b.keep(line)
	}
	clear(lines)
	b.size -= n
	b.freed()
	return nil
}
