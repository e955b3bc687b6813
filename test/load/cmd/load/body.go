package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"strconv"
)

// A body is what follows a response head, chunked or not. Reads end with io.EOF at its end.
type body struct {
	br      *bufio.Reader
	chunked bool
	left    int64 // -1: until the peer closes
	done    bool
	first   bool
}

func (b *body) Read(p []byte) (int, error) {
	for {
		if b.done {
			return 0, io.EOF
		}
		if b.left > 0 || b.left == -1 {
			if b.left > 0 && int64(len(p)) > b.left {
				p = p[:b.left]
			}
			n, err := b.br.Read(p)
			if b.left > 0 {
				b.left -= int64(n)
				if b.left == 0 && !b.chunked {
					b.done = true
				}
			} else if err == io.EOF {
				b.done = true
			}
			return n, err
		}
		if !b.chunked {
			b.done = true
			return 0, io.EOF
		}
		if !b.first {
			if _, err := b.br.Discard(2); err != nil {
				return 0, err
			}
		}
		b.first = false
		line, err := b.br.ReadSlice('\n')
		if err != nil {
			return 0, err
		}
		line = bytes.TrimSpace(line)
		if i := bytes.IndexByte(line, ';'); i >= 0 {
			line = line[:i]
		}
		n, err := strconv.ParseInt(string(line), 16, 64)
		if err != nil {
			return 0, fmt.Errorf("chunk size: %w", err)
		}
		if n == 0 {
			for { // trailers
				l, err := b.br.ReadSlice('\n')
				if err != nil {
					return 0, err
				}
				if len(bytes.TrimSpace(l)) == 0 {
					break
				}
			}
			b.done = true
			return 0, io.EOF
		}
		b.left = n
	}
}

// events calls f for every SSE event of the current body until f returns true
// or the body ends.
func (c *conn) events(f func(name, data []byte) bool) error {
	if c.lr == nil {
		c.lr = bufio.NewReaderSize(&c.body, c.size)
	} else {
		c.lr.Reset(&c.body)
	}
	var name, data []byte
	has := false
	for {
		line, err := c.lr.ReadSlice('\n')
		if err == bufio.ErrBufferFull {
			full := append(make([]byte, 0, 4*len(line)), line...)
			for err == bufio.ErrBufferFull {
				line, err = c.lr.ReadSlice('\n')
				full = append(full, line...)
			}
			line = full
		}
		if err != nil {
			if err == io.EOF {
				return nil
			}
			return err
		}
		n := len(line) - 1
		if n > 0 && line[n-1] == '\r' {
			n--
		}
		line = line[:n]
		switch {
		case n == 0:
			if has {
				if f(name, data) {
					return nil
				}
			}
			name, data, has = name[:0], data[:0], false
		case bytes.HasPrefix(line, []byte("data:")):
			v := line[5:]
			if len(v) > 0 && v[0] == ' ' {
				v = v[1:]
			}
			if has {
				data = append(data, '\n')
			}
			data = append(data, v...)
			has = true
		case bytes.HasPrefix(line, []byte("event:")):
			name = append(name[:0], bytes.TrimSpace(line[6:])...)
		}
	}
}
