package main

import (
	"io"
	"net/http"
)

func event(w io.Writer, msg []byte) {
	b := make([]byte, 0, len(msg)+32)
	b = append(b, "event: message\ndata: "...)
	b = append(b, msg...)
	w.Write(append(b, '\n', '\n'))
}

func stream(w http.ResponseWriter, r *http.Request, id, hello string) {
	if *lean {
		leanStream(w, id, hello)
		return
	}
	s := newQueue()
	smu.Lock()
	sess[id] = s
	smu.Unlock()
	defer func() { smu.Lock(); delete(sess, id); smu.Unlock() }()
	w.Header().Set("Content-Type", "text/event-stream")
	io.WriteString(w, hello)
	f := w.(http.Flusher)
	f.Flush()
	for {
		select {
		case <-r.Context().Done():
			return
		case <-s.wake:
			for _, m := range s.take() {
				event(w, m)
			}
			f.Flush()
		}
	}
}

// leanStream takes the connection away from net/http, with its buffers and its
// goroutine, and leaves one small goroutine that waits for the client to go.
func leanStream(w http.ResponseWriter, id, hello string) {
	c, _, err := w.(http.Hijacker).Hijack()
	if err != nil {
		return
	}
	s := &queue{conn: c}
	smu.Lock()
	sess[id] = s
	smu.Unlock()
	io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"+hello)
	go func() {
		var b [1]byte
		c.Read(b[:])
		smu.Lock()
		delete(sess, id)
		smu.Unlock()
		c.Close()
	}()
}
