package upstream_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/negotiate"
	"github.com/mcp-dualstack/bridge/upstream"
)

// An endless server says something without end where it is told to, over a real socket.
type endless struct {
	where string // name of the request (hit.name), or "sse" for the stream of HTTP+SSE
	what  string // header, body, event, or endpoint
	rest  func(http.ResponseWriter, *hit)

	sent   chan int       // bytes that it could send
	floods sync.WaitGroup // under way
}

func (e *endless) answer(w http.ResponseWriter, h *hit) {
	if h.name() != e.where {
		e.rest(w, h)
		return
	}
	e.floods.Add(1)
	defer e.floods.Done()
	piece := strings.Repeat("x", 64<<10)
	if e.what == "header" {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			panic(err)
		}
		defer conn.Close()
		e.sent <- e.flood(conn, "HTTP/1.1 200 OK\r\n", "X-Long: "+strings.Repeat("x", 1<<10)+"\r\n")
		return
	}
	start := map[string]string{"body": `{"jsonrpc":"2.0","id":1,"result":{"x":"`, "event": "data: ", "endpoint": "event: endpoint\ndata: /",
		"message": "event: endpoint\ndata: /messages\n\ndata: "}[e.what]
	kind := "text/event-stream"
	if e.what == "body" {
		kind = "application/json"
	}
	w.Header().Set("Content-Type", kind)
	e.sent <- e.flood(flushed{w}, start, piece)
}

// flood writes start and then piece again and again, as long as somebody reads, and returns how many bytes.
func (e *endless) flood(w io.Writer, start, piece string) int {
	total, _ := w.Write([]byte(start))
	for total < 4<<30 {
		n, err := w.Write([]byte(piece))
		if total += n; err != nil {
			break
		}
	}
	return total
}

type flushed struct{ http.ResponseWriter }

func (f flushed) Write(p []byte) (int, error) {
	n, err := f.ResponseWriter.Write(p)
	if err == nil {
		err = http.NewResponseController(f.ResponseWriter).Flush()
	}
	return n, err
}

// A server that sends gigabytes gets no further than the bounds, wherever it does so, and what waits for it ends in an error.
func TestEndlessAnswers(t *testing.T) {
	const limit = 1 << 20    // MaxMessageBytes
	const sockets = 24 << 20 // what buffers of both ends may hold beside it
	nothing := func(w http.ResponseWriter, h *hit) { say(w, h, `{}`) }
	legacy, modern := legacyStub("2025-11-25", nothing), modernStub(nothing)
	endpoint := func(w http.ResponseWriter, h *hit) {
		if h.Method != http.MethodGet {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		events(w)("event: endpoint\ndata: /messages\n\n")
		<-h.Context().Done()
	}
	for name, test := range map[string]struct {
		client      negotiate.Revision
		where, what string
		rest        func(http.ResponseWriter, *hit)
	}{
		"header of the probe":              {negotiate.Rev20260728, "server/discover", "header", modern},
		"body of the probe":                {negotiate.Rev20260728, "server/discover", "body", modern},
		"event of the probe":               {negotiate.Rev20260728, "server/discover", "event", modern},
		"body of the handshake":            {negotiate.Rev20251125, "initialize", "body", legacy},
		"event of the handshake":           {negotiate.Rev20251125, "initialize", "event", legacy},
		"header of a session's call":       {negotiate.Rev20251125, "tools/call", "header", legacy},
		"body of a session's call":         {negotiate.Rev20251125, "tools/call", "body", legacy},
		"event of a session's call":        {negotiate.Rev20251125, "tools/call", "event", legacy},
		"header of a stateless call":       {negotiate.Rev20260728, "tools/call", "header", modern},
		"body of a stateless call":         {negotiate.Rev20260728, "tools/call", "body", modern},
		"event of a stateless call":        {negotiate.Rev20260728, "tools/call", "event", modern},
		"endpoint event":                   {negotiate.Rev20241105, "GET", "endpoint", endpoint},
		"header of the stream of the SSE":  {negotiate.Rev20241105, "GET", "header", endpoint},
		"body of an SSE post":              {negotiate.Rev20241105, "initialize", "body", endpoint},
		"message on the stream of the SSE": {negotiate.Rev20241105, "GET", "message", endpoint},
	} {
		t.Run(name, func(t *testing.T) {
			e := &endless{where: test.where, what: test.what, rest: test.rest, sent: make(chan int, 64)}
			srv := httptest.NewServer(&webStub{TB: t, answer: e.answer})
			defer srv.Close()
			o := &upstream.Options{MaxMessageBytes: limit, ProbeTimeout: 2 * time.Second, OpenTimeout: 5 * time.Second, CloseGrace: 100 * time.Millisecond}
			r, err := upstream.URL(srv.URL+"/mcp", sameEra(o))
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			sess, err := r.Open(ctx, webClient(test.client, nil))
			if err == nil {
				_, err = sess.Call(ctx, toolCall(`{}`), nil)
			}
			if err == nil || ctx.Err() != nil {
				t.Errorf("got %v, want an error in time", err)
			}
			if err := r.Close(); err != nil {
				t.Error(err)
			}
			e.floods.Wait()
			close(e.sent)
			floods := 0
			for n := range e.sent {
				if floods++; n > limit+sockets {
					t.Errorf("the server could send %d bytes", n)
				}
			}
			if floods == 0 {
				t.Error("the server was not asked")
			}
		})
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	if m.HeapSys > 1<<30 {
		t.Errorf("the heap has %d bytes", m.HeapSys)
	}
}

// A child that says something without end loses its connection; calls do not wait for ever.
func TestEndlessLine(t *testing.T) {
	inBubble(t, &upstream.Options{MaxMessageBytes: 64 << 10}, func(t *testing.T, up *upstream.Upstream, made chan *wire) {
		s, w := openLegacy(t, up, made, nil)
		p := call(s, "tools/call", "", nil)
		w.read()
		sent := (*endless)(nil).flood(w, `{"jsonrpc":"2.0","id":3,"result":"`, strings.Repeat("x", 64<<10))
		_, err := p.wait()
		equal(t, "call", reason(err), exchange.ReasonLost)
		if sent > 8<<20 {
			t.Errorf("the child could send %d bytes", sent)
		}
		<-s.Done()
	})
}
