package upstream_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
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

// A sseScript is a server of HTTP+SSE whose words the test chooses. Without a choice it refuses the probe, shakes hands, and
// answers calls with {}.
type sseScript struct {
	start string // of the stream; "": an endpoint event
	frame string // of a message event, with %s for the data; "": the usual
	call  func(x *sseTalk, w http.ResponseWriter, h *hit)
	probe func(x *sseTalk, w http.ResponseWriter, h *hit) // server/discover; nil: refused

	mu    sync.Mutex
	talks []*sseTalk
	names []string // of what was posted
	auths []string // Authorization of every request
}

// A sseTalk is one session.
type sseTalk struct {
	s    *sseScript
	out  chan string
	over context.CancelFunc
}

func (s *sseScript) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.auths = append(s.auths, r.Header.Get("Authorization"))
	s.mu.Unlock()
	if r.Method == http.MethodGet {
		s.stream(w, r)
		return
	}
	body, _ := io.ReadAll(r.Body)
	h := &hit{Request: r, body: body}
	h.m, _ = jsonrpc.Scan(body)
	s.mu.Lock()
	x := s.talks[len(s.talks)-1]
	if n, _ := strconv.Atoi(r.URL.Query().Get("session")); n > 0 && n < len(s.talks) {
		x = s.talks[n-1]
	}
	s.names = append(s.names, h.name())
	s.mu.Unlock()
	switch {
	case h.m.Method == "server/discover" && s.probe != nil:
		s.probe(x, w, h)
	case h.m.Method == "server/discover":
		w.WriteHeader(http.StatusAccepted)
		x.say(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"Method not found"}}`, h.m.ID)
	case h.m.Method == "initialize":
		w.WriteHeader(http.StatusAccepted)
		x.say(`{"jsonrpc":"2.0","id":%s,"result":%s}`, h.m.ID, okInitialize("2024-11-05"))
	case s.call != nil && h.m.Method != "notifications/initialized":
		s.call(x, w, h)
	default:
		w.WriteHeader(http.StatusAccepted)
		if h.m.Kind == jsonrpc.Request {
			x.say(`{"jsonrpc":"2.0","id":%s,"result":{}}`, h.m.ID)
		}
	}
}

func (s *sseScript) stream(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	x := &sseTalk{s: s, out: make(chan string, 256), over: cancel}
	s.mu.Lock()
	s.talks = append(s.talks, x)
	n := len(s.talks)
	s.mu.Unlock()
	start := s.start
	if start == "" {
		start = fmt.Sprintf("event: endpoint\ndata: /messages?session=%d\n\n", n)
	}
	say := events(w)
	say("%s", start)
	for {
		select {
		case text := <-x.out:
			say("%s", text)
		case <-ctx.Done():
			return
		}
	}
}

// say sends a message event.
func (x *sseTalk) say(format string, args ...any) {
	frame := x.s.frame
	if frame == "" {
		frame = "event: message\ndata: %s\n\n"
	}
	x.out <- fmt.Sprintf(frame, fmt.Sprintf(format, args...))
}

func (s *sseScript) posted() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.names, " ")
}

func (s *sseScript) streams() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.talks)
}

// inSSE runs f in a bubble with an upstream in front of the server.
func inSSE(t *testing.T, s http.Handler, o *upstream.Options, f func(t *testing.T, up *upstream.Upstream)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		up := sseOf(t, s, sameEra(o))
		f(t, up)
		if err := up.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
}

func openSSE(t *testing.T, up *upstream.Upstream) exchange.Session {
	t.Helper()
	sess, err := up.Open(t.Context(), legacyClient(negotiate.Rev20241105, &exchangetest.Peer{}))
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	return sess
}

// elsewhere is a host that is not that of memhttp.
const elsewhere = "http://other.example"
