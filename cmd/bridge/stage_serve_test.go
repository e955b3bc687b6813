//go:build !nolegacy

package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// seenStage returns the stage that everybody can read.
func (r *running) seenStage(t *testing.T) string {
	t.Helper()
	res, err := http.Get(r.base + "/retirement")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var s struct{ Stage string }
	if err := json.NewDecoder(res.Body).Decode(&s); err != nil {
		t.Fatal(err)
	}
	return s.Stage
}

// streamStatus returns the status of a GET of the stream and, of a stream, its head.
func (r *running) streamStatus(t *testing.T) (status int, head string) {
	t.Helper()
	res, err := http.Get(r.base + "/sse")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	buf := make([]byte, 1024)
	n, err := res.Body.Read(buf)
	if err != nil && err != io.EOF {
		t.Fatal(err)
	}
	return res.StatusCode, string(buf[:n])
}

// Retirement.md 6: what bridge retire sets beside a running serve is in force within 2 s, and still after a restart; the way back as well.
func TestStageBesideServe(t *testing.T) {
	state := t.TempDir()
	r := startServe(t, "--state", state, "--retire-docs", "https://docs.example/m")
	for _, c := range []struct {
		args   []string
		stage  string
		status int
		head   string // in the answer to GET /sse
	}{
		{[]string{"set", "warn"}, "warn", 200, "event: endpoint\ndata: "},
		{[]string{"set", "closed", "--force", "--reason", "a test", "--yes"}, "closed", 200, "retry: 600000\n"},
		{[]string{"set", "gone", "--force", "--reason", "a test", "--yes"}, "gone", 405, r.base + "/mcp instead, see https://docs.example/m."},
		{[]string{"undo", "--yes"}, "closed", 200, "retry: 600000\n"},
	} {
		var stdout, stderr bytes.Buffer
		if code := run(append([]string{"retire", "--state", state}, c.args...), &stdout, &stderr); code != exitOK {
			t.Fatalf("retire %v: exit code %d: %s", c.args, code, &stderr)
		}
		begun := time.Now()
		for r.seenStage(t) != c.stage {
			if time.Since(begun) > 2*time.Second {
				t.Fatalf("retire %v: not in force after 2 s", c.args)
			}
			time.Sleep(10 * time.Millisecond) // another program, real files: nothing tells
		}
		if status, head := r.streamStatus(t); status != c.status || !strings.Contains(head, c.head) {
			t.Errorf("retire %v: GET /sse is %d %q, want %d with %q", c.args, status, head, c.status, c.head)
		}
	}
	r.stop(t)
	r = startServe(t, "--state", state)
	if got := r.seenStage(t); got != "closed" {
		t.Errorf("after a restart: stage %s, want closed", got)
	}
	r.stop(t)
	r = startServe(t, "--state", state, "--legacy", "off")
	if status, _ := r.streamStatus(t); r.seenStage(t) != "gone" || status != 405 {
		t.Errorf("with --legacy off: stage %s and %d, want gone and 405", r.seenStage(t), status)
	}
}
