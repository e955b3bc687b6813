package memhttp

import (
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// Pipe returns the two ends of a connection that holds up to bufferBytes in each direction. The
// first end has the address a, the second b. Closing an end lets the other read what is buffered
// and then io.EOF, and makes its writes fail with EPIPE.
func Pipe(bufferBytes int, a, b net.Addr) (net.Conn, net.Conn) {
	there, back := newHalf(bufferBytes), newHalf(bufferBytes)
	return &conn{in: back, out: there, local: a, remote: b}, &conn{in: there, out: back, local: b, remote: a}
}

// A conn is one end of a connection. It has CloseWrite, as net.TCPConn has.
type conn struct {
	in, out       *half
	local, remote net.Addr
}

func (c *conn) Read(b []byte) (int, error)  { return c.in.read(b) }
func (c *conn) Write(b []byte) (int, error) { return c.out.write(b) }
func (c *conn) LocalAddr() net.Addr         { return c.local }
func (c *conn) RemoteAddr() net.Addr        { return c.remote }

func (c *conn) Close() error {
	c.in.closeReader()
	c.out.closeWriter(true)
	return nil
}

// CloseWrite ends what the other end can read. This end can still be read.
func (c *conn) CloseWrite() error {
	c.out.closeWriter(false)
	return nil
}

func (c *conn) SetDeadline(t time.Time) error {
	c.in.reading.set(c.in, t)
	c.out.writing.set(c.out, t)
	return nil
}

func (c *conn) SetReadDeadline(t time.Time) error {
	c.in.reading.set(c.in, t)
	return nil
}

func (c *conn) SetWriteDeadline(t time.Time) error {
	c.out.writing.set(c.out, t)
	return nil
}

// A half is one direction of a connection.
type half struct {
	max int

	mu           sync.Mutex
	changed      *sync.Cond // on mu; whenever one of the fields below changed
	buf          []byte
	written      bool // the writer has said its last
	writerClosed bool // by Close, not by CloseWrite
	readerClosed bool
	reading      deadline
	writing      deadline
}

func newHalf(max int) *half {
	h := &half{max: max}
	h.changed = sync.NewCond(&h.mu)
	return h
}

func (h *half) read(b []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for {
		switch {
		case h.readerClosed:
			return 0, net.ErrClosed
		case h.reading.passed:
			return 0, os.ErrDeadlineExceeded
		case len(b) == 0:
			return 0, nil
		case len(h.buf) > 0:
			n := copy(b, h.buf)
			h.buf = h.buf[n:]
			if len(h.buf) == 0 {
				h.buf = nil
			}
			h.changed.Broadcast()
			return n, nil
		case h.written:
			return 0, io.EOF
		}
		h.changed.Wait()
	}
}

func (h *half) write(b []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := 0
	for {
		switch {
		case h.writerClosed:
			return n, net.ErrClosed
		case h.written, h.readerClosed:
			return n, syscall.EPIPE
		case h.writing.passed:
			return n, os.ErrDeadlineExceeded
		case len(b) == 0:
			return n, nil
		}
		if room := min(h.max-len(h.buf), len(b)); room > 0 {
			h.buf = append(h.buf, b[:room]...)
			b = b[room:]
			n += room
			h.changed.Broadcast()
			continue
		}
		h.changed.Wait()
	}
}

func (h *half) closeReader() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.readerClosed = true
	h.buf = nil
	h.reading.stop()
	h.changed.Broadcast()
}

func (h *half) closeWriter(all bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.written = true
	h.writerClosed = h.writerClosed || all
	h.writing.stop()
	h.changed.Broadcast()
}

// A deadline is guarded by the mutex of its half.
type deadline struct {
	timer   *time.Timer
	passed  bool
	changes int // counts changes, so that a timer that was too late to stop does nothing
}

func (d *deadline) set(h *half, t time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	d.stop()
	d.passed = false
	if !t.IsZero() {
		d.arm(h, time.Until(t))
	}
	h.changed.Broadcast()
}

func (d *deadline) arm(h *half, in time.Duration) {
	if in <= 0 {
		d.passed = true
		return
	}
	mine := d.changes
	d.timer = time.AfterFunc(in, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if d.changes == mine {
			d.passed = true
			h.changed.Broadcast()
		}
	})
}

func (d *deadline) stop() {
	d.changes++
	if d.timer != nil {
		d.timer.Stop()
		d.timer = nil
	}
}
