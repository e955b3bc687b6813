package upstream_test

import (
	"fmt"
	"io"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// childEnv makes the test binary the child process of that name in the children table.
const childEnv = "UPSTREAM_TEST_CHILD"

func TestMain(m *testing.M) {
	if name := os.Getenv(childEnv); name != "" {
		if err := children[name](stdio{}); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

// stdio is the child's end of its standard streams.
type stdio struct{}

func (stdio) Read(p []byte) (int, error)  { return os.Stdin.Read(p) }
func (stdio) Write(p []byte) (int, error) { return os.Stdout.Write(p) }

var _ io.ReadWriter = stdio{}
