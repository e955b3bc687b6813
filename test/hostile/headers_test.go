package hostile

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
)

// No header of a client's reaches a server behind an HTTP URL: what it gets is the bridge's own, in every leg.
func TestNoHeaderOfAClientGoesOn(t *testing.T) {
	own := []string{"Accept", "Accept-Encoding", "Content-Length", "Content-Type", "Mcp-Method", "Mcp-Name", "Mcp-Protocol-Version", "Mcp-Session-Id", "User-Agent"}
	var mu sync.Mutex
	calls := 0
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var m struct {
			ID     json.RawMessage
			Method string
		}
		body, _ := io.ReadAll(r.Body)
		_ = json.Unmarshal(body, &m)
		mu.Lock()
		defer mu.Unlock()
		for name, values := range r.Header {
			if !slices.Contains(own, name) || slices.Contains(values, "EVIL") {
				t.Errorf("%s %s: the server got %s: %q", r.Method, m.Method, name, values)
			}
		}
		result := `{}`
		switch m.Method {
		case "initialize":
			w.Header().Set("Mcp-Session-Id", "of-the-server")
			result = `{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}`
		case "tools/call":
			calls++
			result = `{"content":[]}`
		case "server/discover", "":
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		if m.ID == nil {
			w.WriteHeader(http.StatusAccepted)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)
	}))
	defer srv.Close()
	b := start(t, "--upstream", srv.URL, "--era", "legacy")
	var evil []string
	for _, name := range []string{"Authorization", "Cookie", "X-Api-Key", "X-Forwarded-For", "Forwarded", "Proxy-Authorization", "Traceparent", "Last-Event-Id", "Mcp-Param-X", "User-Agent", "X-Evil"} {
		evil = append(evil, name, "EVIL")
	}
	session := b.session(t, evil...)
	if a := b.do(t, "POST", "/mcp", tool("1", "x", "{}"), session...); a.status != 200 {
		t.Errorf("in a session: got %d %s", a.status, a.body)
	}
	s := b.legacy(t) // behind a proxy the endpoint event would be relative
	b.accepted(t, s, tool("2", "x", "{}"), evil...)
	s.message(t)
	if mu.Lock(); calls != 2 {
		t.Errorf("the server had %d calls, want 2", calls)
	}
	mu.Unlock()
}
