package upstream_test

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
	"testing"
)

func debugLogger(log *logText) *slog.Logger {
	return slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

const secret = "c0ffee-secret"

// A logText collects a log.
type logText struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logText) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func checkSecret(t *testing.T, text string) {
	t.Helper()
	if strings.Contains(text, secret) {
		t.Errorf("a secret shows in %s", text)
	}
}
