package harness

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// Usage is what a process holds at one moment, as Linux tells it under /proc.
type Usage struct {
	Descriptors int // open files and sockets
	Threads     int
	Resident    int64 // bytes of memory
}

// Usage returns what the process holds.
func (p *Process) Usage(tb testing.TB) Usage {
	tb.Helper()
	dir := filepath.Join("/proc", strconv.Itoa(p.Cmd.Process.Pid))
	open, err := os.ReadDir(filepath.Join(dir, "fd"))
	if err != nil {
		tb.Skipf("SKIPPING: this system does not list processes under /proc: %v", err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "status"))
	if err != nil {
		tb.Fatal(err)
	}
	u := Usage{Descriptors: len(open)}
	for line := range strings.SplitSeq(string(text), "\n") {
		name, value, _ := strings.Cut(line, ":")
		fields := strings.Fields(value)
		if len(fields) == 0 {
			continue
		}
		n, _ := strconv.ParseInt(fields[0], 10, 64)
		switch name {
		case "Threads":
			u.Threads = int(n)
		case "VmRSS":
			u.Resident = n << 10
		}
	}
	return u
}

// Children returns the process ids of the children, zombies included.
func (p *Process) Children(tb testing.TB) []int {
	tb.Helper()
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	if len(stats) == 0 {
		tb.Skip("SKIPPING: this system does not list processes under /proc")
	}
	parent := strconv.Itoa(p.Cmd.Process.Pid)
	var pids []int
	for _, name := range stats {
		text, err := os.ReadFile(name)
		if err != nil {
			continue // it has ended
		}
		// PID (NAME) STATE PARENT ...; the name may hold anything, so read behind its last bracket.
		_, rest, _ := strings.Cut(string(text[bytes.LastIndexByte(text, ')')+1:]), " ")
		fields := strings.Fields(rest)
		if len(fields) < 2 || fields[1] != parent {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(name)))
		if err != nil {
			tb.Fatalf("%s: %v", name, err)
		}
		pids = append(pids, pid)
	}
	return pids
}

// Goroutines ends a Go process by SIGQUIT, upon which it prints the stacks of all goroutines, and returns
// where each of them was created, with how many there were: "net/http.(*Server).Serve": 12. Those of the
// runtime itself are left out, and so is goroutine 0, which is the thread that took the signal.
func (p *Process) Goroutines(tb testing.TB) map[string]int {
	tb.Helper()
	p.Signal(syscall.SIGQUIT)
	p.Wait(tb)
	_, dump, ok := strings.Cut(p.Output(), "SIGQUIT: quit")
	if !ok {
		tb.Fatalf("no stacks after SIGQUIT")
	}
	found := make(map[string]int)
	for stack := range strings.SplitSeq(dump, "\n\n") {
		if !regexp.MustCompile(`(?m)^goroutine [1-9]\d* `).MatchString(stack) {
			continue
		}
		by := "main"
		if m := regexp.MustCompile(`created by (\S+)`).FindStringSubmatch(stack); m != nil {
			by = m[1]
		}
		if !strings.HasPrefix(by, "runtime.") {
			found[by]++
		}
	}
	return found
}

// More says what one count of Goroutines has more than another, a line for each place; empty if nothing.
func More(got, than map[string]int) string {
	var out strings.Builder
	for by, n := range got {
		if n > than[by] {
			fmt.Fprintf(&out, "%s: %d more\n", by, n-than[by])
		}
	}
	return out.String()
}
