// Package hostile puts the real bridge program between peers who mean harm: clients that forge what HTTP, JSON and
// MCP are made of, and servers that send what nobody asked for. Nothing of one caller may reach another, nothing may leak
// or grow without end, every refusal has its status, and honest clients go on being served.
package hostile

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mcp-dualstack/bridge/test/harness"
)

// bridgeProgram is the bridge that TestMain built.
var bridgeProgram string

func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == childWord {
		os.Exit(serveChild(os.Args[2], strings.Join(os.Args[3:], " ")))
	}
	flag.Parse()
	if testing.Short() {
		os.Exit(m.Run())
	}
	dir, err := os.MkdirTemp("", "bridge-hostile-")
	if err != nil {
		fmt.Fprintln(os.Stderr, "hostile:", err)
		os.Exit(1)
	}
	code := 1
	bridgeProgram = filepath.Join(dir, "bridge")
	if err := harness.Build(bridgeProgram, harness.Bridge); err != nil {
		fmt.Fprintln(os.Stderr, "hostile:", err)
	} else {
		code = m.Run()
	}
	os.RemoveAll(dir)
	os.Exit(code)
}
