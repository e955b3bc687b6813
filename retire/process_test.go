package retire_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/mcp-dualstack/bridge/retire"
)

// childEnv makes the test binary a process that changes the state in the folder it names.
const childEnv = "RETIRE_TEST_DIR"

// child changes the state for ever, or once if it is to be, based on version 0. It says "changed N" after each change.
func child(dir string, once bool) {
	k, err := retire.OpenKeeper(dir, passive)
	if err != nil {
		fmt.Println("error:", err)
		return
	}
	for n := int64(0); ; n++ {
		c := retire.Change{Version: k.State().Version, State: *k.State(), Actor: fmt.Sprint("child ", os.Getpid()), Origin: retire.FromCLI}
		if once {
			c.Version = 0
		}
		c.State.Stage = retire.Stages()[n%3]
		switch s, err := k.Set(context.Background(), c); {
		case errors.Is(err, retire.ErrStale):
			fmt.Println("stale")
		case err != nil:
			fmt.Println("error:", err)
		default:
			fmt.Println("changed", s.Version)
		}
		if once {
			return
		}
	}
}

func childCommand(t *testing.T, dir, how string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+dir, childEnv+"_HOW="+how)
	return cmd
}

// Of processes that make a change based on the same version one succeeds.
func TestCompareAndSwapOfProcesses(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes")
	}
	const processes = 6
	dir := t.TempDir()
	outputs := make(chan string, processes)
	for range processes {
		cmd := childCommand(t, dir, "once")
		go func() {
			out, err := cmd.CombinedOutput()
			outputs <- strings.TrimSpace(string(out)) + errorText(err)
		}()
	}
	counts := make(map[string]int)
	for range processes {
		counts[<-outputs]++
	}
	if counts["changed 1"] != 1 || counts["stale"] != processes-1 {
		t.Errorf("got %v", counts)
	}
	whole(t, dir, 1)
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return " " + err.Error()
}

// A process that is killed at any moment leaves a state that can be opened, with every change it has reported, and a log that verifies.
func TestKill(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes")
	}
	const kills = 15
	dir := t.TempDir()
	for i := range kills {
		cmd := childCommand(t, dir, "for ever")
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		var reported int64
		lines := bufio.NewScanner(out)
		for n := 0; lines.Scan(); n++ {
			if _, err := fmt.Sscanf(lines.Text(), "changed %d", &reported); err != nil {
				t.Errorf("the child says %q", lines.Text())
			}
			if n == i { // then it is killed in the midst of the next one
				if err := cmd.Process.Kill(); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := cmd.Wait(); err == nil {
			t.Error("the child ended by itself")
		}
		k := openKeeper(t, dir, passive)
		if k.State().Version < reported || k.Damage() != nil {
			t.Errorf("kill %d: got %+v, %v after version %d was reported", i, k.State(), k.Damage(), reported)
		}
		if v, err := retire.Verify(dir); err != nil || !v.Whole() {
			t.Errorf("kill %d: got %+v, %v", i, v, err)
		}
	}
}
