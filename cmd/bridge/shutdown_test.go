package main

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	bridge "github.com/mcp-dualstack/bridge"
	"github.com/mcp-dualstack/bridge/cmd/bridge/demo"
	"github.com/mcp-dualstack/bridge/upstream"
)

// The clients' listener speaks HTTP/2 without TLS, as proxies do, and streams outlast its timeouts there.
func TestH2C(t *testing.T) {
	r := startServe(t)
	var h2 http.Protocols
	h2.SetUnencryptedHTTP2(true)
	tr := &http.Transport{Protocols: &h2}
	defer tr.CloseIdleConnections()
	post := func(body, session string) *http.Response {
		req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, r.base+"/mcp", strings.NewReader(body))
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Accept", "application/json, text/event-stream")
		if session != "" {
			req.Header.Set("Mcp-Session-Id", session)
		}
		res, err := (&http.Client{Transport: tr}).Do(req)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { res.Body.Close() })
		if res.ProtoMajor != 2 {
			t.Fatalf("got %s, want HTTP/2", res.Proto)
		}
		return res
	}
	res := post(initialize, "")
	io.Copy(io.Discard, res.Body)
	checkSlow(t, bufio.NewReader(post(callSlow, res.Header.Get("Mcp-Session-Id")).Body))
}

// After the first signal readyz fails and everything is served for --drain-delay; a second one ends that at once.
func TestDrainDelay(t *testing.T) {
	if testing.Short() {
		t.Skip("uses real sockets and time")
	}
	b, front, servers := standing(t, upstream.Pipe(demo.Dial, nil))
	signals := make(chan os.Signal, 2)
	done := make(chan error, 1)
	go func() {
		done <- shutdown(b, &door{next: b}, servers, ending{delay: time.Hour, timeout: time.Second}, slog.New(slog.DiscardHandler), signals)
	}()
	waitFor(t, func() bool { return status(t, b, "/readyz") == http.StatusServiceUnavailable })
	res, err := http.Post("http://"+front.Addr().String()+"/mcp", "application/json", strings.NewReader(initialize))
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if res.StatusCode != http.StatusOK {
		t.Errorf("initialize during the delay: got %d", res.StatusCode)
	}
	waitFor(t, func() bool { // a signal is a second one only when some time has passed
		select {
		case signals <- syscall.SIGTERM:
		default:
		}
		return len(done) > 0
	})
	if _, ok := errors.AsType[*exitError](<-done); !ok {
		t.Error("the second signal did not end it")
	}
	_ = b.Close()
}

// While streams end, what is new is told to come back, and who comes back for a stream is cut without a status: an EventSource
// tries again after that, and never after a 503.
func TestRefusalsWhileStreamsEnd(t *testing.T) {
	if testing.Short() {
		t.Skip("uses real sockets")
	}
	if !bridge.LegacyBuilt {
		t.Skip("needs the HTTP+SSE transport")
	}
	up := &lasting{Connector: upstream.Pipe(demo.Dial, nil), hold: make(chan struct{})}
	b, front, servers := standing(t, up)
	base := "http://" + front.Addr().String()
	entrance := servers[0].Handler.(*door)
	res, err := http.Get(base + "/sse")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- wind(ctx, b, entrance, servers) }()
	io.Copy(io.Discard, res.Body) // until the stream has ended
	tests := []struct {
		name, method, path, accept string
		status                     int // 0: cut
	}{
		{"an EventSource", http.MethodGet, "/sse", "text/event-stream", 0},
		{"a standing stream", http.MethodGet, "/mcp", "application/json, Text/Event-Stream;q=0.5", 0},
		{"a call", http.MethodPost, "/mcp", "application/json, text/event-stream", http.StatusServiceUnavailable},
		{"somebody who looks", http.MethodGet, "/sse", "text/html", http.StatusServiceUnavailable},
	}
	for _, tt := range tests {
		got, retry := answered(t, base, tt.method, tt.path, tt.accept)
		if got != tt.status || retry != (tt.status != 0) {
			t.Errorf("%s: got %d, Retry-After %v, want %d", tt.name, got, retry, tt.status)
		}
	}
	close(up.hold)
	if err := <-done; err != nil {
		t.Error(err)
	}
	if _, err := net.Dial("tcp", front.Addr().String()); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("after the end: got %v, want connection refused", err)
	}
}

// A lasting server takes its time to end, and with it the bridge.
type lasting struct {
	upstream.Connector
	hold chan struct{}
}

func (l *lasting) Close() error {
	<-l.hold
	return l.Connector.Close()
}

// answered returns the status of a request, 0 if the connection was cut, and whether it says when to come back.
func answered(t *testing.T, base, method, path, accept string) (status int, retry bool) {
	t.Helper()
	req, _ := http.NewRequestWithContext(t.Context(), method, base+path, strings.NewReader(""))
	req.Header.Set("Accept", accept)
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		if !errors.Is(err, io.EOF) {
			t.Errorf("%s %s: got %v, want the end of the connection", method, path, err)
		}
		return 0, false
	}
	res.Body.Close()
	return res.StatusCode, res.Header.Get("Retry-After") != ""
}

// standing returns a bridge in front of the demo server with its listener.
func standing(t *testing.T, up upstream.Connector) (*bridge.Bridge, net.Listener, []*http.Server) {
	t.Helper()
	b, err := bridge.New(up, nil)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := start(&door{next: b}, l, slog.New(slog.DiscardHandler), make(chan error, 1))
	t.Cleanup(func() {
		_ = srv.Close()
		http.DefaultClient.CloseIdleConnections()
	})
	return b, l, []*http.Server{srv}
}

// status asks the admin handler.
func status(t *testing.T, b *bridge.Bridge, path string) int {
	t.Helper()
	w := httptest.NewRecorder()
	b.Admin().ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	return w.Code
}

// waitFor waits until something outside this process's clock is so.
func waitFor(t *testing.T, done func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !done(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it does not happen")
		}
	}
}
