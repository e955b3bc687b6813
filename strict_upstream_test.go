package bridge_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	bridge "github.com/mcp-dualstack/bridge"
	"github.com/mcp-dualstack/bridge/upstream"
)

// A strict server speaks 2025-06-18 only, in sessions. It refuses every request after initialize that does not carry its own session and
// that very revision, or anything of another leg.
type strict struct {
	mu       sync.Mutex
	sessions int
	refused  []string // why, for requests in a session
}

func (s *strict) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	body, _ := io.ReadAll(r.Body)
	var m struct {
		ID     json.RawMessage
		Method string
	}
	_ = json.Unmarshal(body, &m) // otherwise it is no message
	w.Header().Set("Content-Type", "application/json")
	id := r.Header.Get("Mcp-Session-Id")
	switch {
	case m.Method == "initialize" && id == "" && r.Header.Get("Mcp-Protocol-Version") == "":
		s.sessions++
		w.Header().Set("Mcp-Session-Id", fmt.Sprint("U", s.sessions))
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"strict","version":"1"}}}`, m.ID)
	case id == "":
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"Bad Request: Server not initialized"}}`)
	case r.Header.Get("Mcp-Protocol-Version") != "2025-06-18" || !strings.HasPrefix(id, "U") || r.Header.Get("Mcp-Method") != "" || r.Header.Get("Last-Event-Id") != "":
		s.refused = append(s.refused, fmt.Sprint(m.Method, " ", r.Header))
		w.WriteHeader(http.StatusBadRequest)
	case r.Method == http.MethodGet:
		w.WriteHeader(http.StatusMethodNotAllowed)
	case m.ID == nil:
		w.WriteHeader(http.StatusAccepted)
	default:
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"hello"}]}}`, m.ID)
	}
}

func strictBridge(t *testing.T) (*bridge.Bridge, *strict) {
	t.Helper()
	s := &strict{}
	up, err := upstream.InProcess(s, nil)
	if err != nil {
		t.Fatal(err)
	}
	b, err := bridge.New(up, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
		if len(s.refused) > 0 {
			t.Errorf("refused: %v", s.refused)
		}
	})
	return b, s
}

// TestR21VersionOfEachLeg: a client at another revision than the server's, and one of 2026-07-28: each leg carries its own version.
func TestR21VersionOfEachLeg(t *testing.T) {
	b, _ := strictBridge(t)
	const head = "POST /mcp HTTP/1.1\nHost: localhost\nContent-Type: application/json\nAccept: application/json, text/event-stream\n"
	hello := send(t, b, head+"\n"+initialize)
	_, rest, ok := strings.Cut(hello, "Mcp-Session-Id: ")
	session, _, _ := strings.Cut(rest, "\n")
	if !ok || strings.HasPrefix(session, "U") || !strings.Contains(hello, `"protocolVersion":"2025-11-25"`) {
		t.Fatalf("initialize: got %s", hello)
	}
	leg := head + "MCP-Protocol-Version: 2025-11-25\nMcp-Session-Id: " + session + "\nLast-Event-ID: 1-2\n\n"
	if got := send(t, b, leg+`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"t"}}`); !strings.Contains(got, `"text":"hello"`) {
		t.Errorf("a session: got %s", got)
	}
	if got := send(t, b, modernHello); !strings.Contains(got, `"text":"hello"`) {
		t.Errorf("a modern call: got %s", got)
	}
}

const modernHello = "POST /mcp HTTP/1.1\nHost: localhost\nContent-Type: application/json\nAccept: application/json, text/event-stream\n" +
	"MCP-Protocol-Version: 2026-07-28\nMcp-Method: tools/call\nMcp-Name: t\n\n" +
	`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"t","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`

// TestR22ModernClientStatefulServer: a single modern call, without anything before it: the bridge shakes hands, the client sees no session,
// and its result has a type. Ten more at once succeed on as few sessions.
func TestR22ModernClientStatefulServer(t *testing.T) {
	b, s := strictBridge(t)
	check := func(got string) {
		t.Helper()
		if !strings.HasPrefix(got, "200\n") || !strings.Contains(got, `"text":"hello"`) || !strings.Contains(got, `"resultType":"complete"`) || strings.Contains(got, "Session") {
			t.Errorf("got %s", got)
		}
	}
	check(send(t, b, modernHello))
	answers := make(chan string, 10)
	var calling sync.WaitGroup
	for range cap(answers) {
		calling.Go(func() { answers <- send(t, b, modernHello) })
	}
	calling.Wait()
	close(answers)
	for got := range answers {
		check(got)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sessions != 1 {
		t.Errorf("sessions: got %d, want 1 that all share", s.sessions)
	}
}
