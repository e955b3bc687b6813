package upstream_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
	"github.com/mcp-dualstack/bridge/upstream"
)

// A stub is a server of the handshake era in fake time that records what it is sent. It answers
// initialize itself, other requests by answer.
type stub struct {
	*testing.T
	up     *upstream.Upstream
	answer func(w *wire, n int, m *jsonrpc.Message) // n counts connections from 0

	mu    sync.Mutex
	lines []string // "N METHOD PARAMS", or "N = RESULT OR ERROR" for answers
	wires []*wire
}

const stubCapabilities = `{"logging":{},"tools":{"listChanged":true}}`

// inStub runs f with a stub whose clients use the pool.
func inStub(t *testing.T, o upstream.Options, answer func(w *wire, n int, m *jsonrpc.Message), f func(*stub)) {
	t.Helper()
	if o.Era == "" {
		o.Era = "legacy"
	}
	inBothEras(t, &o, func(t *testing.T, up *upstream.Upstream, made chan *wire) {
		s := &stub{T: t, up: up, answer: answer}
		stop := make(chan struct{})
		var wg sync.WaitGroup
		wg.Go(func() {
			for {
				select {
				case w := <-made:
					s.mu.Lock()
					n := len(s.wires)
					s.wires = append(s.wires, w)
					s.mu.Unlock()
					wg.Go(func() { s.serve(w, n) })
				case <-stop:
					return
				}
			}
		})
		defer wg.Wait()
		defer close(stop)
		defer up.Close()
		f(s)
	})
}

func (s *stub) serve(w *wire, n int) {
	defer w.Close()
	for line := w.read(); line != ""; line = w.read() {
		m, err := jsonrpc.Scan([]byte(line))
		if err != nil {
			s.Errorf("received %q: %v", line, err)
			return
		}
		s.record(n, &m)
		switch {
		case m.Method == "initialize":
			w.say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-11-25","capabilities":%s,"serverInfo":{"name":"stub","version":"1"}}}`, m.ID, stubCapabilities))
		case m.Kind == jsonrpc.Request && s.answer == nil:
			w.say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{}}`, m.ID))
		case m.Kind == jsonrpc.Request:
			s.answer(w, n, &m)
		}
	}
}

func (s *stub) record(n int, m *jsonrpc.Message) {
	text := fmt.Sprintf("%d %s", n, m.Method)
	switch {
	case m.Kind == jsonrpc.Response && m.Error != nil:
		text = fmt.Sprintf("%d = error %d", n, m.Error.Code)
	case m.Kind == jsonrpc.Response:
		text = fmt.Sprintf("%d = %s", n, m.Result)
	case m.Method != "initialize" && m.Params != nil:
		text += " " + string(m.Params)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lines = append(s.lines, text)
}

// said returns what the server was sent since the last time, without handshakes.
func (s *stub) said() string {
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	lines := slices.DeleteFunc(s.lines, func(l string) bool {
		return strings.HasSuffix(l, " initialize") || strings.HasSuffix(l, "notifications/initialized")
	})
	s.lines = nil
	return strings.Join(lines, "\n")
}

// wire returns the server's end of the connection of that number.
func (s *stub) wire(n int) *wire {
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	if n >= len(s.wires) {
		s.Fatalf("there are %d connections", len(s.wires))
	}
	return s.wires[n]
}

// client opens a session of the pool: Options.SameEra is not set, or Options.Sharing makes it so.
func (s *stub) client(c exchange.Client) exchange.Session {
	s.Helper()
	sess, err := s.up.Open(s.Context(), c)
	if err != nil {
		s.Fatalf("Open: %v", err)
	}
	s.Cleanup(func() { _ = sess.Close() })
	return sess
}

// silently leaves every request unanswered.
func silently(*wire, int, *jsonrpc.Message) {}

// respond answers a request of the given id.
func (w *wire) respond(id int, result string) {
	w.say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":%s}`, id, result))
}
