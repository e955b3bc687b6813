// Package e2e runs the real bridge program in front of other people's servers, most often the npm package
// server-everything on stdio, and talks to it over real sockets with hand-written HTTP, so that what is asserted is
// what is on the wire.
package e2e

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mcp-dualstack/bridge/test/harness"
)

// What TestMain found: the bridge program, server-everything's main file, and why there is none.
var (
	bridgeProgram string
	everything    string
	noEverything  string
)

func TestMain(m *testing.M) {
	flag.Parse()
	if testing.Short() {
		os.Exit(m.Run())
	}
	dir, err := os.MkdirTemp("", "bridge-e2e-")
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		os.Exit(1)
	}
	code := 1
	if err := prepare(dir); err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
	} else {
		code = m.Run()
	}
	os.RemoveAll(dir)
	os.Exit(code)
}

// prepare builds the bridge, with the race detector if the tests have it, and installs
// server-everything into the user's cache folder unless it is there.
func prepare(dir string) error {
	bridgeProgram = filepath.Join(dir, "bridge")
	if err := harness.Build(bridgeProgram, harness.Bridge); err != nil {
		return err
	}
	for _, tool := range []string{"node", "npm"} {
		if _, err := exec.LookPath(tool); err != nil {
			noEverything = tool + " is not installed"
		}
	}
	if noEverything == "" {
		install := exec.Command("node", filepath.Join("..", "interop", "refs-node", "install.mjs"))
		install.Stderr = os.Stderr
		out, err := install.Output()
		if err != nil {
			noEverything = fmt.Sprintf("server-everything could not be installed: %v", err)
		}
		everything = strings.TrimSpace(string(out))
	}
	if noEverything != "" {
		fmt.Fprintf(os.Stderr, "e2e: SKIPPING what needs server-everything: %s\n", noEverything)
	}
	return nil
}

// needBridge skips a test that starts the bridge when the tests are to be short.
func needBridge(tb testing.TB) {
	tb.Helper()
	if testing.Short() {
		tb.Skip("starts real processes; not with -short")
	}
}

// needEverything returns the command of server-everything on stdio. Without node or npm the test is
// skipped, but where CI is set it fails: there the tools are part of the deal.
func needEverything(tb testing.TB) []string {
	tb.Helper()
	needBridge(tb)
	if noEverything != "" && os.Getenv("CI") != "" {
		tb.Fatalf("needs server-everything: %s", noEverything)
	}
	if noEverything != "" {
		tb.Skipf("needs server-everything: %s", noEverything)
	}
	return []string{"--", "node", everything, "stdio"}
}
