package e2e

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mcp-dualstack/bridge/test/harness"
)

// R38: a child that ends at once shows in the health checks, and so does a server behind a URL that goes and comes back. Nothing of the
// command line is in them.
func TestHealth(t *testing.T) {
	needBridge(t)
	t.Run("a child that ends", func(t *testing.T) {
		admin := harness.FreeAddr(t)
		startBridge(t, "--admin", admin, "--", "sh", "-c", "exit 3", "s3cret")
		awaitHealth(t, admin, "/readyz", `503 {"status":"not ready","upstream":"down","reason":"upstream_unavailable"}`)
		awaitHealth(t, admin, "/healthz", `200 {"status":"ok","upstream":"down","reason":"upstream_unavailable"}`)
	})
	t.Run("a server that comes back", func(t *testing.T) {
		admin, addr := harness.FreeAddr(t), harness.FreeAddr(t)
		server := foreign{"gosdk", []string{"-addr", "{addr}"}, "/mcp"}
		running := server.listen(t, addr)
		startBridge(t, "--admin", admin, "--upstream", "http://"+addr+"/mcp")
		awaitHealth(t, admin, "/readyz", `200 {"status":"ready","upstream":"up"}`)
		running.Signal(syscall.SIGKILL)
		running.Wait(t)
		awaitHealth(t, admin, "/readyz", `503 {"status":"not ready","upstream":"down","reason":"upstream_unavailable"}`)
		server.listen(t, addr)
		awaitHealth(t, admin, "/readyz", `200 {"status":"ready","upstream":"up"}`)
	})
}

// awaitHealth asks until the answer is the one that is wanted: signs of life are believed for 10 s.
func awaitHealth(t *testing.T, admin, path, want string) {
	t.Helper()
	var got string
	for began := time.Now(); got != want && time.Since(began) < 25*time.Second; time.Sleep(100 * time.Millisecond) {
		resp, err := http.Get("http://" + admin + path)
		if err != nil {
			got = err.Error()
			continue
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		got = fmt.Sprint(resp.StatusCode, " ", strings.TrimSpace(string(body)))
		if err != nil {
			got = err.Error()
		}
	}
	if got != want {
		t.Errorf("%s: got %s, want %s", path, got, want)
	}
}
