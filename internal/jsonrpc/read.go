package jsonrpc

import (
	"io"
	"slices"
	"sync"
)

// blockBytes is how much room is made for a text on the word of the length that it is said to have, and the size of the pieces that
// a longer one is read in.
const blockBytes = 64 << 10

// shortBytes is the room for a text of which no length is known, to begin with.
const shortBytes = 512

// A block is a piece of a text that is still being read.
type block [blockBytes]byte

var blocks = sync.Pool{New: func() any { return new(block) }}

// ReadText reads r to its end and returns what was read in one piece, also with an error, which is that of r. length is how many bytes
// are said to come, negative if nobody said: nothing depends on its truth.
//
// While a long text comes it takes as much memory as has come of it, and a moment at the end twice that: many texts that come at the
// same time do not have room that is only promised or that a buffer grows ahead by.
func ReadText(r io.Reader, length int64) ([]byte, error) {
	if length < 0 {
		length = shortBytes
	}
	text, err := fill(r, make([]byte, 0, min(length, blockBytes)+1)) // one more, which shows the end of it
	for err == nil && len(text) < blockBytes {
		text, err = fill(r, slices.Grow(text, min(cap(text), blockBytes)))
	}
	if err == nil {
		text, err = readBlocks(r, text)
	}
	if err == io.EOF {
		err = nil
	}
	return text, err
}

// fill reads until text has no room left. The error is io.EOF at the end.
func fill(r io.Reader, text []byte) ([]byte, error) {
	for len(text) < cap(text) {
		n, err := r.Read(text[len(text):cap(text)])
		text = text[:len(text)+n]
		if err != nil {
			return text, err
		}
	}
	return text, nil
}

// readBlocks reads what comes after start and returns both together.
func readBlocks(r io.Reader, start []byte) ([]byte, error) {
	var held []*block
	parts := [][]byte{start}
	defer func() {
		for _, b := range held {
			blocks.Put(b)
		}
	}()
	for {
		b := blocks.Get().(*block)
		held = append(held, b)
		part, err := fill(r, b[:0])
		parts = append(parts, part)
		if err != nil {
			return slices.Concat(parts...), err
		}
	}
}
