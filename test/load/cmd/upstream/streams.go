package main

import (
	"crypto/rand"
	"encoding/hex"
	"io"
	"net/http"
	"strings"
	"sync"
)

// A sub is one open stream.
type sub struct {
	ch   chan []byte
	gone <-chan struct{} // the client has gone
	meta []byte          // the raw id of a subscriptions/listen, to be written on what goes there
}

const subQueue = 1024 // messages

var (
	mu   sync.Mutex
	subs = map[string]*sub{} // by session id, or by a key of its own
)

func newID() string {
	var b [16]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// broadcast tells every stream. A stream whose queue is full misses it.
func broadcast(msg []byte) {
	mu.Lock()
	defer mu.Unlock()
	for _, s := range subs {
		m := msg
		if s.meta != nil {
			m = tagged(msg, s.meta)
		}
		select {
		case s.ch <- m:
		default:
		}
	}
}

// tagged returns a notification without params as it goes to the listen with that raw id.
func tagged(msg, id []byte) []byte {
	m := append(append(append([]byte(nil), msg[:len(msg)-1]...), `,"params":{"_meta":{"io.modelcontextprotocol/subscriptionId":`...), id...)
	return append(m, `}}}`...)
}

func acknowledgement(id []byte) []byte {
	ack := append([]byte(`{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":`), id...)
	return append(ack, `},"notifications":{"toolsListChanged":true}}}`...)
}

// subscribe adds a stream; the function returned takes it away.
func subscribe(key string, s *sub) func() {
	mu.Lock()
	subs[key] = s
	mu.Unlock()
	return func() {
		mu.Lock()
		delete(subs, key)
		mu.Unlock()
	}
}

func sseHeader(w http.ResponseWriter) {
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-cache, no-transform")
	h.Set("X-Accel-Buffering", "no")
}

func event(w io.Writer, msg []byte) {
	b := make([]byte, 0, len(msg)+32)
	b = append(b, "event: message\ndata: "...)
	b = append(b, msg...)
	w.Write(append(b, '\n', '\n')) // an error shows as the end of the request's context
}

// pump writes what comes until the client goes, or until done says that a message was the last; done may be nil.
func pump(w http.ResponseWriter, r *http.Request, ch chan []byte, done func([]byte) bool) {
	f := w.(http.Flusher)
	f.Flush()
	for {
		select {
		case <-r.Context().Done():
			return
		case m := <-ch:
			last := done != nil && done(m)
			event(w, m)
			for n := len(ch); n > 0 && !last; n-- {
				m = <-ch
				last = done != nil && done(m)
				event(w, m)
			}
			f.Flush()
			if last {
				return
			}
		}
	}
}

func legacyStream(w http.ResponseWriter, r *http.Request) {
	id := newID()
	s := &sub{ch: make(chan []byte, subQueue), gone: r.Context().Done()}
	defer subscribe(id, s)()
	sseHeader(w)
	io.WriteString(w, "event: endpoint\ndata: /message?sessionId="+id+"\n\n")
	pump(w, r, s.ch, nil)
}

func legacyPost(w http.ResponseWriter, r *http.Request) {
	id := strings.TrimPrefix(r.URL.RawQuery, "sessionId=")
	mu.Lock()
	s := subs[id]
	mu.Unlock()
	if s == nil {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	body, err := readBody(r)
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	w.WriteHeader(http.StatusAccepted)
	put := func(b []byte) {
		select {
		case s.ch <- b:
		case <-s.gone:
		}
	}
	if out := handle(body, caller{emit: put, all: broadcast}); out != nil && !spoil(put, id, out) {
		put(out)
	}
}
