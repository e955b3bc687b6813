package bridge_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	bridge "github.com/mcp-dualstack/bridge"
	"github.com/mcp-dualstack/bridge/internal/memhttp"
	"github.com/mcp-dualstack/bridge/retire"
)

const listOfToday = `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
	`"io.modelcontextprotocol/clientInfo":{"name":"new","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}`

// Retirement.md R5: /mcp, and the new transport on the old URL, are never touched by a stage. Clients of every era call all the time while
// the stage goes forth and back, and every single call is answered as ever; legacy clients come and go beside them.
func TestStreamableIsUntouchedByEveryStage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBridge(t, &server{}, &bridge.Options{Retirement: bridge.RetirementOptions{Docs: "https://docs.example/m", WarningHeader: true}})
		srv := memhttp.New(t, b)
		stop := make(chan struct{})
		var wg sync.WaitGroup
		var calls atomic.Int64
		fail := func(format string, args ...any) {
			t.Errorf("at %s: %s", b.Retirement().State().Stage, fmt.Sprintf(format, args...))
		}
		loop := func(path, body string, header ...string) {
			wg.Go(func() {
				for {
					select {
					case <-stop:
						return
					case <-time.After(200 * time.Millisecond):
					}
					untouched(srv, path, body, header, fail)
					calls.Add(1)
				}
			})
		}
		for _, path := range []string{"/mcp", "/sse"} {
			session := postTo(t, srv, srv.URL+path, initialize).Header.Get("Mcp-Session-Id")
			if session == "" {
				t.Fatalf("%s: no session", path)
			}
			header := []string{"Mcp-Session-Id", session, "Mcp-Protocol-Version", "2025-11-25"}
			loop(path, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, header...)
			loop(path, initialize)
			loop(path, listOfToday, "Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/list")
			stays(t, srv, path, header, stop, &wg)
		}
		legacyCrowd(srv, stop, &wg)

		all := []retire.Stage{retire.Announce, retire.Warn, retire.Brownout, retire.Closed, retire.Drain, retire.Gone}
		for _, stage := range append(all, retire.Open, retire.Gone, retire.Drain, retire.Closed, retire.Brownout, retire.Warn, retire.Announce, retire.Open) {
			for _, mode := range modesOf(stage) {
				setStage(t, b.Retirement(), stage, mode)
				time.Sleep(10 * time.Second)
			}
		}
		close(stop)
		wg.Wait()
		if n := calls.Load(); n < 5000 {
			t.Errorf("only %d calls were made", n)
		}
	})
}

// modesOf returns the lines of setStage by which a stage is tried.
func modesOf(stage retire.Stage) []string {
	switch stage {
	case retire.Brownout:
		return []string{"brownout initialize 0s 1h", "brownout calls 0s 1h", "brownout hard 0s 1h"}
	case retire.Gone:
		return []string{"", "tombstone on"}
	}
	return []string{""}
}

// untouched makes one call and fails unless it is answered with a result and without a word of the retirement.
func untouched(srv *memhttp.Server, path, body string, header []string, fail func(string, ...any)) {
	req, _ := http.NewRequest(http.MethodPost, srv.URL+path, strings.NewReader(body))
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := srv.Client().Do(req)
	if err != nil {
		fail("POST %s: %v", path, err)
		return
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK || !strings.Contains(string(text), `"result":`) || strings.Contains(string(text), "HTTP+SSE") {
		fail("POST %s: got %s, %s, %v", path, res.Status, text, err)
	}
	for _, name := range []string{"Deprecation", "Sunset", "Link", "Warning"} {
		if v := res.Header.Get(name); v != "" {
			fail("POST %s: has %s: %s", path, name, v)
		}
	}
	if id := res.Header.Get("Mcp-Session-Id"); id != "" && len(header) == 0 { // the loop opens many
		req, _ := http.NewRequest(http.MethodDelete, srv.URL+path, nil)
		req.Header.Set("Mcp-Session-Id", id)
		if res, err := srv.Client().Do(req); err != nil || res.StatusCode >= 300 {
			fail("DELETE %s: %v, %v", path, res, err)
		} else {
			res.Body.Close()
		}
	}
}

// stays opens the standing stream of a session and fails if it ends before stop.
func stays(t *testing.T, srv *memhttp.Server, path string, header []string, stop chan struct{}, wg *sync.WaitGroup) {
	req, _ := http.NewRequest(http.MethodGet, srv.URL+path, nil)
	req.Header.Set("Accept", "text/event-stream")
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := srv.Client().Do(req)
	if err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("GET %s: %v, %v", path, res, err)
	}
	wg.Go(func() {
		<-stop
		res.Body.Close()
	})
	wg.Go(func() {
		_, err := io.Copy(io.Discard, res.Body)
		select {
		case <-stop:
		default:
			t.Errorf("the standing stream of %s ended: %v", path, err)
		}
	})
}

// legacyCrowd are clients of the old transport that come, ask and go until stop. What they get is not this test's.
func legacyCrowd(srv *memhttp.Server, stop chan struct{}, wg *sync.WaitGroup) {
	for range 5 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				case <-time.After(time.Second):
				}
				req, _ := http.NewRequest(http.MethodGet, srv.URL+"/sse", nil)
				req.Header.Set("Accept", "text/event-stream")
				res, err := srv.Client().Do(req)
				if err != nil {
					continue
				}
				head := make([]byte, 512)
				n, _ := res.Body.Read(head)
				if _, to, ok := strings.Cut(string(head[:n]), "data: "); ok {
					to, _, _ = strings.Cut(to, "\n")
					if res, err := srv.Client().Post(to, "application/json", strings.NewReader(initialize)); err == nil {
						res.Body.Close()
					}
				}
				res.Body.Close()
			}
		})
	}
}
