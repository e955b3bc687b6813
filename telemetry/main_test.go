package telemetry_test

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if file := os.Getenv(recordEnv); file != "" {
		recordAndHang(file) // this process is the child of TestKill
	}
	if file := os.Getenv(loadEnv); file != "" {
		recordUnderLoad(file) // and that of TestKillUnderLoad
	}
	goleak.VerifyTestMain(m)
}
