//go:build !nolegacy

package bridge_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	bridge "github.com/mcp-dualstack/bridge"
	"github.com/mcp-dualstack/bridge/upstream"
)

// slowTools is a server whose tool outlasts the timeouts of the HTTP server in front.
const slowTools = `initialize: result {"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true}},"serverInfo":{"name":"s","version":"1"}}
tools/list: result {"tools":[{"name":"slow","inputSchema":{"type":"object"}}]}
tools/call slow: send {"method":"notifications/progress","params":{"progressToken":$token,"progress":1}}
  wait 1500ms
  result {"content":[]}
tools/call poke: send {"method":"notifications/tools/list_changed"}
  result {"content":[]}
tools/call endless: send {"method":"notifications/progress","params":{"progressToken":$token,"progress":1}}
  wait 1m
`

// A tlsBed is a bridge behind HTTP/2 with TLS, with timeouts that cut every stream which does not see to them (reports.md R30).
type tlsBed struct {
	*testing.T
	srv *httptest.Server

	mu   sync.Mutex
	seen []string // by the server behind the bridge
	told chan struct{}
}

func overTLS(t *testing.T) *tlsBed {
	t.Helper()
	b := &tlsBed{T: t, told: make(chan struct{}, 1)}
	var servers sync.WaitGroup
	up := upstream.Pipe(func(context.Context) (io.ReadWriteCloser, error) {
		ours, theirs := net.Pipe()
		servers.Go(func() { serveScript(theirs, slowTools, b.record) }) // ends with the connection
		return ours, nil
	}, nil)
	br, err := bridge.New(up, &bridge.Options{KeepAlive: 300 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	b.srv = httptest.NewUnstartedServer(br)
	b.srv.EnableHTTP2 = true
	b.srv.Config.ReadTimeout, b.srv.Config.WriteTimeout = time.Second, time.Second
	b.srv.StartTLS()
	t.Cleanup(func() {
		if err := br.Close(); err != nil {
			t.Error(err)
		}
		b.srv.Close()
		servers.Wait()
	})
	return b
}

func (b *tlsBed) record(_, line string) {
	b.mu.Lock()
	b.seen = append(b.seen, line)
	b.mu.Unlock()
	select {
	case b.told <- struct{}{}:
	default:
	}
}

// reached waits until the server behind the bridge has been sent what contains part.
func (b *tlsBed) reached(part string) {
	b.Helper()
	late := time.After(10 * time.Second)
	for {
		b.mu.Lock()
		all := strings.Join(b.seen, "\n")
		b.mu.Unlock()
		if strings.Contains(all, part) {
			return
		}
		select {
		case <-b.told:
		case <-late:
			b.Fatalf("%s did not reach the server, which got\n%s", part, all)
		}
	}
}

// do makes a request over the one HTTP/2 connection of b's client.
func (b *tlsBed) do(ctx context.Context, method, target, body string, header ...string) *http.Response {
	b.Helper()
	at, err := url.Parse(b.srv.URL)
	if err == nil {
		at, err = at.Parse(target)
	}
	if err != nil {
		b.Fatal(err)
	}
	req, _ := http.NewRequestWithContext(ctx, method, at.String(), strings.NewReader(body))
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	for _, h := range header {
		name, value, _ := strings.Cut(h, ": ")
		req.Header.Set(name, value)
	}
	res, err := b.srv.Client().Do(req)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { res.Body.Close() })
	if res.ProtoMajor != 2 || res.TLS == nil || res.StatusCode >= 300 {
		b.Fatalf("%s %s: got %s %s, TLS %v", method, target, res.Proto, res.Status, res.TLS != nil)
	}
	return res
}

// An sseReader reads the data of events, comments aside.
type sseReader struct {
	b        *tlsBed
	r        *bufio.Reader
	comments int
}

func (b *tlsBed) events(res *http.Response) *sseReader {
	b.Helper()
	if got := res.Header.Get("Content-Type"); got != "text/event-stream" {
		b.Fatalf("got %s, want a stream", got)
	}
	return &sseReader{b: b, r: bufio.NewReader(res.Body)}
}

// want reads events until one has part in its data, and fails if that does not come.
func (s *sseReader) want(part string) string {
	s.b.Helper()
	for {
		line, err := s.r.ReadString('\n')
		if err != nil {
			s.b.Fatalf("waiting for %s: %v", part, err)
		}
		if strings.HasPrefix(line, ":") {
			s.comments++
		}
		if data, ok := strings.CutPrefix(strings.TrimSpace(line), "data: "); ok && strings.Contains(data, part) {
			return data
		}
	}
}

const (
	slowCall = `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"slow","_meta":{"progressToken":"p"}}}`
	slowDone = `"id":7,"result":{"content":[]`
)

func statelessCall(id, name string) (body string, header []string) {
	body = `{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{"name":"` + name + `","arguments":{},"_meta":{"progressToken":"p",` +
		`"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`
	return body, []string{"MCP-Protocol-Version: 2026-07-28", "Mcp-Method: tools/call", "Mcp-Name: " + name}
}

// Streams and calls of every transport, all on one HTTP/2 connection with TLS, outlast the timeouts of the server (R30) and are
// kept alive (R32).
func TestHTTP2WithTLS(t *testing.T) {
	if testing.Short() {
		t.Skip("uses real sockets and time")
	}
	b := overTLS(t)
	ctx := t.Context()
	initialize := func(revision string) string {
		return `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"` + revision + `","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`
	}

	legacy := b.events(b.do(ctx, http.MethodGet, "/sse", ""))
	endpoint := legacy.want("/messages")
	if at, err := url.Parse(endpoint); err != nil || at.IsAbs() && at.Scheme != "https" {
		t.Fatalf("the endpoint is %s, %v: want the scheme of the stream", endpoint, err)
	}
	b.do(ctx, http.MethodPost, endpoint, initialize("2024-11-05"))
	legacy.want(`"id":1,"result"`)
	b.do(ctx, http.MethodPost, endpoint, slowCall)

	session := "Mcp-Session-Id: " + b.do(ctx, http.MethodPost, "/mcp", initialize("2025-11-25")).Header.Get("Mcp-Session-Id")
	get := b.events(b.do(ctx, http.MethodGet, "/mcp", "", session))
	call := b.events(b.do(ctx, http.MethodPost, "/mcp", slowCall, session))

	body, header := statelessCall("7", "slow")
	stateless := b.events(b.do(ctx, http.MethodPost, "/mcp", body, header...))
	listen := b.events(b.do(ctx, http.MethodPost, "/mcp", `{"jsonrpc":"2.0","id":"l","method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true},"_meta":{`+
		`"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`,
		"MCP-Protocol-Version: 2026-07-28", "Mcp-Method: subscriptions/listen"))
	listen.want("notifications/subscriptions/acknowledged")

	for _, s := range []*sseReader{legacy, call, stateless} {
		s.want(`"progressToken":"p"`)
		s.want(slowDone)
		if s.comments == 0 {
			t.Error("a silent stream had no comment")
		}
	}

	// Long after the timeouts of the server the standing streams carry what comes.
	poke := `{"jsonrpc":"2.0","id":8,"method":"tools/call","params":{"name":"poke"}}`
	b.do(ctx, http.MethodPost, endpoint, poke)
	legacy.want("notifications/tools/list_changed")
	b.do(ctx, http.MethodPost, "/mcp", poke, session)
	get.want("notifications/tools/list_changed")
	body, header = statelessCall("8", "poke")
	b.do(ctx, http.MethodPost, "/mcp", body, header...)
	listen.want("notifications/tools/list_changed")
}

// The end of one HTTP/2 stream is the end of a connection to a call: of a modern one its cancellation (reports.md R49), and
// nothing to the others on the same connection.
func TestResetOfAStreamOverTLS(t *testing.T) {
	if testing.Short() {
		t.Skip("uses real sockets and time")
	}
	b := overTLS(t)
	body, header := statelessCall("7", "slow")
	other := b.events(b.do(t.Context(), http.MethodPost, "/mcp", body, header...))
	ctx, cancel := context.WithCancel(t.Context())
	body, header = statelessCall("9", "endless")
	gone := b.events(b.do(ctx, http.MethodPost, "/mcp", body, header...))
	gone.want(`"progress":1`)
	cancel()
	b.reached("notifications/cancelled")
	other.want(slowDone)
}
