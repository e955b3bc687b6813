package upstream_test

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"testing"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
	"github.com/mcp-dualstack/bridge/negotiate"
	"github.com/mcp-dualstack/bridge/upstream"
)

// A forgetful server hands out sessions and forgets them when it is told to.
type forgetful struct {
	always bool // every session, at once

	mu       sync.Mutex
	sessions int            // handed out
	forgot   int            // as many of the oldest
	ran      map[string]int // calls by tool
}

func (f *forgetful) answer(w http.ResponseWriter, h *hit) {
	switch {
	case h.name() == "initialize":
		f.mu.Lock()
		f.sessions++
		w.Header().Set(negotiate.HeaderSession, fmt.Sprint("S", f.sessions))
		f.mu.Unlock()
		say(w, h, okInitialize("2025-11-25"))
		return
	case h.name() == "server/discover", h.Method != http.MethodPost:
		legacyStub("2025-11-25", nil)(w, h)
		return
	}
	if f.unknown(h) {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	if h.m.Kind == jsonrpc.Notification {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	f.mu.Lock()
	f.ran[toolName(h)]++
	f.mu.Unlock()
	say(w, h, `{"content":[]}`)
}

func (f *forgetful) unknown(h *hit) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	var n int
	_, _ = fmt.Sscanf(h.Header.Get(negotiate.HeaderSession), "S%d", &n)
	return n <= f.forgot || f.always && h.m.Kind == jsonrpc.Request
}

func (f *forgetful) forget() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.forgot = f.sessions
}

// TestR06PooledSessionForgotten: calls on the session that clients share, of which the server says that it does not know it any more, have not
// run: one handshake, and each is sent once more, tools too (translation.md 11). It never loops.
func TestR06PooledSessionForgotten(t *testing.T) {
	const many = 10
	for _, test := range []struct {
		name       string
		always     bool
		reason     string
		handshakes int
		runs       int // of each tool
	}{
		{"once", false, "", 2, 1},
		{"always", true, exchange.ReasonSessionLost, 0, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := &forgetful{ran: make(map[string]int)}
			inWeb(t, &upstream.Options{Sharing: "pool"}, f.answer, func(ctx context.Context, s *webStub, r *upstream.Remote) {
				sess := sharingClient(ctx, t, r, "p")
				if _, err := sess.Call(ctx, named("first"), nil); err != nil {
					t.Fatal(err)
				}
				f.forget()
				f.always = test.always
				var wg sync.WaitGroup
				for i := range many {
					wg.Go(func() {
						_, err := sess.Call(ctx, named(fmt.Sprint("t", i)), nil)
						equal(t, "call", reason(err), test.reason)
					})
				}
				wg.Wait()
				for i := range many {
					equal(t, "runs", f.ran[fmt.Sprint("t", i)], test.runs)
				}
				if got := s.count("initialize"); test.handshakes > 0 && got != test.handshakes {
					t.Errorf("handshakes: got %d, want %d", got, test.handshakes)
				}
				if n := s.count("tools/call"); n > 1+2*many {
					t.Errorf("calls sent: got %d, want each at most twice", n)
				}
			})
		})
	}
}

// sharingClient opens a session of the pool for a client that can be asked nothing.
func sharingClient(ctx context.Context, t testing.TB, r *upstream.Remote, principal string) exchange.Session {
	t.Helper()
	c := webClient(negotiate.Rev20251125, nil)
	c.Principal = principal
	sess, err := r.Open(ctx, c)
	if err != nil {
		t.Fatal(err)
	}
	return sess
}
