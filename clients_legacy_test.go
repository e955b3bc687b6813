//go:build !nolegacy

package bridge_test

import (
	"bufio"
	"context"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	bridge "github.com/mcp-dualstack/bridge"
	"github.com/mcp-dualstack/bridge/internal/memhttp"
	"github.com/mcp-dualstack/bridge/upstream"
)

// R36: thirty clients of both transports come and go at random for twenty seconds, in the middle of whatever they do. Each
// connection is a session of its own, the bridge goes on, and no connection to the server is left of anybody.
func TestClientsComeAndGo(t *testing.T) {
	const script = `server/discover: error {"code":-32601,"message":"no"}
initialize: result {"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}
tools/call: wait 300ms
  result {"content":[]}
`
	synctest.Test(t, func(t *testing.T) {
		var made, open atomic.Int32 // connections to the server
		b, err := bridge.New(upstream.Pipe(func(context.Context) (io.ReadWriteCloser, error) {
			ours, theirs := net.Pipe()
			made.Add(1)
			open.Add(1)
			go func() {
				defer open.Add(-1)
				serveScript(theirs, script, func(string, string) {})
			}()
			return ours, nil
		}, &upstream.Options{MaxSessions: 2000}), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		srv := memhttp.New(t, b)
		until := time.Now().Add(20 * time.Second)
		var clients sync.WaitGroup
		for n := range 30 {
			visit := visitSSE
			if n%2 == 1 {
				visit = visitMCP
			}
			r := rand.New(rand.NewPCG(36, uint64(n)))
			clients.Go(func() {
				for time.Now().Before(until) {
					stay := time.Duration(r.IntN(900)) * time.Millisecond
					ctx, cancel := context.WithTimeout(t.Context(), stay)
					visit(ctx, t, srv, stay)
					cancel()
					time.Sleep(time.Duration(r.IntN(100)) * time.Millisecond)
				}
			})
		}
		clients.Wait()

		stream, endpoint := sseOf(t, srv) // who comes now is served as if nothing had been
		if res := postTo(t, srv, endpoint, strings.Replace(newestInitialize, "2025-11-25", "2024-11-05", 1)); res.StatusCode != http.StatusAccepted {
			t.Errorf("initialize: got %s", res.Status)
		}
		for line := ""; !strings.Contains(line, `"serverInfo"`); {
			if line, err = stream.ReadString('\n'); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(31 * time.Minute) // those who left without DELETE are given up
		synctest.Wait()
		if n := open.Load(); n > 2 { // that client's, and one that the probe may have left for the next
			t.Errorf("%d connections to the server are left of %d", n, made.Load())
		}
		if made.Load() < 100 {
			t.Errorf("only %d connections were made: the clients did not come and go", made.Load())
		}
	})
}

// visitSSE opens a legacy stream, begins a session and a call, and is cut at the end of ctx wherever it is.
func visitSSE(ctx context.Context, t *testing.T, srv *memhttp.Server, _ time.Duration) {
	req, _ := http.NewRequestWithContext(ctx, http.MethodGet, srv.URL+"/sse", nil)
	res, err := srv.Client().Do(req)
	if err != nil {
		return
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		t.Errorf("GET /sse: got %s", res.Status)
	}
	lines := bufio.NewScanner(res.Body)
	for lines.Scan() {
		if to, ok := strings.CutPrefix(lines.Text(), "data: http"); ok {
			for _, body := range []string{newestInitialize, `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"a"}}`} {
				postFor(ctx, srv, "http"+to, "", body)
			}
		}
	}
}

// visitMCP begins a session and a call, and ends the session if it has the time, else leaves it behind.
func visitMCP(ctx context.Context, t *testing.T, srv *memhttp.Server, stay time.Duration) {
	id := postFor(ctx, srv, srv.URL+"/mcp", "", newestInitialize)
	if id == "" {
		return
	}
	postFor(ctx, srv, srv.URL+"/mcp", id, `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"a"}}`)
	if stay < 600*time.Millisecond {
		return
	}
	req, _ := http.NewRequestWithContext(t.Context(), http.MethodDelete, srv.URL+"/mcp", nil)
	req.Header.Set("Mcp-Session-Id", id)
	res, err := srv.Client().Do(req)
	if err != nil || res.StatusCode != http.StatusNoContent {
		t.Errorf("DELETE: got %v, %v", res, err)
		return
	}
	res.Body.Close()
}

// postFor posts a message, reads the answer as long as ctx lasts, and returns the id of the session that it names.
func postFor(ctx context.Context, srv *memhttp.Server, to, session, body string) string {
	req, _ := http.NewRequestWithContext(ctx, http.MethodPost, to, strings.NewReader(body))
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	if session != "" {
		req.Header.Set("Mcp-Session-Id", session)
	}
	res, err := srv.Client().Do(req)
	if err != nil {
		return ""
	}
	defer res.Body.Close()
	_, _ = io.Copy(io.Discard, res.Body) // it may be cut in the middle
	return res.Header.Get("Mcp-Session-Id")
}
