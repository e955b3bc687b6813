// Package harness runs the real bridge program for tests and reads what it says on the wire, by hand, so
// that a mistake in the bridge's own code cannot hide itself.
package harness

import (
	"fmt"
	"os/exec"
)

// Bridge is the import path of the bridge program.
const Bridge = "github.com/mcp-dualstack/bridge/cmd/bridge"

// Build builds a program of this module into file, with the race detector if the tests have it.
func Build(file, path string) error {
	args := []string{"build", "-o", file}
	if RaceEnabled {
		args = append(args, "-race")
	}
	if out, err := exec.Command("go", append(args, path)...).CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", path, err, out)
	}
	return nil
}
