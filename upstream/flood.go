package upstream

import (
	"errors"
	"io"
)

// errEndless ends a connection or response on which something over the limit does not end. What is merely too long is read to its
// end, because what follows it is wanted.
var errEndless = errors.New("a message far over the limit that does not end")

// mostOf returns how many bytes of something are read at most where limit bytes are allowed.
func mostOf(limit int) int { return 4 * max(limit, 1<<20) }

// A floodgate lets the bytes of an event through, up to a bound.
type floodgate struct {
	r    io.Reader
	most int
	left int
}

// open begins an event.
func (g *floodgate) open() { g.left = g.most }

// Read reads from the stream; the error is errEndless when the bound is reached.
func (g *floodgate) Read(p []byte) (int, error) {
	if g.left <= 0 {
		return 0, errEndless
	}
	n, err := g.r.Read(p[:min(len(p), g.left)])
	g.left -= n
	return n, err
}
