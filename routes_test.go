package bridge_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	bridge "github.com/mcp-dualstack/bridge"
	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/internal/memhttp"
	"github.com/mcp-dualstack/bridge/negotiate"
)

const initialize = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"test","version":"1"}}}`

// A server is an MCP server that answers every request with {}.
type server struct {
	opened atomic.Int32
	closed atomic.Int32
	// call answers in its place; nil: {}.
	call func(ctx context.Context, req exchange.Request) (exchange.Response, error)
}

func (s *server) Open(_ context.Context, c exchange.Client) (exchange.Session, error) {
	s.opened.Add(1)
	return &talk{s, c}, nil
}

func (s *server) Close() error { s.closed.Add(1); return nil }

type talk struct {
	s *server
	c exchange.Client
}

func (c *talk) Server() exchange.Server {
	return exchange.Server{Revision: c.c.Revision, Served: negotiate.All, Info: []byte(`{"name":"test-server","version":"1"}`), Capabilities: []byte(`{"tools":{}}`)}
}

func (c *talk) Call(ctx context.Context, req exchange.Request, _ exchange.Peer) (exchange.Response, error) {
	if req.Sent != nil {
		req.Sent()
	}
	if c.s.call != nil {
		return c.s.call(ctx, req)
	}
	return exchange.Response{Result: []byte("{}")}, nil
}

func (c *talk) Notify(context.Context, exchange.Request) error { return nil }
func (c *talk) Done() <-chan struct{}                          { return nil }
func (c *talk) Close() error                                   { return nil }

// Who answers which method on which path (retirement.md R4).
func TestRouting(t *testing.T) {
	const event = "Accept: text/event-stream\n"
	const post = "Content-Type: application/json\nAccept: application/json, text/event-stream\n"
	tests := []struct{ name, request, want string }{
		{"initialize on the MCP path", "POST /mcp HTTP/1.1\n" + post + "\n" + initialize, "200 Streamable"},
		{"initialize on the SSE path", "POST /sse HTTP/1.1\n" + post + "\n" + initialize, "200 Streamable"},
		{"slash at the end", "POST /mcp/ HTTP/1.1\n" + post + "\n" + initialize, "200 Streamable"},
		{"under the public prefix", "POST /tools/mcp HTTP/1.1\n" + post + "\n" + initialize, "200 Streamable"},
		{"stream of an unknown session on the SSE path", "GET /sse HTTP/1.1\nMcp-Session-Id: nope\n" + event, "404"},
		{"end of an unknown session on the SSE path", "DELETE /sse HTTP/1.1\nMcp-Session-Id: nope\n", "404"},
		{"end of no session on the SSE path", "DELETE /sse HTTP/1.1\n", "400"},
		{"GET on the message path", "GET /messages HTTP/1.1\n" + event, "405 POST"},
		{"PUT on the SSE path", "PUT /sse HTTP/1.1\n", "405 DELETE, GET, POST"},
		{"POST on the status", "POST /retirement HTTP/1.1\n", "405 GET, HEAD"},
		{"nothing there", "GET /.well-known/oauth-protected-resource HTTP/1.1\n", "404"},
		{"another host", "POST /mcp HTTP/1.1\nX-Host: evil.test\n" + post + "\n" + initialize, "403"},
		{"another origin", "POST /sse HTTP/1.1\nOrigin: http://evil.test\n" + post + "\n" + initialize, "403"},
		{"origin null", "GET /retirement HTTP/1.1\nOrigin: null\n", "403"},
		{"another host where nothing is", "GET /x HTTP/1.1\nX-Host: evil.test\n", "403"},
		{"public host", "GET /retirement HTTP/1.1\nX-Host: mcp.example.com\n", "200"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := newBridge(t, &server{}, &bridge.Options{PublicURL: "https://mcp.example.com/tools/"})
			first, rest, _ := strings.Cut(tt.request, "\n")
			if host, after, ok := strings.Cut(strings.TrimPrefix(rest, "X-Host: "), "\n"); ok && strings.HasPrefix(rest, "X-Host: ") {
				rest = "Host: " + host + "\n" + after
			} else {
				rest = "Host: 127.0.0.1:8420\n" + rest
			}
			if !strings.Contains(rest, "\n\n") {
				rest = strings.TrimSuffix(rest, "\n")
			}
			if got := summary(send(t, b, first+"\n"+rest)); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

// summary returns status, Allow, and whether a session of Streamable HTTP began.
func summary(answer string) string {
	head, _, _ := strings.Cut(answer, "\n\n")
	status, _, _ := strings.Cut(head, "\n")
	for line := range strings.Lines(head) {
		if allow, ok := strings.CutPrefix(line, "Allow: "); ok {
			status += " " + strings.TrimSpace(allow)
		}
		if strings.HasPrefix(line, "Mcp-Session-Id: ") {
			status += " Streamable"
		}
	}
	return status
}

func TestNotFoundNamesThePaths(t *testing.T) {
	b := newBridge(t, &server{}, &bridge.Options{MCPPath: "/new"})
	got := send(t, b, "GET /mcp HTTP/1.1\nHost: localhost:1\nAccept: application/json")
	if !strings.HasPrefix(got, "404\n") || !strings.Contains(got, "/new") || !strings.Contains(got, `"successor":"http://localhost:1/new"`) {
		t.Errorf("got %s", got)
	}
}

func TestAdmin(t *testing.T) {
	b := newBridge(t, &server{}, nil)
	send(t, b, "POST /mcp HTTP/1.1\nHost: localhost\nContent-Type: application/json\nAccept: application/json, text/event-stream\n\n"+initialize)
	a := b.Admin()
	for _, tt := range []struct{ name, request, want string }{
		{"health", "GET /healthz HTTP/1.1\nHost: 10.1.2.3:8421", `{"status":"ok"}`},
		{"ready", "GET /readyz HTTP/1.1\nHost: x", `{"status":"ready"}`},
		{"report", "GET /admin/report HTTP/1.1\nHost: localhost", `"test"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := send(t, a, tt.request)
			_, body, _ := strings.Cut(got, "\n\n")
			if !strings.HasPrefix(got, "200\n") || !strings.Contains(body, tt.want) || !json.Valid([]byte(body)) {
				t.Errorf("got %s, want %s in it", got, tt.want)
			}
		})
	}
	if got := send(t, a, "GET /admin/report HTTP/1.1\nHost: evil.test"); !strings.HasPrefix(got, "403\n") {
		t.Errorf("a web page that rebinds its name: got %s", got)
	}
	if got := send(t, a, "POST /healthz HTTP/1.1\nHost: x"); summary(got) != "405 GET, HEAD" {
		t.Errorf("got %s", got)
	}
	b.Close()
	if got := send(t, a, "GET /readyz HTTP/1.1\nHost: x"); !strings.HasPrefix(got, "503\n") {
		t.Errorf("ready after the end: got %s", got)
	}
}

// Shutdown lets a call finish, ends the streams and lets go of the server; nothing stays behind.
func TestShutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{call: func(ctx context.Context, _ exchange.Request) (exchange.Response, error) {
			select {
			case <-time.After(2 * time.Second):
				return exchange.Response{Result: []byte(`{"late":true}`)}, nil
			case <-ctx.Done():
				return exchange.Response{}, context.Cause(ctx)
			}
		}}
		b, err := bridge.New(s, nil)
		if err != nil {
			t.Fatal(err)
		}
		srv := memhttp.New(t, b)
		post := func(session, body string) *http.Response {
			req, _ := http.NewRequest(http.MethodPost, srv.URL+"/mcp", strings.NewReader(body))
			req.Header.Set("Content-Type", "application/json")
			req.Header.Set("Accept", "application/json, text/event-stream")
			if session != "" {
				req.Header.Set("Mcp-Session-Id", session)
			}
			res, err := srv.Client().Do(req)
			if err != nil {
				t.Fatalf("%s: %v", body, err)
			}
			t.Cleanup(func() { res.Body.Close() })
			return res
		}
		res := post("", initialize)
		io.Copy(io.Discard, res.Body)
		session := res.Header.Get("Mcp-Session-Id")
		call := post(session, `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"late"}}`)
		get, _ := http.NewRequest(http.MethodGet, srv.URL+"/mcp", nil)
		get.Header.Set("Accept", "text/event-stream")
		get.Header.Set("Mcp-Session-Id", session)
		stream, err := srv.Client().Do(get)
		if err != nil {
			t.Fatal(err)
		}
		defer stream.Body.Close()

		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		began := time.Now()
		if err := b.Shutdown(ctx); err != nil {
			t.Errorf("shutdown: %v", err)
		}
		if took := time.Since(began); took < 2*time.Second || took > 5*time.Second {
			t.Errorf("shutdown took %v, want the 2 s of the call", took)
		}
		if body, _ := io.ReadAll(call.Body); !strings.Contains(string(body), `"late":true`) {
			t.Errorf("the call in flight got %q", body)
		}
		if _, err := io.ReadAll(stream.Body); err != nil {
			t.Errorf("the stream ended with %v", err)
		}
		if n := s.closed.Load(); n != 1 {
			t.Errorf("the server was closed %d times", n)
		}
		if got := post("", initialize); got.StatusCode != http.StatusServiceUnavailable {
			t.Errorf("initialize after the end: got %d, want 503", got.StatusCode)
		}
	})
}

// What never becomes a conversation is recorded all the same: kind and transport.
func TestObservations(t *testing.T) {
	const post = "Content-Type: application/json\nAccept: application/json, text/event-stream\n\n" + initialize
	tests := []struct{ name, request, kind, transport string }{
		{"another host on the stream", "GET /sse HTTP/1.1\nHost: evil.test", "refused", "http_sse"},
		{"another host on the message path", "POST /messages HTTP/1.1\nHost: evil.test\n\n{}", "refused", "http_sse"},
		{"another host on the MCP path", "POST /mcp HTTP/1.1\nHost: evil.test\n\n{}", "refused", "streamable_http"},
		{"another host, Streamable HTTP on the SSE path", "POST /sse HTTP/1.1\nHost: evil.test\n\n{}", "refused", "streamable_http"},
		{"retired stream", "GET /sse HTTP/1.1\nHost: localhost", "refused", "http_sse"},
		{"a new client on the old URL", "POST /sse HTTP/1.1\nHost: localhost\n" + post, "same_url", "streamable_http"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := newBridge(t, &server{}, &bridge.Options{LegacyOff: true})
			send(t, b, tt.request)
			_, body, _ := strings.Cut(send(t, b.Admin(), "GET /admin/report HTTP/1.1\nHost: localhost"), "\n\n")
			var report struct {
				Evidence []struct{ Kind, Transport string }
			}
			if err := json.Unmarshal([]byte(body), &report); err != nil {
				t.Fatal(err)
			}
			want := struct{ Kind, Transport string }{tt.kind, tt.transport}
			if len(report.Evidence) != 1 || report.Evidence[0] != want {
				t.Errorf("got %+v, want %+v", report.Evidence, want)
			}
		})
	}
}
