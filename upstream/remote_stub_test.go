package upstream_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/exchange/exchangetest"
	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
	"github.com/mcp-dualstack/bridge/negotiate"
	"github.com/mcp-dualstack/bridge/upstream"
)

// A hit is one request that a web stub received.
type hit struct {
	*http.Request
	m    jsonrpc.Message
	body []byte
}

// A webStub is a scripted server behind a URL that records what it is sent.
type webStub struct {
	testing.TB
	answer func(w http.ResponseWriter, h *hit)

	mu   sync.Mutex
	hits []*hit
}

func (s *webStub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	h := &hit{Request: r, body: body}
	h.m, _ = jsonrpc.Scan(body)
	s.mu.Lock()
	s.hits = append(s.hits, h)
	s.mu.Unlock()
	s.answer(w, h)
}

// seen returns what came, each as its JSON-RPC method, "response", or the HTTP method where there is no message.
func (s *webStub) seen() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var names []string
	for _, h := range s.hits {
		names = append(names, h.name())
	}
	return names
}

func (s *webStub) count(name string) int {
	n := 0
	for _, seen := range s.seen() {
		if seen == name {
			n++
		}
	}
	return n
}

// of returns the requests of that name.
func (s *webStub) of(name string) []*hit {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(s.hits), func(h *hit) bool { return h.name() != name })
}

func (h *hit) name() string {
	switch {
	case len(h.body) == 0:
		return h.Method
	case h.m.Kind == jsonrpc.Response:
		return "response"
	}
	return h.m.Method
}

// inWeb runs f in a bubble with a remote in front of a stub.
func inWeb(t *testing.T, o *upstream.Options, answer func(http.ResponseWriter, *hit), f func(ctx context.Context, s *webStub, r *upstream.Remote)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &webStub{TB: t, answer: answer}
		r := remoteOf(t, s, sameEra(o))
		f(t.Context(), s, r)
		if err := r.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
}

// say answers with a result.
func say(w http.ResponseWriter, h *hit, result string) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(jsonrpc.AppendResult(nil, h.m.ID, []byte(result)))
}

// refuse answers with a JSON-RPC error; an empty id is that of the request.
func refuse(w http.ResponseWriter, h *hit, status int, id, fault string) {
	if id == "" {
		id = string(h.m.ID)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":%s}`, id, fault)
}

// events begins a stream and returns what writes to it.
func events(w http.ResponseWriter) func(format string, args ...any) {
	w.Header().Set("Content-Type", "text/event-stream")
	rc := http.NewResponseController(w)
	_ = rc.Flush()
	return func(format string, args ...any) {
		_, _ = fmt.Fprintf(w, format, args...)
		_ = rc.Flush()
	}
}

const okDiscover = `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"ttlMs":0,"cacheScope":"private"}`

func okInitialize(revision string) string {
	return `{"protocolVersion":"` + revision + `","capabilities":{"tools":{"listChanged":true},"resources":{"listChanged":true,"subscribe":true}},"serverInfo":{"name":"stub","version":"1"}}`
}

// legacyStub answers as a server of sessions that refuses the probe, its calls by call; GET and DELETE are 405.
func legacyStub(revision string, call func(http.ResponseWriter, *hit)) func(http.ResponseWriter, *hit) {
	return func(w http.ResponseWriter, h *hit) {
		switch h.name() {
		case "server/discover":
			refuse(w, h, http.StatusOK, "", `{"code":-32601,"message":"Method not found"}`)
		case "initialize":
			w.Header().Set(negotiate.HeaderSession, "S1")
			say(w, h, okInitialize(revision))
		case "GET", "DELETE":
			w.WriteHeader(http.StatusMethodNotAllowed)
		case "response":
			w.WriteHeader(http.StatusAccepted)
		default:
			if strings.HasPrefix(h.m.Method, "notifications/") {
				w.WriteHeader(http.StatusAccepted)
				return
			}
			call(w, h)
		}
	}
}

// modernStub answers the probe as a server of 2026-07-28, its calls by call.
func modernStub(call func(http.ResponseWriter, *hit)) func(http.ResponseWriter, *hit) {
	return func(w http.ResponseWriter, h *hit) {
		if h.name() == "server/discover" {
			say(w, h, okDiscover)
			return
		}
		call(w, h)
	}
}

func webClient(revision negotiate.Revision, back exchange.Peer) exchange.Client {
	return exchange.Client{Revision: revision, Requested: revision.String(), Back: back}
}

func openWeb(ctx context.Context, t testing.TB, r *upstream.Remote, revision negotiate.Revision) (exchange.Session, *exchangetest.Peer) {
	t.Helper()
	var back exchangetest.Peer
	c := webClient(revision, &back)
	if revision.Modern() {
		c.Back = nil
	}
	sess, err := r.Open(ctx, c)
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	return sess, &back
}

func toolCall(arguments string) exchange.Request {
	return exchange.Request{Method: "tools/call", Params: fmt.Appendf(nil, `{"name":"t","arguments":%s}`, arguments)}
}

func modernCall(name, arguments string) exchange.Request {
	params := fmt.Appendf(nil, `{"name":%q,"arguments":%s}`, name, arguments)
	return exchange.Request{Method: "tools/call", Params: negotiate.WithEnvelope(params, negotiate.Envelope{Version: negotiate.Rev20260728})}
}
