package thirdparty

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"

	mcpgoserver "github.com/mark3labs/mcp-go/server"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/exchange/exchangetest"
	"github.com/mcp-dualstack/bridge/negotiate"
	"github.com/mcp-dualstack/bridge/upstream"
)

// An inner is a way to a server in the same process.
type inner struct {
	name      string
	connect   func(*testing.T, *served) upstream.Connector
	transport string // of the verdict
	asks      bool
	cancels   bool // tells its handlers, in a further session
	sessions  int  // at once: the stdio server of mcp-go v1.2.1 keeps its session in a package variable
}

var inners = []inner{
	{"go-sdk InProcess", inProcess(sdkHandler(nil)), exchange.StreamableHTTP, true, true, 3},
	{"go-sdk InProcess stateless", inProcess(sdkHandler(&mcp.StreamableHTTPOptions{Stateless: true, PropagateRequestCancellation: true})), exchange.StreamableHTTP, false, false, 3},
	{"mcp-go InProcess", inProcess(mcpGoHandler()), exchange.StreamableHTTP, true, true, 3},
	{"go-sdk SSE", overSSE(func(s *served) http.Handler {
		server := goSDK(s)
		return mcp.NewSSEHandler(func(*http.Request) *mcp.Server { return server }, nil)
	}), exchange.HTTPSSE, true, true, 3},
	{"mcp-go SSE", overSSE(func(s *served) http.Handler { return mcpgoserver.NewSSEServer(mcpGo(s)) }), exchange.HTTPSSE, false, true, 3},
	{"go-sdk Pipe", overPipe(func(ctx context.Context, s *served, rwc io.ReadWriteCloser) {
		_ = goSDK(s).Run(ctx, &mcp.IOTransport{Reader: rwc, Writer: rwc}) // until the bridge hangs up
	}), "pipe", true, true, 3},
	{"mcp-go Pipe", overPipe(func(ctx context.Context, s *served, rwc io.ReadWriteCloser) {
		_ = mcpgoserver.NewStdioServer(mcpGo(s)).Listen(ctx, rwc, rwc) // until the bridge hangs up
	}), "pipe", true, false, 1},
}

func inProcess(handler func(*served) http.Handler) func(*testing.T, *served) upstream.Connector {
	return func(t *testing.T, s *served) upstream.Connector {
		r, err := upstream.InProcess(handler(s), nil)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
}

func overSSE(handler func(*served) http.Handler) func(*testing.T, *served) upstream.Connector {
	return func(t *testing.T, s *served) upstream.Connector {
		o := &upstream.Options{HTTP: &upstream.HTTPOptions{RoundTripper: upstream.HandlerTransport(handler(s), nil)}}
		up, err := upstream.SSE("http://localhost/sse", o)
		if err != nil {
			t.Fatal(err)
		}
		return up
	}
}

func overPipe(serve func(context.Context, *served, io.ReadWriteCloser)) func(*testing.T, *served) upstream.Connector {
	return func(t *testing.T, s *served) upstream.Connector {
		return upstream.Pipe(func(context.Context) (io.ReadWriteCloser, error) {
			ours, theirs := net.Pipe()
			go func() { // until the bridge closes its end
				serve(context.Background(), s, theirs)
				_ = theirs.Close()
			}()
			return ours, nil
		}, nil)
	}
}

// TestInner: calls, progress, questions and cancellation of clients of the handshake era, without a socket.
func TestInner(t *testing.T) {
	for _, in := range inners {
		t.Run(in.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			s := newServed()
			up := in.connect(t, s)
			defer up.Close()
			defer close(s.stop)
			v, err := up.Probe(ctx)
			if err != nil || v.Transport != in.transport || !v.Legacy {
				t.Fatalf("probe: got %+v, %v", v, err)
			}
			for i := range in.sessions {
				sess := openInner(ctx, t, up, negotiate.Rev20251125)
				in.use(ctx, t, sess, fmt.Sprint("text ", i))
			}
			in.cancel(ctx, t, s, up)
		})
	}
}

// TestInnerModern: clients of 2026-07-28, whatever the server speaks itself.
func TestInnerModern(t *testing.T) {
	for _, in := range inners {
		t.Run(in.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			s := newServed()
			up := in.connect(t, s)
			defer up.Close()
			defer close(s.stop)
			sess := openInner(ctx, t, up, negotiate.Rev20260728)
			revision := sess.Server().Revision
			if v, err := up.Probe(ctx); err != nil || v.Modern != revision.Modern() {
				t.Errorf("session of %s of a server that is modern: %v, %v", revision, v.Modern, err)
			}
			resp, err := sess.Call(ctx, request(revision, "tools/call", `{"name":"echo","arguments":{"text":"hello"}}`), &exchangetest.Peer{})
			if got := text(t, resp, err); got != "hello" {
				t.Errorf("got %q", got)
			}
		})
	}
}

func openInner(ctx context.Context, t *testing.T, up upstream.Connector, revision negotiate.Revision) exchange.Session {
	t.Helper()
	c := exchange.Client{Revision: revision, Requested: revision.String(), Info: []byte(`{"name":"tester","version":"1"}`), Capabilities: []byte(`{"elicitation":{}}`)}
	if !revision.Modern() {
		c.Back = &exchangetest.Peer{}
	}
	sess, err := up.Open(ctx, c)
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	t.Cleanup(func() { _ = sess.Close() })
	return sess
}

func (in inner) use(ctx context.Context, t *testing.T, sess exchange.Session, say string) {
	t.Helper()
	const revision = negotiate.Rev20251125
	peer := &exchangetest.Peer{Answer: func(context.Context, exchange.Request) (exchange.Response, error) {
		return exchange.Response{Result: []byte(`{"action":"accept","content":{"x":"y"}}`)}, nil
	}}
	resp, err := sess.Call(ctx, request(revision, "tools/call", fmt.Sprintf(`{"name":"echo","arguments":{"text":%q}}`, say)), peer)
	if got := text(t, resp, err); got != say {
		t.Errorf("echo: got %q, want %q", got, say)
	}
	resp, err = sess.Call(ctx, request(revision, "tools/call", `{"name":"progress","arguments":{},"_meta":{"progressToken":"mine"}}`), peer)
	if got := text(t, resp, err); got != "done" {
		t.Errorf("progress: got %q", got)
	}
	for _, n := range peer.Notes() {
		var p struct{ ProgressToken string }
		if err := json.Unmarshal(n.Params, &p); err != nil || p.ProgressToken != "mine" {
			t.Errorf("progress: got %s", n.Params)
		}
	}
	if !in.asks {
		return
	}
	resp, err = sess.Call(ctx, request(revision, "tools/call", `{"name":"ask","arguments":{}}`), peer)
	if got := text(t, resp, err); got != "accept" {
		t.Errorf("ask: got %q", got)
	}
}

// cancel sees a call end in the server when its client takes it back.
func (in inner) cancel(ctx context.Context, t *testing.T, s *served, up upstream.Connector) {
	t.Helper()
	if !in.cancels {
		return
	}
	sess := openInner(ctx, t, up, negotiate.Rev20251125)
	calling, cancel := context.WithCancel(ctx)
	defer cancel()
	returned := make(chan error, 1)
	go func() {
		_, err := sess.Call(calling, request(negotiate.Rev20251125, "tools/call", `{"name":"wait","arguments":{}}`), &exchangetest.Peer{})
		returned <- err
	}()
	for _, c := range []<-chan struct{}{s.waiting, s.released} {
		select {
		case <-c:
		case <-ctx.Done():
			t.Fatal("the handler was not told")
		}
		cancel()
	}
	if err := <-returned; err == nil {
		t.Error("cancelled call: got no error")
	}
}
