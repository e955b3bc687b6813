package streams

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mcp-dualstack/bridge/test/harness"
)

// handedCells are published clients, some of every family and transport (test/interop/cells.mjs). mcp-go v0.8.0 is
// not among them: it takes an absolute endpoint only, which nobody can give behind an unknown proxy.
var handedCells = []string{
	"ts-sdk@0.5.0/sse", "ts-sdk@1.10.2/sse", "ts-sdk@1.12.3/http", "ts-sdk@1.20.2/auto-on-sse-url", "ts-sdk@1.32.2/http",
	"ts-client@2.4.0/sse", "ts-client@2.4.0/http-legacy",
	"mcp-remote@0.15.1/sse-only", "mcp-remote@0.15.1/http-first", "supergateway@4.0.0/sse", "supergateway@4.0.0/http",
	"inspector-cli@2.12.0/sse", "inspector-cli@2.12.0/http", "langchain-mcp@1.1.4/sse", "langchain-mcp@1.1.4/http",
	"ai-sdk-mcp@0.0.18/sse", "ai-sdk-mcp@2.0.99/http-nodiscover",
	"go-sdk@v1.6.1/sse", "go-sdk@v1.8.0/http", "mcp-go@v0.43.2/sse", "mcp-go@v0.43.2/http",
}

// Published clients of every family pass through nginx and HAProxy as they do without: run-interop counts as
// expected what fails against others' servers too (expected/bridge.json). With -full only: it installs
// some hundred npm packages and takes minutes.
func TestPublishedClientsBehindProxies(t *testing.T) {
	needProcesses(t)
	if !*full {
		t.Skip("takes minutes; with -full")
	}
	node := needTool(t, "node")
	needTool(t, "npm")
	interop, err := filepath.Abs(filepath.Join("..", "interop"))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range []proxy{nginx, haproxy} {
		t.Run(p.name, func(t *testing.T) {
			install := exec.Command(node, filepath.Join(interop, "refs-node", "install.mjs"))
			install.Stderr = os.Stderr
			server, err := install.Output()
			if err != nil {
				t.Fatalf("install server-everything: %v", err)
			}
			addr := harness.FreeAddr(t)
			b := harness.Start(t, exec.Command(bridgeProgram, "serve", "--listen", addr, "--admin", "off", "--state", "off",
				"--keep-alive", "2s", "--", node, strings.TrimSpace(string(server)), "stdio"))
			b.Says(t, "http://"+addr)
			base := p.start(t, p, addr, 5*time.Second)
			out, err := exec.Command(filepath.Join(interop, "run-interop"), "--base", base, "--cache", interopCache(t), "--port", "23900",
				"--expect", filepath.Join(interop, "expected", "bridge.json"), "--only", strings.Join(handedCells, ",")).CombinedOutput()
			t.Logf("run-interop:\n%s", out)
			if err != nil {
				t.Errorf("run-interop: %v", err)
			}
		})
	}
}

// interopCache is where test/interop/ci keeps what it installs.
func interopCache(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("MCP_BRIDGE_CACHE")
	if dir == "" {
		user, err := os.UserCacheDir()
		if err != nil {
			t.Fatal(err)
		}
		dir = filepath.Join(user, "mcp-bridge")
	}
	return filepath.Join(dir, "interop")
}
