package guard_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/mcp-dualstack/bridge/internal/guard"
)

const mcpHeaders = "authorization, content-type, last-event-id, mcp-method, mcp-name, mcp-param-region, mcp-protocol-version, mcp-session-id"

// Report R44: what MCP clients in browsers send is allowed, and what they read is exposed, to the origins that are admitted.
func TestCORS(t *testing.T) {
	g := newGuard(t, public)
	h := g.Handler(g.CORS(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusAccepted) })))
	tests := []struct {
		name, method, asks, origin string
		status                     int
		allowed                    bool
	}{
		{"preflight of DELETE", "OPTIONS", "DELETE", "https://app.example.com", 204, true},
		{"preflight of POST", "OPTIONS", "POST", "https://app.example.com", 204, true},
		{"preflight of GET", "OPTIONS", "GET", "https://app.example.com", 204, true},
		{"preflight of PUT", "OPTIONS", "PUT", "https://app.example.com", 204, false},
		{"preflight of another origin", "OPTIONS", "POST", "https://evil.test", 403, false},
		{"preflight of a sandbox", "OPTIONS", "POST", "null", 403, false},
		{"request", "POST", "", "https://app.example.com", 202, true},
		{"request of another origin", "POST", "", "https://evil.test", 403, false},
		{"request of no browser", "POST", "", "", 202, false},
		{"OPTIONS that asks nothing", "OPTIONS", "", "https://app.example.com", 202, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := httptest.NewRequest(tt.method, "/mcp", nil)
			r.Host = "mcp.example.com"
			if tt.origin != "" {
				r.Header.Set("Origin", tt.origin)
			}
			if tt.asks != "" {
				r.Header.Set("Access-Control-Request-Method", tt.asks)
				r.Header.Set("Access-Control-Request-Headers", mcpHeaders)
				r.Header.Set("Access-Control-Request-Private-Network", "true")
			}
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			got := w.Header()
			if w.Code != tt.status {
				t.Errorf("got %d, want %d", w.Code, tt.status)
			}
			if (got.Get("Access-Control-Allow-Origin") == tt.origin && tt.origin != "") != tt.allowed || got.Get("Access-Control-Allow-Origin") == "*" {
				t.Errorf("got Access-Control-Allow-Origin %q", got.Get("Access-Control-Allow-Origin"))
			}
			if got.Get("Access-Control-Allow-Credentials") != "" {
				t.Error("cookies are allowed")
			}
			if !tt.allowed {
				return
			}
			if tt.asks != "" && (got.Get("Access-Control-Allow-Headers") != mcpHeaders || got.Get("Access-Control-Allow-Methods") != tt.asks ||
				got.Get("Access-Control-Allow-Private-Network") != "true" || got.Get("Access-Control-Max-Age") != "7200") {
				t.Errorf("got %v", got)
			}
			if exposed := got.Get("Access-Control-Expose-Headers"); tt.asks == "" &&
				(!strings.Contains(exposed, "Mcp-Session-Id") || !strings.Contains(exposed, "Www-Authenticate")) {
				t.Errorf("got exposed %q", exposed)
			}
			if !strings.Contains(strings.Join(got.Values("Vary"), ","), "Origin") {
				t.Errorf("got Vary %q", got.Values("Vary"))
			}
		})
	}
}

func TestProxies(t *testing.T) {
	p, err := guard.NewProxies([]string{"10.0.0.0/8", "2001:db8::1", "::ffff:192.0.2.9"})
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name, remote string
		forwarded    []string
		want         string
	}{
		{"nobody's word", "198.51.100.1:1", []string{"203.0.113.1"}, "198.51.100.1"},
		{"a proxy's word", "10.1.2.3:1", []string{"203.0.113.1"}, "203.0.113.1"},
		{"by IPv6", "[2001:db8::1]:1", []string{"203.0.113.1"}, "203.0.113.1"},
		{"given as a mapped address", "192.0.2.9:1", []string{"203.0.113.1"}, "203.0.113.1"},
		{"what the client has added", "10.1.2.3:1", []string{"127.0.0.1, 203.0.113.1"}, "203.0.113.1"},
		{"two proxies, two headers", "10.1.2.3:1", []string{"127.0.0.1,203.0.113.1", "10.9.9.9"}, "203.0.113.1"},
		{"nothing said", "10.1.2.3:1", nil, "10.1.2.3"},
		{"nonsense", "10.1.2.3:1", []string{"203.0.113.1, evil"}, "10.1.2.3"},
		{"unspecified", "10.1.2.3:1", []string{"0.0.0.0"}, "10.1.2.3"},
		{"IPv6 with a zone", "10.1.2.3:1", []string{"fe80::1%eth0"}, "fe80::1"},
		{"IPv6 with a port", "10.1.2.3:1", []string{"[2001:db8::77]:4711"}, "2001:db8::77"},
		{"no address", "pipe", []string{"203.0.113.1"}, "invalid IP"},
	}
	for _, tt := range tests {
		r := httptest.NewRequest("GET", "/", nil)
		r.RemoteAddr = tt.remote
		r.Header["X-Forwarded-For"] = tt.forwarded
		if got := p.Addr(r).String(); got != tt.want {
			t.Errorf("%s: got %s, want %s", tt.name, got, tt.want)
		}
	}
	if _, err := guard.NewProxies([]string{"10.0.0.0/8", "x", "10.0.0.0/99"}); err == nil || strings.Count(err.Error(), "trusted proxy") != 2 {
		t.Errorf("got %v, want two problems", err)
	}
	if got := (guard.Proxies{}).Addr(httptest.NewRequest("GET", "/", nil)).String(); got != "192.0.2.1" {
		t.Errorf("without proxies: got %s", got)
	}
}
