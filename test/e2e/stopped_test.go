package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/mcp-dualstack/bridge/test/harness"
)

// TestServerStops: a server behind a URL is stopped while 50 clients of every kind wait for a call. Each call is answered by an error within
// a second, nothing stays behind in the bridge, and when the server is back new calls succeed; sessions that the server kept
// end, and the others go on.
func TestServerStops(t *testing.T) {
	needBridge(t)
	for name, test := range map[string]struct {
		path     string
		signal   syscall.Signal
		stateful bool // the server keeps sessions
	}{
		"sessions killed":     {"/mcp-stateful", syscall.SIGKILL, true},
		"sessions terminated": {"/mcp-stateful", syscall.SIGTERM, true},
		"SSE killed":          {"/sse", syscall.SIGKILL, true},
		"stateless killed":    {"/mcp-stateless", syscall.SIGKILL, false},
		"dual killed":         {"/mcp", syscall.SIGKILL, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // most of it is waiting for connections to close
			addr := harness.FreeAddr(t)
			server := foreign{"gosdk", []string{"-addr", "{addr}"}, test.path}
			running := server.listen(t, addr)
			p := startBridge(t, "--upstream", "http://"+addr+test.path)
			t.Run("warm", func(t *testing.T) { newCrowd(t, p.base, 3).echo(t) })
			quiet := calm(t, p, 1<<20)

			outer := t
			t.Run("stop", func(t *testing.T) {
				c := newCrowd(t, p.base, 50)
				calls := c.hang(t)
				stopped := time.Now()
				running.Signal(test.signal)
				calls.fail(t, stopped, time.Second)
				running.Wait(t)
				server.listen(outer, addr)
				newCrowd(t, p.base, 10).echo(t)
				c.goOn(t, !test.stateful)
			})
			if n := len(p.Children(t)); n != 0 {
				t.Errorf("children: got %d, want none", n)
			}
			calm(t, p, quiet)
			checkGoroutines(t, p, "--upstream", "http://"+addr+test.path)
		})
	}
}

// calm waits until the bridge has no more than max files open, and returns how many it has when that stays so. Nothing tells when a process
// has closed a file, so it asks again and again.
func calm(t *testing.T, p *program, max int) int {
	t.Helper()
	var n int
	for began := time.Now(); time.Since(began) < 20*time.Second; time.Sleep(100 * time.Millisecond) {
		http.DefaultClient.CloseIdleConnections() // those of the clients, which other tests beside this one may have used
		now := p.Usage(t).Descriptors
		if now <= max && now == n && time.Since(began) > 5*time.Second { // pooled connections live 4 s
			return n
		}
		n = now
	}
	t.Errorf("files open: got %d, want at most %d", n, max)
	return n
}

// checkGoroutines ends the bridge and compares its goroutines with those of one that has seen a few clients come and go.
func checkGoroutines(t *testing.T, p *program, args ...string) {
	t.Helper()
	fresh := startBridge(t, args...)
	t.Run("fresh", func(t *testing.T) { newCrowd(t, fresh.base, 3).echo(t) })
	calm(t, fresh, 1<<20)
	if more := harness.More(p.Goroutines(t), fresh.Goroutines(t)); more != "" {
		t.Errorf("goroutines left behind:\n%s", more)
	}
}

// A crowd is clients of every kind, in turn: on HTTP+SSE, in a session, without one.
type crowd struct {
	base     string
	legacy   []*legacyClient
	sessions []*sessionClient
	modern   int
}

func newCrowd(t *testing.T, base string, n int) *crowd {
	t.Helper()
	c := &crowd{base: base}
	for i := range n {
		switch i % 3 {
		case 0:
			l, _ := openLegacy(t, base, "e2e-crowd", revisions[i%len(revisions)])
			c.legacy = append(c.legacy, l)
		case 1:
			c.sessions = append(c.sessions, openSession(t, base, "/mcp", "e2e-crowd", revisions[i%len(revisions)]))
		case 2:
			c.modern++
		}
	}
	return c
}

// echo has every client call once, and ends the sessions.
func (c *crowd) echo(t *testing.T) {
	t.Helper()
	for _, l := range c.legacy {
		checkEcho(t, l)
	}
	for _, s := range c.sessions {
		checkEcho(t, s)
		closeSession(t, s)
	}
	for range c.modern {
		a := do(t, c.base, request{path: "/mcp", headers: modernHeaders("tools/call", "Mcp-Name", "echo"),
			body: harness.Request("1", "tools/call", modernParams(`"name":"echo","arguments":{"message":"köln"}`))})
		if a.message.Text() != "Echo: köln" {
			t.Errorf("echo of a modern client: got %d %s", a.status, a.body)
		}
	}
}

// goOn calls again with the sessions from before the stop: they go on, or are over.
func (c *crowd) goOn(t *testing.T, alive bool) {
	t.Helper()
	for _, s := range c.sessions {
		if alive {
			checkEcho(t, s)
			closeSession(t, s)
			continue
		}
		// The first call may be what finds out that the server has forgotten the session, and the next overtake its end.
		var a answer
		for tries := 0; tries < 10 && a.status != http.StatusNotFound; tries++ {
			a = do(t, c.base, request{path: s.path, headers: s.headers(), body: harness.Request("9", "tools/call", echoParams("x"))})
		}
		if a.status != http.StatusNotFound {
			t.Errorf("a session that is lost: got %d %s, want 404", a.status, a.body)
		}
	}
	for _, l := range c.legacy {
		if alive {
			checkEcho(t, l)
		}
	}
}

// Hanging are calls under way in the server.
type hanging struct {
	began sync.WaitGroup
	ended chan struct{} // closed when all have their answers
	mu    sync.Mutex
	got   []message
	errs  []error
}

// hang has every client make a call that lasts, and returns when the server works on all.
func (c *crowd) hang(t *testing.T) *hanging {
	t.Helper()
	h := &hanging{ended: make(chan struct{})}
	var all sync.WaitGroup
	run := func(call func(began func()) (message, error)) {
		h.began.Add(1)
		all.Go(func() {
			m, err := call(sync.OnceFunc(h.began.Done))
			h.mu.Lock()
			defer h.mu.Unlock()
			if err != nil {
				h.errs = append(h.errs, err)
			}
			h.got = append(h.got, m)
		})
	}
	long := func(meta string) string {
		return `"name":"trigger-long-running-operation","arguments":{"duration":300,"steps":3000},"_meta":{` + meta + `"progressToken":"t"}`
	}
	for _, l := range c.legacy {
		run(func(began func()) (message, error) {
			go func() { // until there is progress, or the test ends
				for len(l.seen()) == 0 && t.Context().Err() == nil {
					time.Sleep(20 * time.Millisecond)
				}
				began()
			}()
			return l.call(t.Context(), "7", "tools/call", "{"+long("")+"}")
		})
	}
	for _, s := range c.sessions {
		run(func(began func()) (message, error) {
			return follow(t.Context(), c.base, request{path: s.path, headers: s.headers(), body: harness.Request("7", "tools/call", "{"+long("")+"}")}, began)
		})
	}
	for range c.modern {
		body := harness.Request("7", "tools/call", "{"+long(`"io.modelcontextprotocol/protocolVersion":"2026-07-28",`+
			`"io.modelcontextprotocol/clientInfo":{"name":"e2e-modern","version":"1"},"io.modelcontextprotocol/clientCapabilities":{},`)+"}")
		run(func(began func()) (message, error) {
			headers := modernHeaders("tools/call", "Mcp-Name", "trigger-long-running-operation")
			return follow(t.Context(), c.base, request{path: "/mcp", headers: headers, body: body}, began)
		})
	}
	go func() { all.Wait(); close(h.ended) }() // ends with the calls
	h.began.Wait()
	return h
}

// follow makes a call, tells of the first message before its answer, and returns the answer.
func follow(ctx context.Context, base string, r request, began func()) (message, error) {
	defer began()
	resp, err := send(ctx, base, r)
	if err != nil {
		return message{}, err
	}
	defer resp.Body.Close()
	if !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		var m message
		err := json.NewDecoder(resp.Body).Decode(&m)
		return m, err
	}
	events := harness.NewEventReader(resp.Body)
	for {
		e, err := events.Next()
		if err != nil {
			return message{}, err
		}
		if e.Data == "" {
			continue
		}
		m, err := e.Message()
		if err != nil || m.IsResponse() {
			return m, err
		}
		began()
	}
}

// fail checks that every call is answered by an error of the bridge's in time.
func (h *hanging) fail(t *testing.T, stopped time.Time, limit time.Duration) {
	t.Helper()
	select {
	case <-h.ended:
		t.Logf("all calls answered %v after the server was stopped", time.Since(stopped))
	case <-time.After(limit):
		h.mu.Lock()
		t.Errorf("%d calls answered after %v", len(h.got), limit)
		h.mu.Unlock()
		<-h.ended
	}
	for _, err := range h.errs {
		t.Error(err)
	}
	reasons := make(map[string]int)
	for _, m := range h.got {
		if m.Error == nil {
			t.Errorf("got %+v, want an error", m)
			continue
		}
		var data struct{ Bridge struct{ Reason string } }
		_ = json.Unmarshal(m.Error.Data, &data) // otherwise there is no reason
		reasons[fmt.Sprintf("%d %s", m.Error.Code, data.Bridge.Reason)]++
	}
	for reason := range reasons {
		switch reason {
		case "-32603 upstream_lost", "-32603 upstream_stream_lost":
		default:
			t.Errorf("got reasons %v, want upstream_lost or upstream_stream_lost", reasons)
		}
	}
}
