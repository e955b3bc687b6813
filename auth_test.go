package bridge_test

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	bridge "github.com/mcp-dualstack/bridge"
	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/internal/memhttp"
	"github.com/mcp-dualstack/bridge/retire"
)

// tokenLine returns a line of a token file.
func tokenLine(name, token string, more ...string) string {
	sum := sha256.Sum256([]byte(token))
	return name + " sha256:" + hex.EncodeToString(sum[:]) + " " + strings.Join(more, " ") + "\n"
}

func writeTokens(t testing.TB, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	at := time.Now() // fake in a bubble, so that each writing is at a time of its own
	if err := os.Chtimes(path, at, at); err != nil {
		t.Fatal(err)
	}
}

// A house is a bridge whose clients alice and bob are known by tokens of their names.
type house struct {
	t    *testing.T
	b    *bridge.Bridge
	srv  *memhttp.Server
	file string // of tokens
}

const residents = "alice and bob"

func newHouse(t *testing.T, up exchange.Handler, o *bridge.Options) *house {
	t.Helper()
	h := &house{t: t, file: filepath.Join(t.TempDir(), "tokens")}
	if o == nil {
		o = &bridge.Options{}
	}
	if o.Auth.TokenFile == residents {
		writeTokens(t, h.file, tokenLine("alice", "alice", "scope:admin", "group:staff")+tokenLine("bob", "bob"))
		o.Auth.TokenFile = h.file
	}
	b, err := bridge.New(up, o)
	if err != nil {
		t.Fatal(err)
	}
	h.b = b
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	h.srv = memhttp.New(t, b)
	return h
}

// do sends a request of somebody's, "" being nobody's, with further headers, NAME VALUE by turns.
func (h *house) do(who, method, path, body string, header ...string) *http.Response {
	h.t.Helper()
	if !strings.Contains(path, "://") {
		path = h.srv.URL + path
	}
	r, err := http.NewRequestWithContext(h.t.Context(), method, path, strings.NewReader(body))
	if err != nil {
		h.t.Fatal(err)
	}
	r.Header.Set("Accept", "text/event-stream")
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
	}
	if who != "" {
		r.Header.Set("Authorization", "Bearer "+who)
	}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	res, err := h.srv.Client().Do(r)
	if err != nil {
		h.t.Fatalf("%s %s: %v", method, path, err)
	}
	h.t.Cleanup(func() { res.Body.Close() })
	return res
}

// session opens a session of Streamable HTTP and returns its id.
func (h *house) session(who string) string {
	h.t.Helper()
	res := h.do(who, "POST", "/mcp", initialize, "Accept", "application/json")
	id := res.Header.Get("Mcp-Session-Id")
	if res.StatusCode != 200 || id == "" {
		body, _ := io.ReadAll(res.Body)
		h.t.Fatalf("initialize by %q: %d %s", who, res.StatusCode, body)
	}
	return id
}

// A reader reads the lines of a stream.
type reader struct {
	mu    sync.Mutex
	lines []string
	ended bool
}

func readStream(body io.Reader) *reader {
	r := &reader{}
	go func() { // until the stream ends
		s := bufio.NewScanner(body)
		for s.Scan() {
			r.mu.Lock()
			r.lines = append(r.lines, s.Text())
			r.mu.Unlock()
		}
		r.mu.Lock()
		r.ended = true
		r.mu.Unlock()
	}()
	return r
}

func (r *reader) text() string {
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Join(r.lines, "\n")
}

func (r *reader) over() bool {
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ended
}

// field returns what stands behind name in a line of the stream.
func (r *reader) field(name string) string {
	for line := range strings.Lines(r.text() + "\n") {
		if v, ok := strings.CutPrefix(line, name+": "); ok {
			return strings.TrimSpace(v)
		}
	}
	return ""
}

const list = `{"jsonrpc":"2.0","id":7,"method":"tools/list"}`

// Nobody uses what somebody else has opened, on any route and with any verb: it is as unknown as what never was (report R47;
// security best practices, Session Hijacking). Without a good token nothing at all is said about it.
func TestOtherPrincipals(t *testing.T) {
	if !bridge.LegacyBuilt {
		t.Skip("needs the HTTP+SSE transport")
	}
	tests := []struct {
		name, method, path, body string
		header                   []string
		status                   int // for another principal; for a bad token and for none it is 401
	}{
		{"request", "POST", "/mcp", list, []string{"Mcp-Session-Id", "SESSION"}, 404},
		{"notification", "POST", "/mcp", `{"jsonrpc":"2.0","method":"notifications/initialized"}`, []string{"Mcp-Session-Id", "SESSION"}, 404},
		{"answer", "POST", "/mcp", `{"jsonrpc":"2.0","id":1,"result":{}}`, []string{"Mcp-Session-Id", "SESSION"}, 404},
		{"batch", "POST", "/mcp", "[" + list + "]", []string{"Mcp-Session-Id", "SESSION"}, 404},
		{"stream", "GET", "/mcp", "", []string{"Mcp-Session-Id", "SESSION"}, 404},
		{"replay", "GET", "/mcp", "", []string{"Mcp-Session-Id", "SESSION", "Last-Event-ID", "EVENT"}, 404},
		{"end", "DELETE", "/mcp", "", []string{"Mcp-Session-Id", "SESSION"}, 404},
		{"request on the SSE path", "POST", "/sse", list, []string{"Mcp-Session-Id", "SESSION"}, 404},
		{"stream on the SSE path", "GET", "/sse", "", []string{"Mcp-Session-Id", "SESSION"}, 404},
		{"end on the SSE path", "DELETE", "/sse", "", []string{"Mcp-Session-Id", "SESSION"}, 404},
		{"legacy request", "POST", "ENDPOINT", list, nil, 404},
		{"legacy notification", "POST", "ENDPOINT", `{"jsonrpc":"2.0","method":"notifications/initialized"}`, nil, 404},
		{"legacy answer", "POST", "ENDPOINT", `{"jsonrpc":"2.0","id":1,"result":{}}`, nil, 404},
	}
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		called := 0
		s := &server{call: func(context.Context, exchange.Request) (exchange.Response, error) {
			mu.Lock()
			defer mu.Unlock()
			called++
			return exchange.Response{Result: []byte("{}")}, nil
		}}
		h := newHouse(t, s, &bridge.Options{Auth: bridge.Auth{TokenFile: residents}})
		session := h.session("alice")
		call := h.do("alice", "POST", "/mcp", list, "Mcp-Session-Id", session)
		event := readStream(call.Body).field("id")
		standing := readStream(h.do("alice", "GET", "/mcp", "", "Mcp-Session-Id", session).Body)
		legacy := readStream(h.do("alice", "GET", "/sse", "").Body)
		endpoint := legacy.field("data")
		if event == "" || endpoint == "" {
			t.Fatalf("alice has event %q and endpoint %q", event, endpoint)
		}
		fill := strings.NewReplacer("SESSION", session, "EVENT", event, "ENDPOINT", endpoint)
		mu.Lock()
		before := called
		mu.Unlock()
		quiet := standing.text() + legacy.text()
		for _, tt := range tests {
			for who, want := range map[string]int{"bob": tt.status, "mallory": 401, "": 401} {
				header := slices.Clone(tt.header)
				for i := range header {
					header[i] = fill.Replace(header[i])
				}
				res := h.do(who, tt.method, fill.Replace(tt.path), tt.body, header...)
				if res.StatusCode != want {
					t.Errorf("%s by %q: got %d, want %d", tt.name, who, res.StatusCode, want)
				}
				if (want == 401) != (res.Header.Get("Www-Authenticate") != "") {
					t.Errorf("%s by %q: got challenge %q", tt.name, who, res.Header.Get("Www-Authenticate"))
				}
			}
		}
		mu.Lock()
		if called != before {
			t.Errorf("the server was called %d times by others", called-before)
		}
		mu.Unlock()
		if now := standing.text() + legacy.text(); now != quiet {
			t.Errorf("alice was sent\n%s", strings.TrimPrefix(now, quiet))
		}

		// What bob may do is open things of his own.
		own := h.do("bob", "POST", "/mcp", initialize, "Mcp-Session-Id", session)
		if id := own.Header.Get("Mcp-Session-Id"); own.StatusCode != 200 || id == "" || id == session {
			t.Errorf("initialize by bob with alice's session: got %d %q", own.StatusCode, id)
		}
		cursor := legacy.field("id")
		other := readStream(h.do("bob", "GET", "/sse", "", "Last-Event-ID", cursor).Body)
		if e := other.field("data"); cursor == "" || e == "" || e == endpoint {
			t.Errorf("bob with the place %q of alice's stream: got %q", cursor, e)
		}
		if res := h.do("alice", "POST", "/mcp", list, "Mcp-Session-Id", session); res.StatusCode != 200 {
			t.Errorf("alice afterwards: got %d", res.StatusCode)
		}
		if res := h.do("alice", "POST", endpoint, list); res.StatusCode != 202 || !strings.Contains(legacy.text(), `"error"`) && !strings.Contains(legacy.text(), `"result"`) {
			t.Errorf("alice on the legacy stream: got %d, %s", res.StatusCode, legacy.text())
		}
	})
}

// A token that is taken back ends the streams that it has opened, within seconds, on both transports; nothing it has opened can be
// used any more (report R47).
func TestRevokedToken(t *testing.T) {
	if !bridge.LegacyBuilt {
		t.Skip("needs the HTTP+SSE transport")
	}
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, &server{}, &bridge.Options{Auth: bridge.Auth{TokenFile: residents}})
		session := h.session("alice")
		streams := map[string]*reader{
			"standing": readStream(h.do("alice", "GET", "/mcp", "", "Mcp-Session-Id", session).Body),
			"legacy":   readStream(h.do("alice", "GET", "/sse", "").Body),
			"listen": readStream(h.do("alice", "POST", "/mcp", modernListen,
				"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "subscriptions/listen").Body),
		}
		bobs := readStream(h.do("bob", "GET", "/sse", "").Body)
		endpoint := streams["legacy"].field("data")
		time.Sleep(10 * time.Second)
		for name, s := range streams {
			if s.over() {
				t.Fatalf("the %s stream has ended before: %s", name, s.text())
			}
		}
		writeTokens(t, h.file, tokenLine("bob", "bob"))
		time.Sleep(3 * time.Second)
		for name, s := range streams {
			if !s.over() {
				t.Errorf("the %s stream goes on", name)
			}
		}
		if bobs.over() {
			t.Error("bob's stream has ended with alice's token")
		}
		if res := h.do("alice", "POST", "/mcp", list, "Mcp-Session-Id", session); res.StatusCode != 401 {
			t.Errorf("the session: got %d, want 401", res.StatusCode)
		}
		if res := h.do("alice", "POST", endpoint, list); res.StatusCode != 401 {
			t.Errorf("the legacy session: got %d, want 401", res.StatusCode)
		}
		if res := h.do("bob", "POST", endpoint, list); res.StatusCode != 404 {
			t.Errorf("the legacy session for bob: got %d, want 404", res.StatusCode)
		}
	})
}

const modernListen = `{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true},` +
	`"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`

// A client whose token has been renewed in time has its session again, on both transports.
func TestRenewedToken(t *testing.T) {
	if !bridge.LegacyBuilt {
		t.Skip("needs the HTTP+SSE transport")
	}
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, &server{}, &bridge.Options{Auth: bridge.Auth{TokenFile: residents}})
		session := h.session("alice")
		first := readStream(h.do("alice", "GET", "/sse", "").Body)
		if res := h.do("alice", "POST", first.field("data"), initialize); res.StatusCode != 202 {
			t.Fatalf("initialize: %d", res.StatusCode)
		}
		synctest.Wait()
		writeTokens(t, h.file, tokenLine("alice", "alice2")+tokenLine("bob", "bob"))
		time.Sleep(3 * time.Second)
		if !first.over() {
			t.Fatal("the stream goes on")
		}
		if res := h.do("alice2", "POST", "/mcp", list, "Mcp-Session-Id", session); res.StatusCode != 200 {
			t.Errorf("the session: got %d", res.StatusCode)
		}
		second := readStream(h.do("alice2", "GET", "/sse", "", "Last-Event-ID", first.field("id")).Body)
		if res := h.do("alice2", "POST", second.field("data"), list); res.StatusCode != 202 || !strings.Contains(second.text(), `"id":7,"result"`) {
			t.Errorf("the legacy session: got %d, %s", res.StatusCode, second.text())
		}
	})
}

// What the routes say about themselves is for everybody: that they are retired (report R51), the status, where tokens are to be
// had. MCP itself is not.
func TestWhatNeedsNoToken(t *testing.T) {
	tests := []struct {
		name, method, path string
		header             []string
		status             int
	}{
		{"retired stream", "GET", "/sse", nil, 405},
		{"retired messages", "POST", "/messages?sessionId=x", nil, 410},
		{"status", "GET", "/retirement", nil, 200},
		{"nothing there", "GET", "/x", nil, 404},
		{"preflight", "OPTIONS", "/mcp", []string{"Origin", "http://localhost:3000", "Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", "authorization,mcp-session-id"}, 204},
		{"preflight of messages", "OPTIONS", "/messages", []string{"Origin", "http://localhost:3000", "Access-Control-Request-Method", "POST"}, 204},
		{"preflight of another origin", "OPTIONS", "/mcp", []string{"Origin", "http://evil.test", "Access-Control-Request-Method", "POST"}, 403},
		{"Streamable HTTP", "POST", "/mcp", nil, 401},
		{"Streamable HTTP on the SSE path", "POST", "/sse", nil, 401},
		{"stream of a session", "GET", "/mcp", []string{"Mcp-Session-Id", "x"}, 401},
		{"end of a session on the SSE path", "DELETE", "/sse", []string{"Mcp-Session-Id", "x"}, 401},
		{"another origin, before anything else", "POST", "/mcp", []string{"Origin", "http://evil.test"}, 403},
	}
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, &server{}, &bridge.Options{LegacyOff: true, Auth: bridge.Auth{TokenFile: residents}})
		for _, tt := range tests {
			res := h.do("", tt.method, tt.path, "", tt.header...)
			if res.StatusCode != tt.status || (res.Header.Get("Www-Authenticate") != "") != (tt.status == 401) {
				t.Errorf("%s: got %d %q, want %d", tt.name, res.StatusCode, res.Header.Get("Www-Authenticate"), tt.status)
			}
			if allowed := res.Header.Get("Access-Control-Allow-Origin") != ""; allowed != (tt.status == 204) {
				t.Errorf("%s: got Access-Control-Allow-Origin %v", tt.name, allowed)
			}
		}
	})
}

// The metadata document says where tokens are to be had, on the paths that clients look for it (RFC 9728, section 3.1; 2025-11-25
// authorization, Protected Resource Metadata Discovery Requirements), and the challenge leads there.
func TestMetadata(t *testing.T) {
	tests := []struct {
		public, path, resource string
	}{
		{"", "/.well-known/oauth-protected-resource", "BASE"},
		{"", "/.well-known/oauth-protected-resource/mcp", "BASE/mcp"},
		{"", "/.well-known/oauth-protected-resource/sse", "BASE/sse"},
		{"", "/.well-known/oauth-protected-resource/messages", ""},
		{"https://mcp.test/tools", "/.well-known/oauth-protected-resource/mcp", "https://mcp.test/tools/mcp"},
		{"https://mcp.test/tools", "/tools/.well-known/oauth-protected-resource/mcp", "https://mcp.test/tools/mcp"},
		{"https://mcp.test/tools", "/.well-known/oauth-protected-resource/tools/mcp", "https://mcp.test/tools/mcp"},
		{"https://mcp.test/tools", "/.well-known/oauth-protected-resource/tools/sse", "https://mcp.test/tools/sse"},
		{"https://mcp.test/tools", "/.well-known/oauth-protected-resource/tools", "https://mcp.test/tools"},
	}
	for _, tt := range tests {
		synctest.Test(t, func(t *testing.T) {
			h := newHouse(t, &server{}, &bridge.Options{
				PublicURL: tt.public, ToolRules: []bridge.ToolRule{{Grant: "scope:admin", Allow: []string{"*"}}},
				Auth: bridge.Auth{Issuer: "https://issuer.test", Audience: []string{"x"}, Scopes: []string{"mcp"}},
			})
			res := h.do("", "GET", tt.path, "")
			if tt.resource == "" {
				if res.StatusCode != 404 {
					t.Errorf("%s: got %d, want 404", tt.path, res.StatusCode)
				}
				return
			}
			var doc struct {
				Resource string
				Servers  []string `json:"authorization_servers"`
				Scopes   []string `json:"scopes_supported"`
				Methods  []string `json:"bearer_methods_supported"`
			}
			if err := json.NewDecoder(res.Body).Decode(&doc); err != nil {
				t.Fatalf("%s: %d %v", tt.path, res.StatusCode, err)
			}
			if want := strings.ReplaceAll(tt.resource, "BASE", h.srv.URL); doc.Resource != want {
				t.Errorf("%s: got resource %s, want %s", tt.path, doc.Resource, want)
			}
			if !slices.Equal(doc.Servers, []string{"https://issuer.test"}) || !slices.Equal(doc.Scopes, []string{"mcp", "admin"}) || !slices.Equal(doc.Methods, []string{"header"}) {
				t.Errorf("%s: got %+v", tt.path, doc)
			}
			if res := h.do("", "HEAD", tt.path, ""); res.StatusCode != 200 {
				t.Errorf("HEAD: got %d", res.StatusCode)
			}
			base := h.srv.URL
			if tt.public != "" {
				base = tt.public
			}
			for path, resource := range map[string]string{"/mcp": "/mcp", "/sse": "/sse", "/messages?sessionId=x": "/sse"} {
				challenge := h.do("", "POST", path, "{}").Header.Get("Www-Authenticate")
				if path == "/messages?sessionId=x" && !bridge.LegacyBuilt {
					continue
				}
				if want := `Bearer realm="mcp", scope="mcp", resource_metadata="` + base + `/.well-known/oauth-protected-resource` + resource + `"`; challenge != want {
					t.Errorf("%s: got %s, want %s", path, challenge, want)
				}
			}
		})
	}
}

// The operator's token guards what says who calls and how often, and not what says that the process lives.
func TestAdminToken(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("0123456789abcdef0123\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	b := newBridge(t, &server{}, &bridge.Options{AdminTokenFile: file})
	for _, tt := range []struct{ request, want string }{
		{"GET /healthz HTTP/1.1\nHost: x", "200"},
		{"GET /readyz HTTP/1.1\nHost: x", "200"},
		{"GET /admin/report HTTP/1.1\nHost: localhost", "401"},
		{"GET /admin/report HTTP/1.1\nHost: localhost\nAuthorization: Bearer 0123456789abcdef0124", "401"},
		{"GET /admin/report HTTP/1.1\nHost: localhost\nAuthorization: Bearer 0123456789abcdef0123", "200"},
		{"HEAD /admin/report HTTP/1.1\nHost: localhost\nAuthorization: Bearer 0123456789abcdef0123", "200"},
		{"GET /admin/report HTTP/1.1\nHost: evil.test\nAuthorization: Bearer 0123456789abcdef0123", "403"},
		{"GET /metrics HTTP/1.1\nHost: localhost", "401"},
		{"GET /metrics HTTP/1.1\nHost: localhost\nAuthorization: Bearer 0123456789abcdef0123", "200"},
	} {
		if got := summary(send(t, b.Admin(), tt.request)); got != tt.want {
			t.Errorf("%s: got %s, want %s", tt.request, got, tt.want)
		}
	}
}

// wait lets the token file be read again.
func (h *house) wait() {
	time.Sleep(3 * time.Second)
	synctest.Wait()
}

// Who tries credentials is told to wait, and those who have none yet are not: that is how signing in begins.
func TestGuessedTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, &server{}, &bridge.Options{Auth: bridge.Auth{TokenFile: residents}, FailureLimit: bridge.Limit{Rate: 1, Burst: 3}})
		codes := map[string]int{}
		for range 10 {
			for _, who := range []string{"guess", ""} {
				res := h.do(who, "POST", "/mcp", initialize)
				codes[who+" "+res.Status]++
			}
		}
		if codes["guess 401 Unauthorized"] != 3 || codes["guess 429 Too Many Requests"] != 7 || codes[" 401 Unauthorized"] != 10 {
			t.Errorf("got %v", codes)
		}
		h.session("alice")
	})
}

// In the stage closed a stream is opened to say that there are none any more, for those who are known. Nobody is asked to log in for
// that (report R51); who has a token that has expired is told so, since some clients are exempt.
func TestClosedStageAndTokens(t *testing.T) {
	if !bridge.LegacyBuilt {
		t.Skip("needs the HTTP+SSE transport")
	}
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, &server{}, &bridge.Options{Auth: bridge.Auth{TokenFile: residents}})
		setStage(t, h.b.Retirement(), retire.Closed, "")
		for who, want := range map[string]int{"": 405, "expired": 401, "alice": 200} {
			res := h.do(who, "GET", "/sse", "")
			if res.StatusCode != want || (res.Header.Get("Www-Authenticate") != "") != (want == 401) || (want == 405) != (res.Header.Get("Allow") != "") {
				t.Errorf("%q: got %d %v, want %d", who, res.StatusCode, res.Header, want)
			}
		}
	})
}
