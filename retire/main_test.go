package retire_test

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(childEnv); dir != "" {
		child(dir, os.Getenv(childEnv+"_HOW") == "once") // this process is one of TestCompareAndSwapOfProcesses or TestKill
		return
	}
	goleak.VerifyTestMain(m)
}
