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

// TestSSEByURL: a server of HTTP+SSE that is found out by its URL keeps the contract.
func TestSSEByURL(t *testing.T) {
	for _, client := range []negotiate.Revision{negotiate.Rev20241105, negotiate.Rev20251125} {
		t.Run(client.String(), func(t *testing.T) {
			exchangetest.TestHandler(t, exchangetest.Subject{Client: client, Served: negotiate.Legacy, Bubble: true,
				New: func(t testing.TB) (exchange.Handler, func()) {
					srv := memhttp.New(t, newSSEServer(negotiate.Legacy))
					r, err := upstream.URL(srv.URL+"/sse", through(sameEra(nil), srv.Client().Transport))
					if err != nil {
						t.Fatal(err)
					}
					return r, func() { _ = r.Close() }
				}})
		})
	}
}

// A URL whose server goes from HTTP+SSE to Streamable HTTP and back: new sessions follow the verdict, old ones live on, and Close
// ends them all.
func TestURLChangesTransport(t *testing.T) {
	var mu sync.Mutex
	streamable := false
	sseSide := &sseScript{}
	webSide := &webStub{TB: t, answer: legacyStub("2025-06-18", func(w http.ResponseWriter, h *hit) { say(w, h, `{"web":true}`) })}
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		web := streamable
		mu.Unlock()
		switch {
		case r.URL.Path == "/messages":
			sseSide.ServeHTTP(w, r)
		case web:
			webSide.ServeHTTP(w, r)
		case r.Method == http.MethodPost:
			w.WriteHeader(http.StatusMethodNotAllowed)
		default:
			sseSide.ServeHTTP(w, r)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		r := remoteOf(t, h, sameEra(nil))
		open := func() exchange.Session {
			t.Helper()
			sess, err := r.Open(t.Context(), legacyClient(negotiate.Rev20250618, &exchangetest.Peer{}))
			if err != nil {
				t.Fatalf("Open: %v", err)
			}
			return sess
		}
		first := open()
		for i, want := range []string{`{}`, `{"web":true}`, `{}`} {
			mu.Lock()
			streamable = i == 1
			mu.Unlock()
			if i > 0 {
				time.Sleep(2 * time.Hour) // the verdict is too old, and the next to ask has it renewed
				_, _ = r.Probe(t.Context())
				synctest.Wait()
			}
			text, err := call(open(), "tools/call", `{}`, nil).wait()
			equal(t, fmt.Sprint("session ", i), text, want)
			equal(t, "error", err, nil)
			text, err = call(first, "tools/call", `{}`, nil).wait()
			equal(t, "first session", text, `{}`)
			equal(t, "error", err, nil)
		}
		_ = r.Close()
		_, err := call(first, "tools/call", `{}`, nil).wait()
		equal(t, "after Close", reason(err), exchange.ReasonClosed)
	})
}
