package upstream_test

import (
	"fmt"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/exchange/exchangetest"
	"github.com/mcp-dualstack/bridge/internal/memhttp"
	"github.com/mcp-dualstack/bridge/negotiate"
	"github.com/mcp-dualstack/bridge/upstream"
)

// TestNewsAfterTheAnswer: a session that serves one call ends with it. What the server said of that call on the standing
// stream, another connection, may be slower than the answer: it is heard, and a server that does not end its
// stream is not waited for.
func TestNewsAfterTheAnswer(t *testing.T) {
	for _, test := range []struct {
		name   string
		lasts  time.Duration // the standing stream of a deleted session; the first note is there at once
		delete int
		heard  int
	}{
		{"the server ends the stream", time.Nanosecond, http.StatusNoContent, 2},
		{"later", 50 * time.Millisecond, http.StatusNoContent, 2},
		{"never", time.Hour, http.StatusNoContent, 1},
		{"it does not let clients end a session", 50 * time.Millisecond, http.StatusMethodNotAllowed, 2},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var (
					mu      sync.Mutex
					begun   int
					deleted = make(map[string]chan struct{}) // by session
					cut     = make(chan time.Time, 1)        // when the stream of the call's session was
				)
				rest := legacyStub("2025-11-25", func(w http.ResponseWriter, h *hit) { say(w, h, `{"content":[]}`) })
				s := &webStub{TB: t, answer: func(w http.ResponseWriter, h *hit) {
					mu.Lock()
					over := deleted[h.Header.Get(negotiate.HeaderSession)]
					mu.Unlock()
					switch h.name() {
					case "initialize":
						mu.Lock()
						begun++
						id := fmt.Sprint("S", begun)
						deleted[id] = make(chan struct{})
						mu.Unlock()
						w.Header().Set(negotiate.HeaderSession, id)
						say(w, h, okInitialize("2025-11-25"))
					case "GET":
						tell := events(w)
						select {
						case <-over:
						case <-h.Context().Done():
							return
						}
						tell("data: %s\n\n", toolsChanged)
						select {
						case <-time.After(test.lasts):
							tell("data: %s\n\n", toolsChanged)
						case <-h.Context().Done():
							cut <- time.Now()
						}
					case "DELETE":
						close(over)
						w.WriteHeader(test.delete)
					default:
						rest(w, h)
					}
				}}
				srv := memhttp.New(t, s)
				r, err := upstream.URL(srv.URL+"/mcp", &upstream.Options{HTTP: &upstream.HTTPOptions{RoundTripper: srv.Client().Transport}})
				if err != nil {
					t.Fatal(err)
				}
				var back exchangetest.Peer
				watcher, err := r.Open(t.Context(), watching("", &back))
				if err != nil {
					t.Fatal(err)
				}
				c, err := r.Open(t.Context(), modern("", `{"roots":{}}`)) // for whom a session serves one call
				if err != nil {
					t.Fatal(err)
				}
				if _, err := c.Call(t.Context(), exchange.Request{Method: "tools/call", Params: []byte(`{"name":"t"}`)}, &exchangetest.Peer{}); err != nil {
					t.Fatal(err)
				}
				answered := time.Now()
				time.Sleep(time.Second)
				synctest.Wait()
				if got := len(back.Notes()); got != test.heard {
					t.Errorf("the watcher heard %d changes, want %d", got, test.heard)
				}
				if got := s.count("DELETE"); got != 1 {
					t.Errorf("got %d DELETE, want 1", got)
				}
				if test.lasts > time.Second {
					if after := (<-cut).Sub(answered); after > 200*time.Millisecond {
						t.Errorf("the stream was cut %v after the answer", after)
					}
				}
				_, _ = watcher.Close(), c.Close()
				if err := r.Close(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestCloseWhileASessionParts: the bridge may be closed just as the call of a session that serves one ends (for -race).
func TestCloseWhileASessionParts(t *testing.T) {
	for range 50 {
		synctest.Test(t, func(t *testing.T) {
			s := &webStub{TB: t, answer: legacyStub("2025-11-25", func(w http.ResponseWriter, h *hit) {
				time.Sleep(time.Second)
				say(w, h, `{"content":[]}`)
			})}
			r, err := upstream.InProcess(s, &upstream.Options{})
			if err != nil {
				t.Fatal(err)
			}
			c, err := r.Open(t.Context(), modern("", `{"roots":{}}`))
			if err != nil {
				t.Fatal(err)
			}
			var wg sync.WaitGroup
			wg.Go(func() {
				_, _ = c.Call(t.Context(), exchange.Request{Method: "tools/call", Params: []byte(`{"name":"t"}`)}, &exchangetest.Peer{}) // whichever is first
			})
			time.Sleep(time.Second) // with the answer
			_ = r.Close()
			wg.Wait()
		})
	}
}
