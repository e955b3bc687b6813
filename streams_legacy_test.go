//go:build !nolegacy

package bridge_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	bridge "github.com/mcp-dualstack/bridge"
	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/internal/memhttp"
)

// sseOf opens a legacy stream and returns it behind its endpoint event, and where to post.
func sseOf(t *testing.T, srv *memhttp.Server) (stream *bufio.Reader, endpoint string) {
	t.Helper()
	res, err := srv.Client().Get(srv.URL + "/sse")
	if err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("GET /sse: %v, %v", res, err)
	}
	t.Cleanup(func() { res.Body.Close() })
	stream = bufio.NewReader(res.Body)
	for endpoint == "" {
		line, err := stream.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		endpoint, _ = strings.CutPrefix(strings.TrimSpace(line), "data: ")
		if !strings.HasPrefix(endpoint, "http") {
			endpoint = ""
		}
	}
	return stream, endpoint
}

// Nothing is refused before load balancers could see that readyz fails, and no stream of either transport ends before the
// last call of both: its client would come back to a bridge that only refuses.
func TestEndOfStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{call: func(ctx context.Context, _ exchange.Request) (exchange.Response, error) {
			select {
			case <-time.After(2 * time.Second):
				return exchange.Response{Result: []byte(`{}`)}, nil
			case <-ctx.Done():
				return exchange.Response{}, context.Cause(ctx)
			}
		}}
		b, err := bridge.New(s, nil)
		if err != nil {
			t.Fatal(err)
		}
		srv := memhttp.New(t, b)
		admin := memhttp.New(t, b.Admin())
		ready := func() int {
			res, err := admin.Client().Get(admin.URL + "/readyz")
			if err != nil {
				t.Fatal(err)
			}
			res.Body.Close()
			return res.StatusCode
		}
		idle, _ := sseOf(t, srv)
		if got := ready(); got != 200 {
			t.Errorf("ready: got %d", got)
		}
		b.Unready()
		if got := ready(); got != 503 {
			t.Errorf("no longer ready: got %d", got)
		}
		res := postTo(t, srv, srv.URL+"/mcp", initialize)
		io.Copy(io.Discard, res.Body)
		if res.StatusCode != 200 {
			t.Errorf("initialize while everything is served: got %d", res.StatusCode)
		}
		req, _ := http.NewRequest(http.MethodPost, srv.URL+"/mcp", strings.NewReader(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"x"}}`))
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Mcp-Session-Id", res.Header.Get("Mcp-Session-Id"))
		call, err := srv.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer call.Body.Close()
		ended := make(chan time.Time, 1)
		go func() {
			_, _ = io.Copy(io.Discard, idle)
			ended <- time.Now()
		}()
		began := time.Now()
		if err := b.Drain(t.Context()); err != nil || time.Since(began) != 2*time.Second {
			t.Errorf("drained with %v after %v, want 2 s", err, time.Since(began))
		}
		synctest.Wait()
		if len(ended) != 0 {
			t.Error("the legacy stream has ended before Shutdown")
		}
		if res := postTo(t, srv, srv.URL+"/mcp", initialize); res.StatusCode != 503 || res.Header.Get("Retry-After") == "" {
			t.Errorf("initialize after Drain: got %d", res.StatusCode)
		}
		if err := b.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		if when := <-ended; when.Sub(began) != 2*time.Second {
			t.Errorf("the legacy stream ended after %v", when.Sub(began))
		}
	})
}

// Streams that no call ends are taken over from net/http, which shows in their connection being closed after them; answers are not,
// and without Options.Hijack nothing is.
func TestHijack(t *testing.T) {
	for _, on := range []bool{false, true} {
		t.Run(fmt.Sprint(on), func(t *testing.T) {
			b, err := bridge.New(&server{}, &bridge.Options{Hijack: on})
			if err != nil {
				t.Fatal(err)
			}
			defer b.Close()
			srv := memhttp.New(t, b)
			res := postTo(t, srv, srv.URL+"/mcp", initialize)
			session := res.Header.Get("Mcp-Session-Id")
			if res.Close {
				t.Error("initialize: the connection is closed after the answer")
			}
			for _, tt := range []struct{ name, method, path, body string }{
				{"stream of HTTP+SSE", http.MethodGet, "/sse", ""},
				{"stream of a session", http.MethodGet, "/mcp", ""},
				{"listen", http.MethodPost, "/mcp", `{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true},"_meta":{` +
					`"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`},
			} {
				req, _ := http.NewRequestWithContext(t.Context(), tt.method, srv.URL+tt.path, strings.NewReader(tt.body))
				req.Header.Set("Accept", "application/json, text/event-stream")
				switch {
				case tt.body != "":
					req.Header.Set("Content-Type", "application/json")
					req.Header.Set("MCP-Protocol-Version", "2026-07-28")
					req.Header.Set("Mcp-Method", "subscriptions/listen")
				case tt.path == "/mcp":
					req.Header.Set("Mcp-Session-Id", session)
				}
				res, err := srv.Client().Do(req)
				if err != nil {
					t.Fatal(err)
				}
				res.Body.Close()
				if res.StatusCode != http.StatusOK || res.Close != on {
					t.Errorf("%s: got status %d, connection closed %v, want 200, %v", tt.name, res.StatusCode, res.Close, on)
				}
			}
		})
	}
}

// The idle time of sessions is not for legacy streams, whose only sign of life may be that they are open.
func TestIdleTimeoutSparesLegacyStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, err := bridge.New(&server{}, &bridge.Options{IdleTimeout: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		srv := memhttp.New(t, b)
		_, endpoint := sseOf(t, srv)
		postTo(t, srv, endpoint, initialize)
		time.Sleep(time.Hour)
		if res := postTo(t, srv, endpoint, `{"jsonrpc":"2.0","id":2,"method":"ping"}`); res.StatusCode != http.StatusAccepted {
			t.Errorf("got %d after an hour, want 202", res.StatusCode)
		}
	})
}
