//go:build !nolegacy

package bridge_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	bridge "github.com/mcp-dualstack/bridge"
)

// A legacyStream is the ResponseWriter of a stream that somebody waits on.
type legacyStream struct {
	drain
	events chan string // what was written, write by write
}

func (s *legacyStream) Write(b []byte) (int, error) {
	s.events <- string(b[:min(len(b), 256)])
	return len(b), nil
}

// legacyCalls opens a stream and returns what makes one call on it: POST, 202, and the answer on the stream.
func legacyCalls(tb testing.TB, b *bridge.Bridge) map[string]func(testing.TB) {
	tb.Helper()
	s := &legacyStream{drain{header: http.Header{}}, make(chan string, 1)}
	ctx, cancel := context.WithCancel(context.Background())
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "/sse", nil)
	if err != nil {
		tb.Fatal(err)
	}
	req.Host, req.RemoteAddr = "localhost", "127.0.0.1:9"
	done := make(chan struct{})
	go func() { // ends with ctx
		defer close(done)
		b.ServeHTTP(s, req)
	}()
	tb.Cleanup(func() {
		cancel()
		<-done
	})
	_, endpoint, _ := strings.Cut(<-s.events, "data: ")
	endpoint, _, _ = strings.Cut(endpoint, "\n")
	newPoster(tb, b, endpoint, `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2024-11-05","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`).once(tb, http.StatusAccepted)
	<-s.events
	p := newPoster(tb, b, endpoint, toolCall(""))
	return map[string]func(testing.TB){"legacy": func(tb testing.TB) {
		p.once(tb, http.StatusAccepted)
		<-s.events
	}}
}
