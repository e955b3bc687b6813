package upstream_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/exchange/exchangetest"
	"github.com/mcp-dualstack/bridge/internal/memhttp"
	"github.com/mcp-dualstack/bridge/negotiate"
	"github.com/mcp-dualstack/bridge/upstream"
)

// A sseServer puts exchangetest.Serve behind HTTP+SSE: GET /sse is a session, POST /messages a message to it.
type sseServer struct {
	served negotiate.Set

	mu       sync.Mutex
	lastID   int
	sessions map[string]net.Conn
}

func newSSEServer(served negotiate.Set) *sseServer {
	return &sseServer{served: served, sessions: make(map[string]net.Conn)}
}

func (s *sseServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/sse" && r.Method == http.MethodGet {
		s.stream(w, r)
		return
	}
	s.mu.Lock()
	conn := s.sessions[r.URL.Query().Get("session")]
	s.mu.Unlock()
	if conn == nil {
		http.Error(w, "unknown session", http.StatusNotFound)
		return
	}
	body, _ := io.ReadAll(r.Body)
	_, _ = conn.Write(append(body, '\n')) // it may have ended
	w.WriteHeader(http.StatusAccepted)
}

func (s *sseServer) stream(w http.ResponseWriter, r *http.Request) {
	ours, theirs := net.Pipe()
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() {
		_ = exchangetest.Serve(theirs, s.served)
		_ = theirs.Close()
	})
	defer ours.Close()
	defer context.AfterFunc(r.Context(), func() { _ = ours.Close() })()
	s.mu.Lock()
	s.lastID++
	id := strconv.Itoa(s.lastID)
	s.sessions[id] = ours
	s.mu.Unlock()
	say := events(w)
	say("event: endpoint\ndata: /messages?session=%s\n\n", id)
	lines := bufio.NewReader(ours)
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		say("event: message\ndata: %s\n\n", strings.TrimSpace(line))
	}
}

// sseOf returns an upstream in front of an HTTP+SSE server in memory.
func sseOf(t testing.TB, h http.Handler, o *upstream.Options) *upstream.Upstream {
	t.Helper()
	srv := memhttp.New(t, h)
	up, err := upstream.SSE(srv.URL+"/sse", through(sameEra(o), srv.Client().Transport))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = up.Close() })
	return up
}

// through returns the options with that way to the server.
func through(o *upstream.Options, rt http.RoundTripper) *upstream.Options {
	var d upstream.Options
	if o != nil {
		d = *o
	}
	var web upstream.HTTPOptions
	if d.HTTP != nil {
		web = *d.HTTP
	}
	web.RoundTripper = rt
	d.HTTP = &web
	return &d
}

func TestSSEContract(t *testing.T) {
	for _, served := range []struct {
		name string
		set  negotiate.Set
	}{{"dual", negotiate.All}, {"legacy", negotiate.Legacy}, {"modern", negotiate.Modern}} {
		for _, client := range []negotiate.Revision{negotiate.Rev20241105, negotiate.Rev20251125, negotiate.Rev20260728} {
			if !served.set.Has(client) {
				continue
			}
			t.Run(fmt.Sprintf("%s %s", served.name, client), func(t *testing.T) {
				exchangetest.TestHandler(t, exchangetest.Subject{Client: client, Served: served.set, Bubble: true,
					New: func(t testing.TB) (exchange.Handler, func()) {
						up := sseOf(t, newSSEServer(served.set), sameEra(nil))
						return up, func() { _ = up.Close() }
					}})
			})
		}
	}
}
