package thirdparty

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	mcpgoserver "github.com/mark3labs/mcp-go/server"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/exchange/exchangetest"
	"github.com/mcp-dualstack/bridge/negotiate"
	"github.com/mcp-dualstack/bridge/upstream"
)

// patience bounds what a test waits for.
const patience = 10 * time.Second

// A kind of server behind a URL.
type kind struct {
	name      string
	handler   func(*served) http.Handler
	served    negotiate.Set
	transport string
	asks      bool // during a call of a session
	cancels   bool // tells its handlers
	progress  int  // notes of three that arrive at least: mcp-go answers before its own queue of them is empty
	changes   bool // list changes arrive on the standing stream
	path      string
}

func sdkHandler(o *mcp.StreamableHTTPOptions) func(*served) http.Handler {
	return func(s *served) http.Handler {
		server := goSDK(s)
		return mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, o)
	}
}

func mcpGoHandler(o ...mcpgoserver.StreamableHTTPOption) func(*served) http.Handler {
	return func(s *served) http.Handler { return mcpgoserver.NewStreamableHTTPServer(mcpGo(s), o...) }
}

// A session handler of go-sdk answers server/discover with its legacy revisions only.
var kinds = []kind{
	{"go-sdk sessions", sdkHandler(nil), negotiate.Legacy, exchange.StreamableHTTP, true, true, 3, true, ""},
	{"go-sdk sessions with events", sdkHandler(&mcp.StreamableHTTPOptions{EventStore: mcp.NewMemoryEventStore(nil)}), negotiate.Legacy, exchange.StreamableHTTP, true, true, 3, true, ""},
	{"go-sdk sessions as JSON", sdkHandler(&mcp.StreamableHTTPOptions{JSONResponse: true}), negotiate.Legacy, exchange.StreamableHTTP, false, true, 0, true, ""},
	{"go-sdk stateless", sdkHandler(&mcp.StreamableHTTPOptions{Stateless: true, PropagateRequestCancellation: true}), negotiate.All, exchange.StreamableHTTP, false, false, 3, false, ""},
	{"mcp-go sessions", mcpGoHandler(), negotiate.All, exchange.StreamableHTTP, true, true, 0, true, ""},
	{"go-sdk HTTP+SSE", func(s *served) http.Handler {
		server := goSDK(s)
		return mcp.NewSSEHandler(func(*http.Request) *mcp.Server { return server }, nil)
	}, negotiate.Legacy, exchange.HTTPSSE, true, true, 3, true, "/sse"},
	{"mcp-go HTTP+SSE", func(s *served) http.Handler { return mcpgoserver.NewSSEServer(mcpGo(s)) }, negotiate.Legacy, exchange.HTTPSSE, false, true, 0, true, "/sse"},
	{"mcp-go stateless", mcpGoHandler(mcpgoserver.WithStateLess(true)), negotiate.All, exchange.StreamableHTTP, false, true, 0, false, ""},
}

// start returns a remote in front of a server of that kind.
func (k kind) start(t *testing.T) (*served, *upstream.Remote) {
	t.Helper()
	s := newServed()
	s.handler = k.handler(s)
	srv := httptest.NewServer(s.handler)
	t.Cleanup(func() { close(s.stop); srv.CloseClientConnections(); srv.Close() })
	r, err := upstream.URL(srv.URL+k.path, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	return s, r
}

func open(ctx context.Context, t *testing.T, r *upstream.Remote, revision negotiate.Revision) (exchange.Session, *exchangetest.Peer) {
	t.Helper()
	back := &exchangetest.Peer{}
	c := exchange.Client{Revision: revision, Requested: revision.String(), Info: []byte(`{"name":"tester","version":"1"}`), Capabilities: []byte(`{"elicitation":{}}`)}
	if !revision.Modern() {
		c.Back = back
	}
	sess, err := r.Open(ctx, c)
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	t.Cleanup(func() { _ = sess.Close() })
	return sess, back
}

// request returns a request in the shape of the revision.
func request(revision negotiate.Revision, method, params string) exchange.Request {
	raw := []byte(params)
	if revision.Modern() {
		raw = negotiate.WithEnvelope(raw, negotiate.Envelope{Version: revision, Info: []byte(`{"name":"tester","version":"1"}`), Capabilities: []byte(`{"elicitation":{}}`)})
	}
	return exchange.Request{Method: method, Params: raw}
}

// text returns the text of a CallToolResult.
func text(t *testing.T, resp exchange.Response, err error) string {
	t.Helper()
	if err != nil || resp.Error != nil {
		t.Fatalf("got error %v, %v", err, resp.Error)
	}
	var r struct{ Content []struct{ Text string } }
	if err := json.Unmarshal(resp.Result, &r); err != nil || len(r.Content) == 0 {
		t.Fatalf("got %s", resp.Result)
	}
	return r.Content[0].Text
}

func each(t *testing.T, f func(ctx context.Context, t *testing.T, k kind, revision negotiate.Revision)) {
	for _, k := range kinds {
		for _, revision := range []negotiate.Revision{negotiate.Rev20241105, negotiate.Rev20250326, negotiate.Rev20250618, negotiate.Rev20251125, negotiate.Rev20260728} {
			if !k.served.Has(revision) {
				continue
			}
			t.Run(k.name+" "+revision.String(), func(t *testing.T) {
				ctx, cancel := context.WithTimeout(context.Background(), patience)
				defer cancel()
				f(ctx, t, k, revision)
			})
		}
	}
}

func TestProbe(t *testing.T) {
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			_, r := k.start(t)
			v, err := r.Probe(t.Context())
			if err != nil || v.Served != k.served || v.Transport != k.transport {
				t.Errorf("got %v over %q, %v; want %v over %q", v.Served.Strings(), v.Transport, err, k.served.Strings(), k.transport)
			}
		})
	}
}

func TestCalls(t *testing.T) {
	each(t, func(ctx context.Context, t *testing.T, k kind, revision negotiate.Revision) {
		_, r := k.start(t)
		sess, _ := open(ctx, t, r, revision)
		if got := sess.Server().Revision; got != revision {
			t.Errorf("revision: got %s", got)
		}
		for range 3 {
			resp, err := sess.Call(ctx, request(revision, "tools/call", `{"name":"echo","arguments":{"text":"grüße"}}`), nil)
			if got := text(t, resp, err); got != "grüße" {
				t.Errorf("echo: got %q", got)
			}
		}
		resp, err := sess.Call(ctx, request(revision, "tools/list", `{}`), nil)
		if err != nil || resp.Error != nil {
			t.Errorf("tools/list: %v, %v", err, resp.Error)
		}
		resp, err = sess.Call(ctx, request(revision, "no/such", `{}`), nil)
		if err != nil || resp.Error == nil || resp.Error.Code != -32601 {
			t.Errorf("unknown method: got %v, %v; want -32601", resp.Error, err)
		}
	})
}

func TestProgress(t *testing.T) {
	each(t, func(ctx context.Context, t *testing.T, k kind, revision negotiate.Revision) {
		_, r := k.start(t)
		sess, _ := open(ctx, t, r, revision)
		var peer exchangetest.Peer
		resp, err := sess.Call(ctx, request(revision, "tools/call", `{"name":"progress","arguments":{},"_meta":{"progressToken":"mine"}}`), &peer)
		if got := text(t, resp, err); got != "done" {
			t.Errorf("got %q", got)
		}
		notes := peer.Notes()
		if len(notes) < k.progress || len(notes) > 3 {
			t.Errorf("notes: got %d, want %d at least", len(notes), k.progress)
		}
		for _, n := range notes {
			var p struct{ ProgressToken string }
			if err := json.Unmarshal(n.Params, &p); err != nil || p.ProgressToken != "mine" {
				t.Errorf("got %s", n.Params)
			}
		}
	})
}

func TestQuestions(t *testing.T) {
	each(t, func(ctx context.Context, t *testing.T, k kind, revision negotiate.Revision) {
		if !k.asks || revision.Modern() {
			t.Skip("the server cannot ask")
		}
		_, r := k.start(t)
		sess, _ := open(ctx, t, r, revision)
		peer := &exchangetest.Peer{Answer: func(_ context.Context, req exchange.Request) (exchange.Response, error) {
			if req.Method != "elicitation/create" {
				t.Errorf("asked %s", req.Method)
			}
			return exchange.Response{Result: []byte(`{"action":"accept","content":{"x":"y"}}`)}, nil
		}}
		resp, err := sess.Call(ctx, request(revision, "tools/call", `{"name":"ask","arguments":{}}`), peer)
		if got := text(t, resp, err); got != "accept" {
			t.Errorf("got %q", got)
		}
	})
}

func TestCancellation(t *testing.T) {
	each(t, func(ctx context.Context, t *testing.T, k kind, revision negotiate.Revision) {
		if !k.cancels {
			t.Skip("the server does not tell its handlers")
		}
		s, r := k.start(t)
		sess, _ := open(ctx, t, r, revision)
		calling, cancel := context.WithCancel(ctx)
		returned := make(chan error, 1)
		go func() {
			_, err := sess.Call(calling, request(revision, "tools/call", `{"name":"wait","arguments":{}}`), nil)
			returned <- err
		}()
		for _, step := range []struct {
			what string
			c    <-chan struct{}
		}{{"begin", s.waiting}, {"cancellation", s.released}} {
			if step.what == "cancellation" {
				cancel()
				if err := <-returned; err == nil {
					t.Error("Call: got no error")
				}
			}
			select {
			case <-step.c:
			case <-ctx.Done():
				t.Fatalf("no %s", step.what)
			}
		}
		cancel()
	})
}

func TestListChanges(t *testing.T) {
	each(t, func(ctx context.Context, t *testing.T, k kind, revision negotiate.Revision) {
		if !k.changes || revision.Modern() {
			t.Skip("no standing stream")
		}
		_, r := k.start(t)
		sess, back := open(ctx, t, r, revision)
		if _, err := sess.Call(ctx, request(revision, "tools/call", `{"name":"change","arguments":{}}`), &exchangetest.Peer{}); err != nil {
			t.Fatal(err)
		}
		if n := back.Wait(ctx, 1); len(n) == 0 || n[0].Method != "notifications/tools/list_changed" {
			t.Errorf("got %v", n)
		}
	})
}

// TestStoppedServer: a server that stops in mid-call leaves no call behind for longer than a second.
func TestStoppedServer(t *testing.T) {
	each(t, func(ctx context.Context, t *testing.T, k kind, revision negotiate.Revision) {
		s := newServed()
		s.handler = k.handler(s)
		srv := httptest.NewServer(s.handler)
		r, err := upstream.URL(srv.URL+k.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		sess, _ := open(ctx, t, r, revision)
		returned := make(chan error, 1)
		go func() {
			_, err := sess.Call(ctx, request(revision, "tools/call", `{"name":"wait","arguments":{}}`), nil)
			returned <- err
		}()
		<-s.waiting
		if err := srv.Config.Close(); err != nil { // listener and connections
			t.Error(err)
		}
		select {
		case err := <-returned:
			want := exchange.ReasonStreamLost
			if k.transport == exchange.HTTPSSE {
				want = exchange.ReasonLost
			}
			if f, ok := errors.AsType[*exchange.Failure](err); !ok || f.Reason != want {
				t.Errorf("got %v, want %s", err, want)
			}
		case <-time.After(time.Second):
			t.Error("the call was not answered within a second")
		}
		if _, err = sess.Call(ctx, request(revision, "tools/call", `{"name":"echo","arguments":{}}`), nil); err == nil {
			t.Error("the next call: got no error")
		}
		close(s.stop)
		_ = r.Close()
		srv.Close()
	})
}
