package legacy_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
	"github.com/mcp-dualstack/bridge/internal/memhttp"
	"github.com/mcp-dualstack/bridge/internal/sse"
	"github.com/mcp-dualstack/bridge/legacy"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A script is a Handler with one function per thing it can be asked. Nil functions do the obvious.
type script struct {
	open   func(context.Context, exchange.Client) error
	call   func(context.Context, exchange.Request, exchange.Peer) (exchange.Response, error)
	notify func(exchange.Request) error
	done   chan struct{}

	mu     sync.Mutex
	opened []exchange.Client
	closed int
}

func (h *script) Open(ctx context.Context, c exchange.Client) (exchange.Session, error) {
	h.mu.Lock()
	h.opened = append(h.opened, c)
	h.mu.Unlock()
	if h.open != nil {
		if err := h.open(ctx, c); err != nil {
			return nil, err
		}
	}
	return (*scripted)(h), nil
}

func (h *script) clients() []exchange.Client {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.opened
}

func (h *script) endings() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.closed
}

type scripted script

func (s *scripted) Server() exchange.Server {
	return exchange.Server{Initialize: []byte(`{"protocolVersion":"2024-11-05","capabilities":{},"serverInfo":{"name":"s","version":"1"}}`)}
}

func (s *scripted) Call(ctx context.Context, req exchange.Request, back exchange.Peer) (exchange.Response, error) {
	if s.call != nil {
		return s.call(ctx, req, back)
	}
	req.Sent()
	return exchange.Response{Result: echo(req)}, nil
}

// echo is the obvious result: the params of the request.
func echo(req exchange.Request) []byte {
	if req.Params == nil {
		return []byte(`{}`)
	}
	return req.Params
}

func (s *scripted) Notify(_ context.Context, note exchange.Request) error {
	if s.notify != nil {
		return s.notify(note)
	}
	return nil
}

func (s *scripted) Done() <-chan struct{} { return s.done }

func (s *scripted) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed++
	return nil
}

// A log keeps observations.
type log struct {
	mu  sync.Mutex
	all []exchange.Observation
}

func (l *log) observe(o exchange.Observation) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, o)
}

func (l *log) kind(kind string) (got []exchange.Observation) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, o := range l.all {
		if o.Kind == kind {
			got = append(got, o)
		}
	}
	return got
}

// serve runs a front for h as a program would mount it.
func serve(t testing.TB, h exchange.Handler, o *legacy.Options) (*legacy.Front, *memhttp.Server) {
	t.Helper()
	f := legacy.New(h, o)
	s := memhttp.New(t, routes(f))
	t.Cleanup(func() { f.Close() })
	return f, s
}

func routes(f *legacy.Front) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/sse", f.Stream())
	mux.Handle("/messages", f.Messages())
	return mux
}

// A client is one legacy client with its stream.
type client struct {
	t      testing.TB
	http   *http.Client
	stream *http.Response
	events *sse.Reader
	post   string // absolute URL of the endpoint event
	cursor string // its id
	gone   context.CancelFunc
}

// connect opens a stream and reads the endpoint event.
func connect(t testing.TB, s *memhttp.Server, header ...string) *client {
	t.Helper()
	return connectTo(t, s, s.URL+"/sse", header...)
}

// open is connect that also returns the id of the endpoint event.
func open(t testing.TB, s *memhttp.Server, header ...string) (*client, string) {
	t.Helper()
	c := connectTo(t, s, s.URL+"/sse", header...)
	return c, c.cursor
}

func connectTo(t testing.TB, s *memhttp.Server, to string, header ...string) *client {
	t.Helper()
	ctx, gone := context.WithTimeout(t.Context(), 100*time.Hour) // of fake time: a test must not wait for ever
	t.Cleanup(gone)
	req, _ := http.NewRequestWithContext(ctx, http.MethodGet, to, nil)
	req.Header.Set("Accept", "text/event-stream")
	setHeader(req, header)
	resp, err := s.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { resp.Body.Close() })
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("GET %s: %s", to, resp.Status)
	}
	c := &client{t: t, http: s.Client(), stream: resp, events: sse.NewReader(resp.Body, 16<<20), gone: gone}
	e, err := c.events.Next()
	if err != nil || e.Name != "endpoint" {
		t.Fatalf("first event is %q with %v, want endpoint", e.Name, err)
	}
	ref, err := url.Parse(string(e.Data))
	if err != nil {
		t.Fatal(err)
	}
	c.post, c.cursor = req.URL.ResolveReference(ref).String(), e.ID
	return c
}

func setHeader(req *http.Request, pairs []string) {
	for i := 0; i < len(pairs); i += 2 {
		req.Header.Set(pairs[i], pairs[i+1])
	}
}

// send posts a message and returns the status and body.
func (c *client) send(body string, header ...string) (int, string) {
	c.t.Helper()
	return post(c.t, c.http, c.post, body, header...)
}

func post(t testing.TB, hc *http.Client, to, body string, header ...string) (int, string) {
	t.Helper()
	req, err := http.NewRequest(http.MethodPost, to, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	setHeader(req, header)
	resp, err := hc.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(got)
}

// ok is send of a message that must be taken.
func (c *client) ok(body string, header ...string) {
	c.t.Helper()
	if status, got := c.send(body, header...); status != http.StatusAccepted || got != "" {
		c.t.Fatalf("%s: got %d %q, want 202 and nothing", body, status, got)
	}
}

// next returns the next message of the stream, "" at its end.
func (c *client) next() string {
	c.t.Helper()
	e, err := c.events.Next()
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return ""
	}
	if err != nil {
		c.t.Fatal(err)
	}
	if e.Name != "message" {
		c.t.Errorf("an event is named %q, want message", e.Name)
	}
	return string(bytes.Clone(e.Data))
}

func (c *client) want(want ...string) {
	c.t.Helper()
	for _, w := range want {
		if got := c.next(); got != w {
			c.t.Errorf("got %q, want %q", got, w)
		}
	}
}

const initialized = `{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-06-18","capabilities":{},"serverInfo":{"name":"s","version":"1"}}}`

func initialize(revision string) string {
	return `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"` + revision +
		`","capabilities":{"roots":{},"sampling":{},"elicitation":{}},"clientInfo":{"name":"c","version":"1"}}}`
}

// begin does the handshake.
func (c *client) begin(header ...string) *client {
	c.t.Helper()
	c.ok(initialize("2025-06-18"), header...)
	c.want(initialized)
	return c
}

// addrOf is the address that a request says it is from.
func addrOf(r *http.Request) netip.Addr {
	if a := r.Header.Get("X-Addr"); a != "" {
		return netip.MustParseAddr(a)
	}
	return netip.MustParseAddr("192.0.2.7")
}

func reasonOf(msg string) string {
	reason, _ := jsonrpc.String(jsonrpc.Get([]byte(msg), "error", "data", "bridge", "reason"))
	return reason
}
