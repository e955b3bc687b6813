// Floor is not a bridge to ship: it is the least a Go process can do and still join many HTTP clients to one stdio child. It
// gives every request an id of its own, swaps the id back on the reply, and keeps no log, no limits, no validation, no replay
// and no version record. The distance between it and a real bridge is the price of those features.
package main

import (
	"crypto/rand"
	"encoding/hex"
	"flag"
	"io"
	"log"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/mcp-dualstack/bridge/test/load/scan"
)

type pending struct {
	id   []byte
	tok  []byte // the client's own progress token
	sink *queue
}

var (
	next  atomic.Int64
	pmu   sync.Mutex
	pend  = map[int64]*pending{}
	smu   sync.RWMutex
	sess  = map[string]*queue{}
	lean  = new(bool)
	lines = make(chan []byte, 1024)
)

func newID() string {
	var b [16]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

func splice(msg []byte, pos, n int, with []byte) []byte {
	out := make([]byte, 0, len(msg)-n+len(with)+1)
	out = append(out, msg[:pos]...)
	out = append(out, with...)
	return append(out, msg[pos+n:]...)
}

func body(r *http.Request) []byte {
	if n := r.ContentLength; n >= 0 {
		b := make([]byte, n)
		io.ReadFull(r.Body, b)
		return b
	}
	b, _ := io.ReadAll(r.Body)
	return b
}

func main() {
	addr := flag.String("addr", "127.0.0.1:23004", "listen address")
	cmd := flag.String("stdio", "", "child command")
	flag.BoolVar(lean, "lean", false, "hold streams without net/http's buffers and goroutine")
	flag.Parse()
	child(*cmd)
	m := http.NewServeMux()
	m.HandleFunc("GET /sse", func(w http.ResponseWriter, r *http.Request) {
		id := newID()
		stream(w, r, id, "event: endpoint\ndata: /message?sessionId="+id+"\n\n")
	})
	m.HandleFunc("POST /message", func(w http.ResponseWriter, r *http.Request) {
		smu.RLock()
		s := sess[strings.TrimPrefix(r.URL.RawQuery, "sessionId=")]
		smu.RUnlock()
		if s == nil {
			w.WriteHeader(404)
			return
		}
		b := body(r)
		send(b, scan.Envelope(b), s)
		w.WriteHeader(202)
	})
	m.HandleFunc("GET /mcp", func(w http.ResponseWriter, r *http.Request) {
		stream(w, r, r.Header.Get("Mcp-Session-Id"), "")
	})
	m.HandleFunc("DELETE /mcp", func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(204) })
	m.HandleFunc("POST /mcp", func(w http.ResponseWriter, r *http.Request) {
		b := body(r)
		e := scan.Envelope(b)
		if e.ID == nil {
			send(b, e, nil)
			w.WriteHeader(202)
			return
		}
		if string(e.Method) == "initialize" {
			w.Header().Set("Mcp-Session-Id", newID())
		}
		sink := newQueue()
		send(b, e, sink)
		streaming := false
		for done := false; !done; {
			<-sink.wake
			for _, msg := range sink.take() {
				done = scan.Envelope(msg).Method == nil
				if done && !streaming {
					w.Header().Set("Content-Type", "application/json")
					w.Header().Set("Content-Length", strconv.Itoa(len(msg)))
					w.Write(msg)
					return
				}
				if !streaming {
					streaming = true
					w.Header().Set("Content-Type", "text/event-stream")
				}
				event(w, msg)
			}
			if !done {
				w.(http.Flusher).Flush()
			}
		}
	})
	log.Fatal(http.ListenAndServe(*addr, m))
}
