package main

import (
	"bytes"
	"sync/atomic"
)

var replies atomic.Int64

// spoil applies the fault asked for to every 50th reply. It reports whether the reply was dealt with.
func spoil(put func([]byte), own string, out []byte) bool {
	if *fault == "" || replies.Add(1)%50 != 0 {
		return false
	}
	switch *fault {
	case "drop":
		return true
	case "dup":
		put(out)
	case "swap":
		mu.Lock()
		for id, s := range subs {
			if id != own {
				s.ch <- out
				break
			}
		}
		mu.Unlock()
		return true
	case "corrupt":
		put(bytes.Replace(out, []byte("xxxxxxxx"), nil, 1))
		return true
	case "cut":
		put(bytes.Replace(out, []byte(`"result"`), []byte(`"resutl"`), 1))
		return true
	case "order":
		put([]byte(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1}}`))
	}
	return false
}
