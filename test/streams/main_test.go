// Package streams shows that streams survive what production does to them: idle proxies, cut connections,
// restarts, an orderly end, and a crowd that only listens. It runs the real bridge program in front of a real
// stdio server (server/) over real sockets, behind real nginx and HAProxy where they are installed.
//
// By default everything is small and takes some seconds; with -full it has the size that the goals name. CI
// set in the environment turns a missing tool from a skip into a failure.
package streams

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/mcp-dualstack/bridge/test/harness"
)

var full = flag.Bool("full", false, "run at the size that the goals name: some minutes")

// What TestMain built.
var bridgeProgram, serverProgram string

func TestMain(m *testing.M) {
	flag.Parse()
	if testing.Short() {
		os.Exit(m.Run())
	}
	dir, err := os.MkdirTemp("", "bridge-streams-")
	if err != nil {
		fmt.Fprintln(os.Stderr, "streams:", err)
		os.Exit(1)
	}
	// Subtests that run in parallel here wait; they do not compute.
	if err := flag.Set("test.parallel", "64"); err != nil {
		panic(err)
	}
	bridgeProgram, serverProgram = filepath.Join(dir, "bridge"), filepath.Join(dir, "server")
	code := 1
	if err := build(); err != nil {
		fmt.Fprintln(os.Stderr, "streams:", err)
	} else {
		code = m.Run()
	}
	os.RemoveAll(dir)
	os.Exit(code)
}

func build() error {
	if err := harness.Build(bridgeProgram, harness.Bridge); err != nil {
		return err
	}
	return harness.Build(serverProgram, "github.com/mcp-dualstack/bridge/test/streams/server")
}

// size returns how large or long something is to be.
func size[T any](small, atFull T) T {
	if *full {
		return atFull
	}
	return small
}

// needTool returns the path of an installed program. Without it the test is skipped, or fails where CI is set.
func needTool(tb testing.TB, name string) string {
	tb.Helper()
	needProcesses(tb)
	path, err := exec.LookPath(name)
	if err != nil {
		path, err = exec.LookPath("/usr/sbin/" + name) // not in everybody's PATH
	}
	switch {
	case err != nil && os.Getenv("CI") != "":
		tb.Fatalf("%s is not installed; test/streams/ci installs it", name)
	case err != nil:
		tb.Skipf("SKIPPING: %s is not installed; test/streams/ci installs it", name)
	}
	return path
}

// needProcesses skips a test that starts real processes when the tests are to be short.
func needProcesses(tb testing.TB) {
	tb.Helper()
	if testing.Short() {
		tb.Skip("starts real processes; not with -short")
	}
}

// A bridge is one running bridge in front of the server of this folder.
type bridge struct {
	*harness.Process
	addr    string
	base    string // http://ADDR
	reports *reports
}

// startBridge starts a bridge on a free port with further flags, and waits until it listens.
func startBridge(tb testing.TB, flags ...string) *bridge {
	tb.Helper()
	needProcesses(tb)
	return startAt(tb, harness.FreeAddr(tb), newReports(tb), flags...)
}

// childrenFor are flags with room for a server process for each of n sessions, those that are ending beside them.
func childrenFor(n int) []string { return []string{"--max-children", strconv.Itoa(2*n + 8)} }

func startAt(tb testing.TB, addr string, r *reports, flags ...string) *bridge {
	tb.Helper()
	b := &bridge{addr: addr, base: "http://" + addr, reports: r}
	args := append([]string{"serve", "--listen", addr, "--admin", "off", "--state", "off"}, flags...)
	args = append(args, "--", serverProgram, r.addr)
	b.Process = harness.Start(tb, exec.Command(bridgeProgram, args...))
	b.Says(tb, b.base)
	return b
}
