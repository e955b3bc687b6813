package bridge_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	bridge "github.com/mcp-dualstack/bridge"
	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
	"github.com/mcp-dualstack/bridge/internal/memhttp"
	"github.com/mcp-dualstack/bridge/upstream"
)

// A guarded server of Streamable HTTP (2025-11-25) takes the tokens it knows and answers the others with a challenge.
type guarded struct {
	mu   sync.Mutex
	good map[string]bool
	seen map[string]int // requests by what they sent in Authorization
}

func (g *guarded) set(token string, good bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.good["Bearer "+token] = good
}

func (g *guarded) count(token string) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.seen["Bearer "+token]
}

const ownChallenge = `Bearer error="invalid_token", resource_metadata="https://upstream.test/.well-known/oauth-protected-resource/mcp"`

func (g *guarded) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	token := r.Header.Get("Authorization")
	g.mu.Lock()
	g.seen[token]++
	good := g.good[token]
	g.mu.Unlock()
	if !good {
		w.Header().Set("WWW-Authenticate", ownChallenge)
		http.Error(w, "who are you", http.StatusUnauthorized)
		return
	}
	if r.Method != http.MethodPost {
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	body, _ := io.ReadAll(r.Body)
	m, bad := jsonrpc.Scan(body)
	if bad != nil || m.Kind != jsonrpc.Request {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	name, _ := jsonrpc.String(jsonrpc.Get(m.Params, "name"))
	switch {
	case m.Method == "initialize":
		w.Header().Set("Mcp-Session-Id", "s-"+strings.TrimPrefix(token, "Bearer "))
		_, _ = w.Write(jsonrpc.AppendResult(nil, m.ID, []byte(`{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"guarded","version":"1"}}`)))
	case name == "more":
		w.Header().Set("WWW-Authenticate", `Bearer error="insufficient_scope", scope="more"`)
		http.Error(w, "not you", http.StatusForbidden)
	case m.Method == "tools/list", m.Method == "tools/call":
		_, _ = w.Write(jsonrpc.AppendResult(nil, m.ID, []byte(`{"tools":[],"content":[{"type":"text","text":"`+token+`"}]}`)))
	default:
		w.WriteHeader(http.StatusBadRequest)
		_, _ = w.Write([]byte(`{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"no valid session"}}`))
	}
}

func newGuarded(t *testing.T, o *bridge.Options) (*guarded, *house) {
	g := &guarded{good: map[string]bool{"Bearer alice": true, "Bearer bob": true}, seen: map[string]int{}}
	up, err := upstream.URL("http://upstream.test/mcp", &upstream.Options{HTTP: &upstream.HTTPOptions{
		PassThrough: true, RoundTripper: memhttp.New(t, g).Client().Transport,
	}})
	if err != nil {
		t.Fatal(err)
	}
	o.Auth.PassThrough = true
	return g, newHouse(t, up, o)
}

const callTool = `{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"TOOL","arguments":{}}}`

func tool(name string) string { return strings.ReplaceAll(callTool, "TOOL", name) }

// modern returns a request of 2026-07-28.
func modern(method, params string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":9,"method":%q,"params":{%s"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`, method, params)
}

var modernList = []string{"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/list"}

// Report R46 for clients of Streamable HTTP: the server's challenge is the answer, with its status, and each client's own credentials
// are what the server gets.
func TestPassThrough(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, h := newGuarded(t, &bridge.Options{})
		for _, tt := range []struct{ name, who, body string }{
			{"no token", "", initialize}, {"a bad token", "mallory", initialize},
		} {
			res := h.do(tt.who, "POST", "/mcp", tt.body)
			if got := res.Header.Get("Www-Authenticate"); res.StatusCode != 401 || got != ownChallenge {
				t.Errorf("%s: got %d %q", tt.name, res.StatusCode, got)
			}
			res = h.do(tt.who, "POST", "/mcp", modern("tools/list", ""), modernList...)
			if got := res.Header.Get("Www-Authenticate"); res.StatusCode != 401 || got != ownChallenge {
				t.Errorf("%s, 2026-07-28: got %d %q", tt.name, res.StatusCode, got)
			}
		}
		session := h.session("alice")
		for _, who := range []string{"bob", "mallory", ""} {
			if res := h.do(who, "POST", "/mcp", list, "Mcp-Session-Id", session); res.StatusCode != 404 && res.StatusCode != 401 {
				t.Errorf("%q with the session of alice: got %d", who, res.StatusCode)
			}
		}
		body, _ := io.ReadAll(h.do("alice", "POST", "/mcp", tool("whoami"), "Mcp-Session-Id", session).Body)
		if !strings.Contains(string(body), `"text":"Bearer alice"`) {
			t.Errorf("alice is not herself: %s", body)
		}
		body, _ = io.ReadAll(h.do("bob", "POST", "/mcp", modern("tools/call", `"name":"whoami","arguments":{},`),
			"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", "whoami").Body)
		if !strings.Contains(string(body), `"text":"Bearer bob"`) {
			t.Errorf("bob is not himself: %s", body)
		}
		res := h.do("bob", "POST", "/mcp", modern("tools/call", `"name":"more","arguments":{},`),
			"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", "more")
		if got := res.Header.Get("Www-Authenticate"); res.StatusCode != 403 || got != `Bearer error="insufficient_scope", scope="more"` {
			t.Errorf("a tool for which the scope is missing: got %d %q", res.StatusCode, got)
		}
		if g.count("alice") == 0 || g.count("bob") == 0 {
			t.Error("tokens have not arrived")
		}
	})
}

// Report R46: a token that ends in the middle of a session. The call that finds it out has its status already where its stream has
// begun; whatever comes next has the challenge. A refusal of one tool is no end of the token.
func TestPassThroughExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, h := newGuarded(t, &bridge.Options{})
		session := h.session("alice")
		if res := h.do("alice", "POST", "/mcp", tool("more"), "Mcp-Session-Id", session); res.StatusCode != 200 && res.StatusCode != 403 {
			t.Errorf("a tool for which the scope is missing: got %d", res.StatusCode)
		}
		synctest.Wait()
		if res := h.do("alice", "POST", "/mcp", list, "Mcp-Session-Id", session); res.StatusCode != 200 {
			t.Errorf("after that: got %d", res.StatusCode)
		}
		g.set("alice", false)
		first := h.do("alice", "POST", "/mcp", list, "Mcp-Session-Id", session)
		body, _ := io.ReadAll(first.Body)
		if first.StatusCode == 200 && !strings.Contains(string(body), "upstream_auth") {
			t.Errorf("got %d %s", first.StatusCode, body)
		}
		before := g.count("alice")
		for _, method := range []string{"POST", "GET", "DELETE"} {
			res := h.do("alice", method, "/mcp", "", "Mcp-Session-Id", session)
			if res.StatusCode != 401 || res.Header.Get("Www-Authenticate") != ownChallenge {
				t.Errorf("%s after it: got %d %q", method, res.StatusCode, res.Header.Get("Www-Authenticate"))
			}
		}
		if n := g.count("alice"); n != before {
			t.Errorf("the server was asked %d times more", n-before)
		}
		h.session("bob")
		g.set("alice", true)
		time.Sleep(31 * time.Second)
		h.session("alice")
	})
}

// With authorization servers of its own the bridge serves the document about itself, and challenges lead there.
func TestPassThroughMetadata(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, h := newGuarded(t, &bridge.Options{PublicURL: "https://mcp.test/tools", Auth: bridge.Auth{Servers: []string{"https://as.test"}}})
		const want = `Bearer error="invalid_token", resource_metadata="https://mcp.test/tools/.well-known/oauth-protected-resource/mcp"`
		if got := h.do("", "POST", "/mcp", initialize).Header.Get("Www-Authenticate"); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		body, _ := io.ReadAll(h.do("", "GET", "/tools/.well-known/oauth-protected-resource/mcp", "").Body)
		if !strings.Contains(string(body), `"authorization_servers":["https://as.test"]`) || !strings.Contains(string(body), `"resource":"https://mcp.test/tools/mcp"`) {
			t.Errorf("got %s", body)
		}
	})
}

// Report R46 for HTTP+SSE: the POST of initialize waits for the server, so that its challenge can be the status. The client comes back with a
// token on the stream it has, which is then its own.
func TestPassThroughOnTheLegacyStream(t *testing.T) {
	if !bridge.LegacyBuilt {
		t.Skip("needs the HTTP+SSE transport")
	}
	synctest.Test(t, func(t *testing.T) {
		g, h := newGuarded(t, &bridge.Options{})
		stream := readStream(h.do("", "GET", "/sse", "").Body)
		endpoint := stream.field("data")
		for _, who := range []string{"", "mallory", "trudy"} {
			res := h.do(who, "POST", endpoint, initialize)
			if got := res.Header.Get("Www-Authenticate"); res.StatusCode != 401 || got != ownChallenge {
				t.Errorf("%q: got %d %q", who, res.StatusCode, got)
			}
		}
		if text := stream.text(); strings.Contains(text, "jsonrpc") {
			t.Errorf("the stream has more than its endpoint:\n%s", text)
		}
		if res := h.do("alice", "POST", endpoint, initialize); res.StatusCode != 202 || !strings.Contains(stream.text(), `"name":"guarded"`) {
			t.Fatalf("with a token: got %d\n%s", res.StatusCode, stream.text())
		}
		for _, who := range []string{"", "bob"} {
			if res := h.do(who, "POST", endpoint, list); res.StatusCode != 404 {
				t.Errorf("%q on the stream of alice: got %d, want 404", who, res.StatusCode)
			}
		}
		if res := h.do("alice", "POST", endpoint, tool("whoami")); res.StatusCode != 202 || !strings.Contains(stream.text(), `"text":"Bearer alice"`) {
			t.Errorf("got %d\n%s", res.StatusCode, stream.text())
		}
		g.set("alice", false)
		if res := h.do("alice", "POST", endpoint, tool("whoami")); res.StatusCode != 202 || !strings.Contains(stream.text(), "upstream_auth") {
			t.Errorf("at the end of the token: got %d\n%s", res.StatusCode, stream.text())
		}
		if res := h.do("alice", "POST", endpoint, list); res.StatusCode != 401 || res.Header.Get("Www-Authenticate") != ownChallenge {
			t.Errorf("after it: got %d", res.StatusCode)
		}
	})
}

// A client that brings its token along has the stream from the start, and its challenge on the POST all the same.
func TestPassThroughWithATokenFromTheStart(t *testing.T) {
	if !bridge.LegacyBuilt {
		t.Skip("needs the HTTP+SSE transport")
	}
	synctest.Test(t, func(t *testing.T) {
		_, h := newGuarded(t, &bridge.Options{})
		for who, want := range map[string]int{"alice": 202, "mallory": 401} {
			stream := readStream(h.do(who, "GET", "/sse", "").Body)
			endpoint := stream.field("data")
			if res := h.do("bob", "POST", endpoint, initialize); res.StatusCode != 404 {
				t.Errorf("bob on the stream of %s: got %d, want 404", who, res.StatusCode)
			}
			if res := h.do(who, "POST", endpoint, initialize); res.StatusCode != want {
				t.Errorf("%s: got %d, want %d", who, res.StatusCode, want)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := h.b.Shutdown(ctx); err != nil {
			t.Errorf("shutdown: %v", err)
		}
	})
}
