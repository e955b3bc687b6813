package main

import (
	"bufio"
	"bytes"
	"os"
	"time"

	"github.com/mcp-dualstack/bridge/test/load/scan"
)

// stdio serves one client until its stdin ends.
func stdio() {
	r := bufio.NewReaderSize(os.Stdin, 1<<16)
	w := bufio.NewWriterSize(os.Stdout, 1<<16)
	put := func(b []byte) {
		w.Write(b) // an error shows at Flush, and as the end of stdin
		w.WriteByte('\n')
		if *gap > 0 {
			w.Flush()
			time.Sleep(*gap)
		}
	}
	var listens [][]byte // their raw ids
	all := func(b []byte) {
		if speaksLegacy() {
			put(b)
		}
		for _, id := range listens {
			put(tagged(b, id))
		}
	}
	for {
		line, err := readLine(r)
		if len(line) > 1 {
			line = bytes.TrimRight(line, "\r\n")
			if e := scan.Envelope(line); string(e.Method) == "subscriptions/listen" && speaksModern() {
				listens = append(listens, append([]byte(nil), e.ID...))
				put(acknowledgement(e.ID))
			} else if out := handle(line, caller{emit: put, all: all}); out != nil {
				put(out)
			}
			if r.Buffered() == 0 {
				w.Flush()
			}
		}
		if err != nil {
			w.Flush()
			return
		}
	}
}

func readLine(r *bufio.Reader) ([]byte, error) {
	line, err := r.ReadSlice('\n')
	if err != bufio.ErrBufferFull {
		return line, err
	}
	full := append([]byte(nil), line...)
	for err == bufio.ErrBufferFull {
		line, err = r.ReadSlice('\n')
		full = append(full, line...)
	}
	return full, err
}
