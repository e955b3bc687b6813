package retirement

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// A kind is how a published client is run.
type kind struct {
	name    string
	pkg     string   // npm alias, for the TypeScript ones
	library string   // for the Go ones
	remote  []string // arguments of mcp-remote behind the URL
	http    bool     // it has a Streamable HTTP transport, and so the dual-mode pattern
	stale   bool     // it shows the body of a message that was refused with a status
}

// published are the clients of retirement.md 10, check 1.
var published = []kind{
	{name: "ts-sdk 1.0.4", pkg: "sdk-1.0.4", stale: true},
	{name: "ts-sdk 1.10.2", pkg: "sdk-1.10.2", http: true, stale: true},
	{name: "ts-sdk 1.12.3", pkg: "sdk-1.12.3", http: true, stale: true},
	{name: "ts-sdk 1.32.2", pkg: "sdk-1.32.2", http: true, stale: true},
	{name: "ts-client 2.4.0", pkg: "client-2.4.0", http: true, stale: true},
	{name: "mcp-remote 0.15.1", pkg: "sdk-1.32.2", remote: []string{"--transport", "sse-only", "--allow-http"}, stale: true},
	{name: "go-sdk 1.8.0", library: "go-sdk"},
	{name: "mcp-go 1.2.1", library: "mcp-go", stale: true},
}

// A running client is one process.
type running struct {
	t       *testing.T
	name    string
	in      io.WriteCloser
	out     *bufio.Scanner
	process *exec.Cmd
}

// A result is what a step came to.
type result struct {
	OK     bool   `json:"ok"`
	Detail string `json:"detail"`
}

// start runs the client against a URL. transport is that of the driver for TypeScript clients: sse, http or auto.
func (k kind) start(t *testing.T, transport, url string) *running {
	t.Helper()
	var cmd *exec.Cmd
	switch {
	case k.library != "":
		cmd = exec.Command(filepath.Join(*installed, "clients"), "-library", k.library, "-url", url)
	case k.remote != nil:
		line := append([]string{"node", "node_modules/mcp-remote-0.15.1/dist/proxy.js", url}, k.remote...)
		text, err := json.Marshal(line)
		if err != nil {
			t.Fatal(err)
		}
		cmd = exec.Command("node", "driver.mjs", "--pkg", k.pkg, "--kind", "exec", "--exec", string(text))
	default:
		cmd = exec.Command("node", "driver.mjs", "--pkg", k.pkg, "--kind", transport, "--url", url)
	}
	if k.library == "" {
		cmd.Dir = filepath.Join(*installed, "node")
	}
	home := t.TempDir()
	cmd.Env = append(cmd.Environ(), "HOME="+home, "MCP_REMOTE_CONFIG_DIR="+filepath.Join(home, "auth"), "NO_COLOR=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // mcp-remote is a child of the driver
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	r := &running{t: t, name: k.name, in: in, out: bufio.NewScanner(out), process: cmd}
	r.out.Buffer(nil, 1<<20)
	t.Cleanup(r.end)
	return r
}

// do carries out one step.
func (r *running) do(step string) result {
	r.t.Helper()
	if _, err := fmt.Fprintln(r.in, step); err != nil {
		return result{Detail: fmt.Sprintf("the client has ended: %v", err)}
	}
	for r.out.Scan() {
		var got struct {
			Step string `json:"step"`
			result
		}
		if json.Unmarshal(r.out.Bytes(), &got) == nil && got.Step == step { // a library may print too
			return got.result
		}
	}
	return result{Detail: "the client has ended"}
}

// end lets the client go, and makes it.
func (r *running) end() {
	_, _ = io.WriteString(r.in, "quit\n") // it may have ended
	_ = r.in.Close()
	timer := time.AfterFunc(5*time.Second, func() { _ = syscall.Kill(-r.process.Process.Pid, syscall.SIGKILL) })
	_ = r.process.Wait() // it is not the exit code that is tested
	timer.Stop()
	_ = syscall.Kill(-r.process.Process.Pid, syscall.SIGKILL) // what it left behind
}
