package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/mcp-dualstack/bridge/test/harness"
)

// A caller is a client of either handshake transport.
type caller interface {
	// call sends a request with the given text as id and returns the response with that very id.
	call(ctx context.Context, id, method, params string) (message, error)
}

// echoParams are the params of a call of server-everything's echo tool, which answers "Echo: " and the text.
func echoParams(text string) string {
	return fmt.Sprintf(`{"name":"echo","arguments":{"message":%q}}`, text)
}

// A sessionClient speaks Streamable HTTP with a session.
type sessionClient struct {
	base     string
	path     string
	id       string
	revision string // as answered
}

// openSession initializes a session on the path.
func openSession(tb testing.TB, base, path, name, revision string) *sessionClient {
	tb.Helper()
	a := do(tb, base, request{path: path, headers: streamable(), body: harness.Request("0", "initialize", harness.Initialize(name, revision))})
	if a.status != http.StatusOK || a.message.Error != nil {
		tb.Fatalf("initialize on %s: got %d %s", path, a.status, a.body)
	}
	c := &sessionClient{base: base, path: path, id: a.header.Get("Mcp-Session-Id"), revision: negotiated(tb, a.message)}
	if c.id == "" {
		tb.Fatalf("initialize on %s: no Mcp-Session-Id", path)
	}
	note := do(tb, base, request{path: path, headers: c.headers(), body: `{"jsonrpc":"2.0","method":"notifications/initialized"}`})
	if note.status != http.StatusAccepted {
		tb.Fatalf("notifications/initialized: got %d %s, want 202", note.status, note.body)
	}
	return c
}

func negotiated(tb testing.TB, m message) string {
	tb.Helper()
	var r struct {
		ProtocolVersion string `json:"protocolVersion"`
	}
	if err := json.Unmarshal(m.Result, &r); err != nil {
		tb.Fatalf("result of initialize %q: %v", m.Result, err)
	}
	return r.ProtocolVersion
}

func (c *sessionClient) headers(extra ...string) map[string]string {
	return streamable(append([]string{"Mcp-Session-Id", c.id, "MCP-Protocol-Version", c.revision}, extra...)...)
}

func (c *sessionClient) call(ctx context.Context, id, method, params string) (message, error) {
	a, err := try(ctx, c.base, request{path: c.path, headers: c.headers(), body: harness.Request(id, method, params)})
	if err != nil {
		return message{}, err
	}
	if a.status != http.StatusOK {
		return message{}, fmt.Errorf("status %d: %s", a.status, a.body)
	}
	if got := string(a.message.ID); got != id {
		return message{}, fmt.Errorf("id of the answer: got %s, want %s", got, id)
	}
	return a.message, nil
}

// A legacyClient speaks HTTP+SSE.
type legacyClient struct {
	base     string
	endpoint string // path and query of the message endpoint
	closed   chan struct{}

	mu      sync.Mutex
	waiting map[string]chan message // by the text of the id
	notes   []message               // notifications, requests of the server, and answers nobody waits for
}

// openStream opens the legacy stream and waits for its endpoint event; it does not initialize.
// The stream is closed when the test ends.
func openStream(tb testing.TB, base string) *legacyClient {
	tb.Helper()
	ctx, cancel := context.WithCancel(tb.Context())
	resp, err := send(ctx, base, request{method: http.MethodGet, path: "/sse", headers: map[string]string{"Accept": "text/event-stream"}})
	if err != nil {
		tb.Fatalf("GET /sse: %v", err)
	}
	c := &legacyClient{base: base, closed: make(chan struct{}), waiting: make(map[string]chan message)}
	tb.Cleanup(func() {
		cancel()
		resp.Body.Close()
		<-c.closed
	})
	events := harness.NewEventReader(resp.Body)
	first, err := events.Next()
	go func() {
		defer close(c.closed)
		c.read(events)
	}()
	if err != nil || resp.StatusCode != http.StatusOK || first.Name != "endpoint" {
		tb.Fatalf("GET /sse: got %d, event %q, error %v; want 200 and an endpoint event", resp.StatusCode, first.Name, err)
	}
	stream, err := url.Parse(base + "/sse")
	if err != nil {
		tb.Fatal(err)
	}
	endpoint, err := stream.Parse(first.Data)
	if err != nil || endpoint.Host != stream.Host {
		tb.Fatalf("endpoint %q: want a URL of %s (%v)", first.Data, base, err)
	}
	c.endpoint = endpoint.RequestURI()
	return c
}

// openLegacy opens the legacy stream and initializes.
func openLegacy(tb testing.TB, base, name, revision string) (*legacyClient, string) {
	tb.Helper()
	c := openStream(tb, base)
	m, err := c.call(tb.Context(), "0", "initialize", harness.Initialize(name, revision))
	if err != nil || m.Error != nil {
		tb.Fatalf("initialize on the legacy stream: %v %+v", err, m.Error)
	}
	if a := c.post(tb, `{"jsonrpc":"2.0","method":"notifications/initialized"}`); a.status != http.StatusAccepted {
		tb.Fatalf("notifications/initialized: got %d %s, want 202", a.status, a.body)
	}
	return c, negotiated(tb, m)
}

func (c *legacyClient) read(events *harness.EventReader) {
	for {
		e, err := events.Next()
		if err != nil {
			return
		}
		if e.Comment {
			continue
		}
		m, err := e.Message()
		if err != nil || e.Name != "message" {
			m = message{Method: "unreadable event " + e.Name + ": " + e.Data}
		}
		c.mu.Lock()
		waiter := c.waiting[string(m.ID)]
		if m.Method == "" && waiter != nil {
			delete(c.waiting, string(m.ID))
		} else {
			c.notes = append(c.notes, m)
		}
		c.mu.Unlock()
		if m.Method == "" && waiter != nil {
			waiter <- m
		}
	}
}

// seen returns the notifications and stray messages that came so far.
func (c *legacyClient) seen() []message {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]message(nil), c.notes...)
}

func (c *legacyClient) post(tb testing.TB, body string) answer {
	tb.Helper()
	return do(tb, c.base, request{path: c.endpoint, headers: jsonOnly(), body: body})
}

func jsonOnly() map[string]string { return map[string]string{"Content-Type": "application/json"} }

func (c *legacyClient) call(ctx context.Context, id, method, params string) (message, error) {
	return c.send(ctx, id, harness.Request(id, method, params))
}

// send posts a body and waits for the answer with the id on the stream.
func (c *legacyClient) send(ctx context.Context, id, body string) (message, error) {
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	waiter := make(chan message, 1)
	c.mu.Lock()
	c.waiting[id] = waiter
	c.mu.Unlock()
	a, err := try(ctx, c.base, request{path: c.endpoint, headers: jsonOnly(), body: body})
	if err != nil {
		return message{}, err
	}
	if a.status != http.StatusAccepted {
		return message{}, fmt.Errorf("status %d: %s", a.status, a.body)
	}
	select {
	case m := <-waiter:
		return m, nil
	case <-c.closed:
		return message{}, errors.New("the stream ended")
	case <-ctx.Done():
		return message{}, fmt.Errorf("no answer with id %s: %w; strays: %s", id, ctx.Err(), strings.Join(c.strays(), ", "))
	}
}

// strays lists the ids of answers nobody waited for.
func (c *legacyClient) strays() []string {
	var ids []string
	for _, m := range c.seen() {
		if m.Method == "" {
			ids = append(ids, string(m.ID))
		}
	}
	return ids
}
