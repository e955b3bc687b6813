package hijack

import (
	"context"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"
)

const (
	manyBytes    = 32 << 10  // of what is buffered, which are then sent
	maxKeptBytes = 128 << 10 // the largest buffer that is kept for other streams
	sizeBytes    = 10        // room for the size of a chunk: eight digits and CRLF
)

const (
	crlf = "\r\n"
	last = "0\r\n\r\n" // chunk
)

// chunks write a head and a body in chunks (RFC 9112, section 7.1), each flush in one write. No buffer is held while there is nothing to send.
type chunks struct {
	header http.Header // nil once the head is in the buffer
	buf    *[]byte     // nil: empty; else the head, if it is still to be sent, room for the size of a chunk, and its data
	chunk  int         // where the room for its size begins
}

var buffers = sync.Pool{New: func() any { return new([]byte) }}

func begin(h http.Header) chunks { return chunks{header: h} }

// fields returns the header fields, an empty map once they are written.
func (c *chunks) fields() http.Header {
	if c.header == nil {
		return http.Header{}
	}
	return c.header
}

// open returns the buffer, with room for the size of a chunk before its data.
func (c *chunks) open() *[]byte {
	if c.buf == nil {
		c.buf = buffers.Get().(*[]byte)
		*c.buf = append((*c.buf)[:0], c.head()...)
		c.header, c.chunk = nil, len(*c.buf)
		*c.buf = append(*c.buf, "          "[:sizeBytes]...)
	}
	return c.buf
}

// drop gives the buffer back.
func (c *chunks) drop() {
	if c.buf != nil && cap(*c.buf) <= maxKeptBytes {
		buffers.Put(c.buf)
	}
	c.buf = nil
}

// add buffers p and returns how much is buffered now, in bytes.
func (c *chunks) add(p []byte) int {
	b := c.open()
	*b = append(*b, p...)
	return len(*b)
}

// flush writes what is buffered, and the end of the body if it is the end.
func (c *chunks) flush(w io.Writer, end bool) error {
	if c.buf == nil && c.header == nil && !end {
		return nil
	}
	out := c.seal()
	if end {
		out = append(out, last...)
	}
	_, err := w.Write(out)
	c.drop()
	return err
}

// writeLarge writes what is buffered and p, without a copy of it.
func (c *chunks) writeLarge(w io.Writer, p []byte) error {
	out := append(strconv.AppendInt(c.seal(), int64(len(p)), 16), crlf...)
	parts := net.Buffers{out, p, []byte(crlf)}
	_, err := parts.WriteTo(w)
	c.drop()
	return err
}

// seal makes one chunk of the data in the buffer and returns what is to be sent: the head, if it is still to be, and the chunk.
func (c *chunks) seal() []byte {
	out := *c.open()
	n := len(out) - c.chunk - sizeBytes
	if n == 0 {
		return out[:c.chunk]
	}
	var room [sizeBytes]byte
	size := append(strconv.AppendInt(room[:0], int64(n), 16), crlf...)
	slack := sizeBytes - len(size)
	copy(out[c.chunk+slack:], size)
	copy(out[slack:], out[:c.chunk]) // the head moves next to it
	return append(out[slack:], crlf...)
}

// head returns the head of the response, nothing if it was sent.
func (c *chunks) head() []byte {
	if c.header == nil {
		return nil
	}
	b := &sliceWriter{make([]byte, 0, 512)}
	b.add("HTTP/1.1 200 OK\r\n")
	if _, ok := c.header["Date"]; !ok {
		b.add("Date: " + time.Now().UTC().Format(http.TimeFormat) + crlf)
	}
	_ = c.header.WriteSubset(b, ofConnection) // a slice takes everything
	b.add("Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n")
	return b.b
}

// ofConnection are the fields that say how the body is sent and what becomes of the connection.
var ofConnection = map[string]bool{"Connection": true, "Content-Length": true, "Keep-Alive": true, "Trailer": true, "Transfer-Encoding": true}

type sliceWriter struct{ b []byte }

func (w *sliceWriter) add(s string) { w.b = append(w.b, s...) }

func (w *sliceWriter) Write(p []byte) (int, error) {
	w.b = append(w.b, p...)
	return len(p), nil
}

// A client that was sent everything has lingerTime, or lingerBytes, to close its side: closing while something it sent is unread would
// reset the connection, which may take from it what it has not read yet.
const (
	lingerTime  = 500 * time.Millisecond
	lingerBytes = 256 << 10
)

// attend waits for the client to leave, which it tells gone, and closes the connection after the handler has returned (ended). What a
// client sends behind its request is not read, and ends the waiting, as in net/http: who has more to say is there.
func attend(conn net.Conn, more bool, gone context.CancelFunc, ended <-chan struct{}) {
	if !more {
		var b [1]byte
		if n, _ := conn.Read(b[:]); n == 0 {
			gone()
		}
	}
	<-ended
	if conn.SetReadDeadline(time.Now().Add(lingerTime)) == nil {
		_, _ = io.CopyN(io.Discard, conn, lingerBytes) // whatever ends it
	}
	_ = conn.Close() // there is nobody to tell
}

// closeWrite tells the client that nothing more comes, and wakes who waits for it to leave.
func closeWrite(conn net.Conn) {
	if c, ok := conn.(interface{ CloseWrite() error }); ok {
		_ = c.CloseWrite() // the connection is closed in any case
	}
	_ = conn.SetReadDeadline(time.Now().Add(lingerTime)) // as before
}
