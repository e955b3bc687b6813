package upstream_test

import (
	"io"
	"net/http"
	"testing"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/negotiate"
	"github.com/mcp-dualstack/bridge/upstream"
)

// BenchmarkSSECall is a call to a server of HTTP+SSE, in memory and without a socket.
func BenchmarkSSECall(b *testing.B) {
	for _, way := range []struct {
		name string
		open func(testing.TB, http.Handler) *upstream.Upstream
	}{
		{"memory", func(t testing.TB, h http.Handler) *upstream.Upstream { return sseOf(t, h, nil) }},
		{"handler", func(t testing.TB, h http.Handler) *upstream.Upstream {
			up, err := upstream.SSE("http://localhost/sse", through(nil, upstream.HandlerTransport(h, nil)))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = up.Close() })
			return up
		}},
	} {
		b.Run(way.name, func(b *testing.B) {
			sess, err := way.open(b, newSSEServer(negotiate.Legacy)).Open(b.Context(), legacyClient(negotiate.Rev20241105, nil))
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				resp, err := sess.Call(b.Context(), exchange.Request{Method: "tools/call", Params: []byte(`{"name":"echo","arguments":{}}`)}, nil)
				if err != nil || resp.Error != nil {
					b.Fatal(err, resp.Error)
				}
			}
		})
	}
}

// BenchmarkHandlerTransport is one response of 1 MiB without a socket.
func BenchmarkHandlerTransport(b *testing.B) {
	piece := make([]byte, 16<<10)
	rt := upstream.HandlerTransport(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for range 64 {
			_, _ = w.Write(piece)
		}
	}), nil)
	req, err := http.NewRequestWithContext(b.Context(), http.MethodGet, "http://localhost/", nil)
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(1 << 20)
	b.ReportAllocs()
	for b.Loop() {
		resp, err := rt.RoundTrip(req)
		if err != nil {
			b.Fatal(err)
		}
		if n, err := io.Copy(io.Discard, resp.Body); n != 1<<20 || err != nil {
			b.Fatal(n, err)
		}
		_ = resp.Body.Close()
	}
}
