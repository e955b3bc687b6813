package hostile

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/mcp-dualstack/bridge/test/harness"
)

// peak returns the most memory that the bridge has held since it was started, in bytes.
func (b *bed) peak(t *testing.T) int64 {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(b.Cmd.Process.Pid), "status"))
	if err != nil {
		t.Skipf("SKIPPING: this system does not list processes under /proc: %v", err)
	}
	_, rest, _ := strings.Cut(string(text), "VmHWM:")
	kib, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return kib << 10
}

// Sixty clients that send large bodies at the same time take about as much memory as bodies may have together (128 MiB), half as much again
// for what is not collected yet, and while the server works at what they ask three times as much: what it is sent and what it answers.
// It does not matter how much they say will come.
func TestMemoryOfBodies(t *testing.T) {
	if harness.RaceEnabled {
		t.Skip("the race detector keeps memory of its own, several times that of the program")
	}
	const clients, bound = 60, 128 << 20
	big := strings.Repeat("x", 8<<20-1000)
	for _, tt := range []struct {
		name    string
		chunked bool
		part    int // bytes that are sent of each body
		status  string
		most    int64 // bytes of memory
	}{
		{"the first 2 MiB", false, 2 << 20, "408", 2 * bound},
		{"the first 2 MiB, of no known length", true, 2 << 20, "408", 2 * bound},
		{"all of it", false, 1 << 30, "200", 4 * bound},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := start(t, "--body-timeout", "4s")
			session := b.session(t)
			b.honest(t)
			before := b.peak(t)
			answers := make([]string, clients)
			var asking sync.WaitGroup
			for i := range clients {
				c := b.dial(t)
				body := tool(strconv.Itoa(1000+i), "echo", `"`+big+`"`)
				head := fmt.Sprintf("Content-Length: %d\r\n\r\n", len(body))
				if tt.chunked {
					head = fmt.Sprintf("Transfer-Encoding: chunked\r\n\r\n%x\r\n", len(body))
				}
				head = "POST /mcp HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n" +
					"Accept: application/json\r\nMcp-Session-Id: " + session[1] + "\r\n" + head
				asking.Go(func() {
					go func() { _, _ = io.WriteString(c, head+body[:min(tt.part, len(body))]) }() // ends with the connection: the bridge may have answered
					status := make([]byte, len("HTTP/1.1 200"))
					_, _ = io.ReadFull(c, status)
					answers[i] = strings.TrimPrefix(string(status), "HTTP/1.1 ")
					_, _ = io.Copy(io.Discard, c)
				})
			}
			asking.Wait()
			b.honest(t)
			peak := b.peak(t)
			if n := strings.Count(strings.Join(answers, " "), tt.status); n < 5 {
				t.Errorf("got %s %d times of %d: %v", tt.status, n, clients, answers)
			}
			if peak-before > tt.most {
				t.Errorf("%d clients take %d MiB, want %d at most", clients, (peak-before)>>20, tt.most>>20)
			}
			slices.Sort(answers)
			t.Logf("%v; %d MiB before, %d MiB at the peak", answers, before>>20, peak>>20)
		})
	}
}
