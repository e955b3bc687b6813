package e2e

import (
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mcp-dualstack/bridge/test/harness"
)

// startSSE starts server-everything as a server of HTTP+SSE on addr.
func startSSE(t *testing.T, addr string) *harness.Process {
	t.Helper()
	needEverything(t)
	cmd := exec.Command("node", everything, "sse")
	cmd.Env = append(os.Environ(), "PORT="+addr[strings.LastIndexByte(addr, ':')+1:])
	server := harness.Start(t, cmd)
	server.Listens(t, addr)
	t.Cleanup(func() {
		if !server.Ended() {
			server.Signal(syscall.SIGKILL)
			server.Wait(t)
		}
	})
	return server
}

// A server of HTTP+SSE is found out by its URL and serves clients of every revision on every transport.
func TestSSEUpstream(t *testing.T) {
	needEverything(t)
	addr := harness.FreeAddr(t)
	startSSE(t, addr)
	p := startBridge(t, "--upstream", "http://"+addr+"/sse")
	for _, revision := range revisions {
		t.Run("sse "+revision, func(t *testing.T) {
			c, got := openLegacy(t, p.base, "e2e-legacy", revision)
			if got != revision {
				t.Errorf("negotiated %s, want %s", got, revision)
			}
			checkEcho(t, c)
			m, err := c.call(t.Context(), `"slow"`, "tools/call", slowParams)
			checkProgress(t, m, err, c.seen())
		})
		t.Run("mcp "+revision, func(t *testing.T) {
			c := openSession(t, p.base, "/mcp", "e2e-session", revision)
			checkEcho(t, c)
			closeSession(t, c)
		})
	}
	t.Run("modern", func(t *testing.T) {
		a := do(t, p.base, request{path: "/mcp", headers: modernHeaders("tools/call", "Mcp-Name", "echo"),
			body: harness.Request("1", "tools/call", modernParams(`"name":"echo","arguments":{"message":"köln"}`))})
		if got := a.message.Text(); got != "Echo: köln" {
			t.Errorf("got %d %s", a.status, a.body)
		}
	})
}

// The server is killed in mid-call: the call is answered with an error within a second, and once the server is back new
// sessions are served.
func TestSSEUpstreamKilled(t *testing.T) {
	needEverything(t)
	addr := harness.FreeAddr(t)
	server := startSSE(t, addr)
	p := startBridge(t, "--upstream", "http://"+addr+"/sse")
	c, _ := openLegacy(t, p.base, "e2e-legacy", "2025-06-18")
	type answer struct {
		m   message
		err error
	}
	answered := make(chan answer, 1)
	go func() {
		m, err := c.call(t.Context(), "7", "tools/call", strings.Replace(slowParams, "0.5", "30", 1))
		answered <- answer{m, err}
	}()
	waitForProgress(t, c)
	server.Signal(syscall.SIGKILL)
	server.Wait(t)
	select {
	case a := <-answered:
		// The POST may not have been answered yet, and break first.
		if a.err != nil || a.m.Error == nil || !strings.Contains(string(a.m.Error.Data), "upstream_lost") && !strings.Contains(string(a.m.Error.Data), "upstream_stream_lost") {
			t.Errorf("got %s %+v, %v; want upstream_lost or upstream_stream_lost", a.m.Result, a.m.Error, a.err)
		}
	case <-time.After(time.Second):
		t.Error("the call is not answered a second after the server was killed")
	}
	startSSE(t, addr)
	again, _ := openLegacy(t, p.base, "e2e-legacy", "2025-06-18")
	checkEcho(t, again)
}

// waitForProgress waits for the first notification of a call.
func waitForProgress(t *testing.T, c *legacyClient) {
	t.Helper()
	for limit := time.Now().Add(20 * time.Second); len(c.seen()) == 0; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatal("the call tells no progress")
		}
	}
}
