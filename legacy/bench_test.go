package legacy_test

import (
	"bufio"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"github.com/mcp-dualstack/bridge/internal/memhttp"
	"github.com/mcp-dualstack/bridge/legacy"
)

// One call through the front: POST, 202, answer on the stream. HTTP client and server are in the figure.
func BenchmarkCall(b *testing.B) {
	for _, size := range []int{100, 100 << 10} {
		b.Run(fmt.Sprintf("%dB", size), func(b *testing.B) {
			_, s := serve(b, &script{}, nil)
			c := connect(b, s).begin()
			body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"data":"` + strings.Repeat("x", size) + `"}}`
			b.ReportAllocs()
			b.SetBytes(int64(len(body)))
			for b.Loop() {
				c.ok(body)
				c.next()
			}
		})
	}
}

// What an idle stream costs with its session open, apart from the client's half.
func BenchmarkIdleStream(b *testing.B) {
	const streams = 1000
	f := legacy.New(&script{}, &legacy.Options{MaxSessions: streams})
	s := memhttp.NewWith(b, routes(f), &memhttp.Options{BufferBytes: 4 << 10})
	b.Cleanup(func() { f.Close() })
	before := inUse()
	for range streams {
		conn, err := s.Dial(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		defer conn.Close()
		fmt.Fprintf(conn, "GET /sse HTTP/1.1\r\nHost: h\r\n\r\n")
		id := readID(b, conn)
		c := &client{t: b, http: s.Client(), post: s.URL + "/messages?sessionId=" + id}
		c.ok(initialize("2025-06-18"))
	}
	for b.Loop() {
		runtime.Gosched()
	}
	b.ReportMetric(float64(inUse()-before)/streams, "B/stream")
	b.ReportMetric(0, "ns/op")
}

func readID(b *testing.B, conn interface{ Read([]byte) (int, error) }) string {
	b.Helper()
	r := bufio.NewReaderSize(conn, 256)
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			b.Fatal(err)
		}
		if _, id, ok := strings.Cut(line, "sessionId="); ok {
			return strings.TrimSpace(id)
		}
	}
}

// inUse returns the bytes of heap and stacks in use after a collection.
func inUse() int64 {
	http.DefaultClient.CloseIdleConnections()
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}
