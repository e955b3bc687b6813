package main

import (
	"bytes"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
)

const planted = "PLANTED"

// A transcript keeps what is written to it.
type transcript struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (s *transcript) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

func (s *transcript) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// What the program is given in secret is neither on the screen nor in the log at debug: arguments and environment of the server,
// credentials of its URL, headers, and the values of variables that are no settings.
func TestSecretsAreNotShown(t *testing.T) {
	if testing.Short() {
		t.Skip("uses real sockets, processes and time")
	}
	dir := t.TempDir()
	bearer := filepath.Join(dir, "bearer")
	if err := os.WriteFile(bearer, []byte(planted+"-bearer"), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name string
		args []string
	}{
		{"a URL that nobody answers", []string{
			"--upstream", "http://user:" + planted + "-password@127.0.0.1:1/mcp?key=" + planted + "-query",
			"--upstream-header", "X-Api-Key: " + planted + "-header", "--upstream-bearer-file", bearer,
		}},
		{"a command that ends", []string{"--", "sh", "-c", "exit 3", planted + "-argument"}},
		{"a command that is not there", []string{"--", filepath.Join(dir, "nothing"), planted + "-argument"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			isolate(t)
			t.Setenv("BRIDGE_NO_SUCH_SETTING", planted+"-variable")
			c, err := parse(t, append([]string{"--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"}, tt.args...)...)
			if err != nil {
				t.Fatal(err)
			}
			log, shown := &transcript{}, &transcript{}
			screen, w := io.Pipe()
			signals, done := make(chan os.Signal, 2), make(chan error, 1)
			go func() {
				err := serve(c, w, slog.New(slog.NewJSONHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug - 100})), signals)
				w.Close()
				done <- err
			}()
			base := baseOf(t, io.TeeReader(screen, shown))
			go io.Copy(shown, screen) // ends when serve has
			req, _ := http.NewRequest(http.MethodPost, base+"/mcp?token="+planted+"-token", strings.NewReader(
				`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"x","version":"1"},"_meta":{"x":"`+planted+`-meta"}}}`))
			req.Header.Set("Content-Type", "application/json")
			req.Header.Set("Accept", "application/json, text/event-stream")
			req.Header.Set("Authorization", "Bearer "+planted+"-client")
			res, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			answer, _ := io.ReadAll(res.Body)
			res.Body.Close()
			signals <- syscall.SIGTERM
			if err := <-done; err != nil && strings.Contains(err.Error(), planted) {
				t.Errorf("serve ended with %v", err)
			}
			http.DefaultClient.CloseIdleConnections()
			for what, text := range map[string]string{"log": log.String(), "screen": shown.String(), "answer": string(answer)} {
				for line := range strings.Lines(text) {
					if strings.Contains(line, planted) {
						t.Errorf("%s: a secret shows: %s", what, line)
					}
				}
			}
			if !strings.Contains(log.String(), "BRIDGE_NO_SUCH_SETTING") {
				t.Error("the log does not even name the variable: nothing was looked at")
			}
		})
	}
}

// baseOf reads the URL of the bridge off its screen.
func baseOf(t *testing.T, screen io.Reader) string {
	t.Helper()
	var line []byte
	one := make([]byte, 1)
	for {
		if _, err := screen.Read(one); err != nil {
			t.Fatalf("no URL on the screen: %v", err)
		}
		if one[0] != '\n' {
			line = append(line, one[0])
			continue
		}
		if f := strings.Fields(string(line)); len(f) > 2 && f[0] == "Streamable" {
			return strings.TrimSuffix(f[2], "/mcp")
		}
		line = line[:0]
	}
}
