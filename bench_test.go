package bridge_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	bridge "github.com/mcp-dualstack/bridge"
	"github.com/mcp-dualstack/bridge/exchange"
)

// A poster sends the same POST again and again through the whole bridge, without a network.
type poster struct {
	h    http.Handler
	req  *http.Request
	body *bytes.Reader
	w    drain
}

// A drain is a ResponseWriter that only counts.
type drain struct {
	header http.Header
	status int
	bytes  int
}

func (d *drain) Header() http.Header              { return d.header }
func (d *drain) WriteHeader(status int)           { d.status = status }
func (d *drain) Write(b []byte) (int, error)      { d.bytes += len(b); return len(b), nil }
func (d *drain) Flush()                           {}
func (d *drain) SetReadDeadline(time.Time) error  { return nil }
func (d *drain) SetWriteDeadline(time.Time) error { return nil }

func newPoster(tb testing.TB, h http.Handler, path, body string, headers ...string) *poster {
	tb.Helper()
	p := &poster{h: h, body: bytes.NewReader([]byte(body)), w: drain{header: http.Header{}}}
	req, err := http.NewRequest(http.MethodPost, path, nil)
	if err != nil {
		tb.Fatal(err)
	}
	req.Host, req.RemoteAddr = "localhost", "127.0.0.1:9"
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		req.Header.Set(name, value)
	}
	req.ContentLength = int64(len(body))
	req.Body = io.NopCloser(p.body)
	p.req = req
	return p
}

func (p *poster) once(tb testing.TB, status int) {
	clear(p.w.header)
	p.w.status, p.w.bytes = http.StatusOK, 0
	if _, err := p.body.Seek(0, io.SeekStart); err != nil {
		tb.Fatal(err)
	}
	p.h.ServeHTTP(&p.w, p.req)
	if p.w.status != status {
		tb.Fatalf("got status %d, want %d", p.w.status, status)
	}
}

// echoed is what the server behind the measured bridge answers at once.
var echoed = exchange.Response{Result: []byte(`{"content":[{"type":"text","text":"` + strings.Repeat("x", 1024) + `"}]}`)}

// toolCall is a tools/call of about 1 KiB.
func toolCall(meta string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{%s"name":"echo","arguments":{"text":%q}}}`, meta, strings.Repeat("x", 1024))
}

func measured(tb testing.TB) *bridge.Bridge {
	tb.Helper()
	b, err := bridge.New(&server{call: func(context.Context, exchange.Request) (exchange.Response, error) { return echoed, nil }}, nil)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := b.Close(); err != nil {
			tb.Error(err)
		}
	})
	return b
}

// calls returns what makes one call through a bridge with everything on that is on by default: guard, router, front, ledger,
// metrics, translation. The server costs nothing.
func calls(tb testing.TB) map[string]func(testing.TB) {
	b := measured(tb)
	out := legacyCalls(tb, b)
	begin := newPoster(tb, b, "/mcp", `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`)
	begin.once(tb, http.StatusOK)
	session := newPoster(tb, b, "/mcp", toolCall(""), "Mcp-Session-Id: "+begin.w.header.Get("Mcp-Session-Id"), "Mcp-Protocol-Version: 2025-11-25")
	out["session"] = func(tb testing.TB) { session.once(tb, http.StatusOK) }
	const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}},`
	stateless := newPoster(tb, b, "/mcp", toolCall(meta), "Mcp-Protocol-Version: 2026-07-28", "Mcp-Method: tools/call", "Mcp-Name: echo")
	out["stateless"] = func(tb testing.TB) { stateless.once(tb, http.StatusOK) }
	return out
}

func BenchmarkCall(b *testing.B) {
	for name, call := range calls(b) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				call(b)
			}
		})
	}
}

// What one call may allocate on its way through the whole bridge. The margin is a quarter over what it takes: this is for what
// creeps in, and a new feature may raise it for a reason.
func TestAllocationsOfACall(t *testing.T) {
	most := map[string]float64{"legacy": 42, "session": 49, "stateless": 76}
	for name, call := range calls(t) {
		if got := testing.AllocsPerRun(200, func() { call(t) }); got > most[name] {
			t.Errorf("%s: got %v allocations, want at most %v", name, got, most[name])
		} else {
			t.Logf("%s: %v allocations", name, got)
		}
	}
}
