package streamable_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/internal/memhttp"
	"github.com/mcp-dualstack/bridge/streamable"
)

// A sink is a ResponseWriter that keeps nothing but the status.
type sink struct {
	header http.Header
	status int
	bytes  int
}

func (s *sink) Header() http.Header         { return s.header }
func (s *sink) WriteHeader(status int)      { s.status = status }
func (s *sink) Write(b []byte) (int, error) { s.bytes += len(b); return len(b), nil }
func (s *sink) Flush()                      {}

func (s *sink) SetReadDeadline(time.Time) error  { return nil }
func (s *sink) SetWriteDeadline(time.Time) error { return nil }

// A replayer calls the front with the same POST again and again, without a network.
type replayer struct {
	f    http.Handler
	req  *http.Request
	body *bytes.Reader
	w    sink
}

func newReplayer(tb testing.TB, f http.Handler, body string, headers ...string) *replayer {
	tb.Helper()
	r := &replayer{f: f, body: bytes.NewReader([]byte(body))}
	req, err := http.NewRequest(http.MethodPost, "/mcp", nil)
	if err != nil {
		tb.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", both)
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		req.Header.Set(name, value)
	}
	req.RemoteAddr = "127.0.0.1:9"
	req.ContentLength = int64(len(body))
	req.Body = io.NopCloser(r.body)
	r.req = req
	r.w.header = make(http.Header)
	return r
}

func (r *replayer) once(tb testing.TB) {
	clear(r.w.header)
	r.w.status, r.w.bytes = 0, 0
	r.body.Seek(0, io.SeekStart)
	r.f.ServeHTTP(&r.w, r.req)
	if r.w.status != http.StatusOK || r.w.bytes == 0 {
		tb.Fatalf("status %d, %d bytes", r.w.status, r.w.bytes)
	}
}

// forwards returns what forwards one call in each way. The server does nothing.
func forwards(tb testing.TB) map[string]*replayer {
	s := &script{call: func(context.Context, exchange.Request, exchange.Peer) (exchange.Response, error) {
		return exchange.Response{Result: []byte(`{"content":[{"type":"text","text":"hello"}]}`)}, nil
	}}
	f := streamable.New(s, nil)
	tb.Cleanup(func() { f.Close() })
	open := newReplayer(tb, f, initialize("2025-11-25"))
	open.once(tb)
	session := "Mcp-Session-Id: " + open.w.header.Get("Mcp-Session-Id")
	const call = `{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"echo","arguments":{"text":"hello"}}}`
	body, headers := modern("5", "tools/call", `"name":"echo"`)
	return map[string]*replayer{
		"session stream": newReplayer(tb, f, call, session),
		"session JSON":   newReplayer(tb, f, call, session, "Accept: application/json"),
		"stateless":      newReplayer(tb, f, body, headers...),
	}
}

func BenchmarkForward(b *testing.B) {
	for name, r := range forwards(b) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				r.once(b)
			}
		})
	}
}

func BenchmarkForwardParallel(b *testing.B) {
	s := &script{}
	f := streamable.New(s, nil)
	b.Cleanup(func() { f.Close() })
	body, headers := modern("5", "tools/call", `"name":"echo"`)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		r := newReplayer(b, f, body, headers...)
		for pb.Next() {
			r.once(b)
		}
	})
}

// A stream with 1000 notifications of 200 bytes.
func BenchmarkStream(b *testing.B) {
	n := note("notifications/progress", `{"progressToken":1,"progress":5,"message":"`+strings.Repeat("x", 140)+`"}`)
	s := &script{call: func(ctx context.Context, _ exchange.Request, back exchange.Peer) (exchange.Response, error) {
		for range 1000 {
			if err := back.Notify(ctx, n); err != nil {
				return exchange.Response{}, err
			}
		}
		return exchange.Response{}, nil
	}}
	f := streamable.New(s, nil)
	b.Cleanup(func() { f.Close() })
	open := newReplayer(b, f, initialize("2025-11-25"))
	open.once(b)
	r := newReplayer(b, f, callOne, "Mcp-Session-Id: "+open.w.header.Get("Mcp-Session-Id"))
	b.ReportAllocs()
	for b.Loop() {
		r.once(b)
		b.SetBytes(int64(r.w.bytes))
	}
}

// What an idle stream costs, apart from the client's half.
func BenchmarkIdleStream(b *testing.B) {
	const streams = 1000
	for _, kind := range []string{"GET", "listen"} {
		b.Run(kind, func(b *testing.B) {
			s := &script{call: func(ctx context.Context, req exchange.Request, back exchange.Peer) (exchange.Response, error) {
				_ = back.Notify(ctx, note("notifications/subscriptions/acknowledged", `{}`))
				return wait(ctx, req, back)
			}}
			f := streamable.New(s, nil)
			srv := memhttp.NewWith(b, f, &memhttp.Options{BufferBytes: 4 << 10})
			b.Cleanup(func() { f.Close() })
			open := newReplayer(b, f, initialize("2025-11-25"))
			text, headers := modern("9", "subscriptions/listen", "")
			before := inUse()
			for range streams {
				conn, err := srv.Dial(b.Context())
				if err != nil {
					b.Fatal(err)
				}
				defer conn.Close()
				if kind == "GET" {
					open.once(b)
					fmt.Fprintf(conn, "GET /mcp HTTP/1.1\r\nHost: h\r\nMcp-Session-Id: %s\r\n\r\n", open.w.header.Get("Mcp-Session-Id"))
				} else {
					fmt.Fprintf(conn, "POST /mcp HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\n%s\r\nContent-Length: %d\r\n\r\n%s",
						strings.Join(headers, "\r\n"), len(text), text)
				}
				if _, err := conn.Read(make([]byte, 12)); err != nil {
					b.Fatal(err)
				}
			}
			for b.Loop() {
				runtime.Gosched()
			}
			b.ReportMetric(float64(inUse()-before)/streams, "B/stream")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// inUse returns the bytes of heap and stacks in use after a collection.
func inUse() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}

// What one forwarded call may cost, without what the network and the server cost.
func TestAllocationsOfAForwardedCall(t *testing.T) {
	for name, most := range map[string]float64{"session stream": 28, "session JSON": 26, "stateless": 38} {
		r := forwards(t)[name]
		if got := testing.AllocsPerRun(200, func() { r.once(t) }); got > most {
			t.Errorf("%s: got %v allocations, want at most %v", name, got, most)
		}
	}
}
