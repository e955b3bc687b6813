package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/mcp-dualstack/bridge/test/harness"
)

// A foreign server is a program of other people's that the bridge is put in front of.
type foreign struct {
	name string   // everything, ts-1.0.4, ts-1.12.3 or one of goServers
	args []string // {port} and {addr} stand for where it is to listen
	path string   // of its URL; empty: it speaks on stdio
}

// command returns its command line.
func (f foreign) command(tb testing.TB, addr string) []string {
	tb.Helper()
	_, port, _ := strings.Cut(addr, ":")
	var words []string
	switch f.name {
	case "everything":
		words = needEverything(tb)[1:3]
	case "ts-1.0.4", "ts-1.12.3":
		words = []string{"node", needTypescript(tb), strings.TrimPrefix(f.name, "ts-")}
	default:
		words = []string{goServer(tb, f.name)}
	}
	for _, a := range f.args {
		words = append(words, strings.NewReplacer("{port}", port, "{addr}", addr).Replace(a))
	}
	return words
}

// target starts the server if it is behind a URL, and returns what probe is told of it: the URL, or -- and a command.
func (f foreign) target(tb testing.TB) []string {
	tb.Helper()
	if f.path == "" {
		return append([]string{"--"}, f.command(tb, "")...)
	}
	addr := harness.FreeAddr(tb)
	f.listen(tb, addr)
	return []string{"http://" + addr + f.path}
}

// upstream is target for serve.
func (f foreign) upstream(tb testing.TB) []string {
	tb.Helper()
	t := f.target(tb)
	if f.path == "" {
		return t
	}
	return append([]string{"--upstream"}, t...)
}

// listen starts the server on addr. It is gone when the test ends.
func (f foreign) listen(tb testing.TB, addr string) *harness.Process {
	tb.Helper()
	words := f.command(tb, addr)
	cmd := exec.Command(words[0], words[1:]...)
	_, port, _ := strings.Cut(addr, ":")
	cmd.Env = append(os.Environ(), "PORT="+port) // of server-everything
	p := harness.Start(tb, cmd)
	p.Listens(tb, addr)
	tb.Cleanup(func() {
		if !p.Ended() {
			p.Signal(syscall.SIGKILL)
			p.Wait(tb)
		}
	})
	return p
}

// The servers in Go that are modules of their own, built when a test needs the first of them.
var goServers = map[string]func() (string, error){
	"mcpgo":   building("../../internal/thirdparty", "./mcpgo", "mcpgo"),
	"gosdk":   building("../interop/refserver-go", ".", "gosdk"),
	"fixture": building("../conformance/upstream", ".", "fixture"),
}

func building(module, path, name string) func() (string, error) {
	return sync.OnceValues(func() (string, error) {
		file := filepath.Join(filepath.Dir(bridgeProgram), name)
		out, err := exec.Command("go", "build", "-C", module, "-o", file, path).CombinedOutput()
		if err != nil {
			err = fmt.Errorf("build %s: %w\n%s", name, err, out)
		}
		return file, err
	})
}

func goServer(tb testing.TB, name string) string {
	tb.Helper()
	needBridge(tb)
	file, err := goServers[name]()
	if err != nil {
		tb.Fatal(err)
	}
	return file
}
