package legacy_test

import (
	"bufio"
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/mcp-dualstack/bridge/internal/memhttp"
	"github.com/mcp-dualstack/bridge/internal/sse"
	"github.com/mcp-dualstack/bridge/legacy"
)

// endpointOf returns the data of the endpoint event for r with the session id as ID.
func endpointOf(t *testing.T, o *legacy.Options, mount string, r *http.Request) string {
	t.Helper()
	f := legacy.New(&script{}, o)
	t.Cleanup(func() { f.Close() })
	h := f.Stream()
	if mount != "" {
		h = http.StripPrefix(mount, h)
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	w := &stopping{ResponseRecorder: httptest.NewRecorder(), stop: cancel}
	h.ServeHTTP(w, r.WithContext(ctx))
	e, err := sse.NewReader(w.Body, 4096).Next()
	if err != nil || e.Name != "endpoint" {
		t.Fatalf("got %q, %v (status %d), want an endpoint event", e.Name, err, w.Code)
	}
	return regexp.MustCompile(`sessionId=[A-Z2-7]{26}$`).ReplaceAllString(string(e.Data), "sessionId=ID")
}

// stopping ends the stream after the first flush.
type stopping struct {
	*httptest.ResponseRecorder
	stop func()
}

func (w *stopping) Flush() { w.stop() }

func TestEndpoint(t *testing.T) {
	public := func(s string) *legacy.Options {
		u, err := url.Parse(s)
		if err != nil {
			t.Fatal(err)
		}
		return &legacy.Options{PublicURL: u}
	}
	trusted := func(scheme, host, prefix string) *legacy.Options {
		return &legacy.Options{Forwarded: func(*http.Request) (string, string, string, bool) { return scheme, host, prefix, true }}
	}
	forwarded := http.Header{"X-Forwarded-Proto": {"https"}, "X-Forwarded-Prefix": {"/playwright"}}
	for _, c := range []struct {
		name   string
		o      *legacy.Options
		mount  string
		url    string
		host   string
		header http.Header
		want   string
	}{
		{"loopback", nil, "", "/sse", "127.0.0.1:8420", nil, "http://127.0.0.1:8420/messages?sessionId=ID"},
		{"loopback by name", nil, "", "/sse", "LocalHost:9000", nil, "http://LocalHost:9000/messages?sessionId=ID"},
		{"loopback of IPv6", nil, "", "/sse", "[::1]:8420", nil, "http://[::1]:8420/messages?sessionId=ID"},
		{"the listener's own address", nil, "", "/sse", "192.0.2.7:8420", nil, "http://192.0.2.7:8420/messages?sessionId=ID"},
		{"own address, other port", nil, "", "/sse", "192.0.2.7:80", nil, "messages?sessionId=ID"},
		{"a name behind an unknown proxy", nil, "", "/sse", "mcp.example.com", nil, "messages?sessionId=ID"},
		{"the unspecified address", nil, "", "/sse", "0.0.0.0:8420", nil, "messages?sessionId=ID"},
		{"loopback behind a proxy that is not trusted", nil, "", "/sse", "127.0.0.1:8420", forwarded, "messages?sessionId=ID"},
		{"trailing slash", nil, "", "/sse/", "mcp.example.com", nil, "../messages?sessionId=ID"},
		{"two slashes", nil, "", "//sse", "mcp.example.com", nil, "../messages?sessionId=ID"},
		{"mounted below a prefix, relative", nil, "/tools/a", "/tools/a/sse", "mcp.example.com", nil, "messages?sessionId=ID"},
		{"mounted below a prefix, absolute", nil, "/tools/a", "/tools/a/sse", "localhost", nil, "http://localhost/tools/a/messages?sessionId=ID"},
		{"prefix stripped with its slash", nil, "/tools/a/", "/tools/a/sse", "localhost", nil, "http://localhost/tools/a/messages?sessionId=ID"},
		{"prefix with a blank", nil, "/a b", "/a%20b/sse", "localhost", nil, "http://localhost/a%20b/messages?sessionId=ID"},
		{"public URL", public("https://mcp.example.com"), "", "/sse", "127.0.0.1:8420", nil, "https://mcp.example.com/messages?sessionId=ID"},
		{"public URL with a prefix", public("https://mcp.example.com/tools/a"), "", "/sse", "x", nil, "https://mcp.example.com/tools/a/messages?sessionId=ID"},
		{"public URL with a slash", public("https://mcp.example.com/tools/a/"), "/tools/a", "/tools/a/sse", "x", nil, "https://mcp.example.com/tools/a/messages?sessionId=ID"},
		{"trusted origin", trusted("https", "mcp.example.com", ""), "", "/sse", "127.0.0.1:8420", forwarded, "https://mcp.example.com/messages?sessionId=ID"},
		{"trusted prefix", trusted("", "", "/playwright"), "", "/sse", "127.0.0.1:8420", forwarded, "/playwright/messages?sessionId=ID"},
		{"trusted origin and prefix", trusted("https", "h", "playwright/"), "", "/sse", "x", forwarded, "https://h/playwright/messages?sessionId=ID"},
		{"a prefix that was passed on", trusted("https", "h", "/p"), "/p", "/p/sse", "x", forwarded, "https://h/p/messages?sessionId=ID"},
		{"two prefixes", trusted("https", "h", "/p"), "/q", "/q/sse", "x", forwarded, "https://h/p/q/messages?sessionId=ID"},
		{"a trusted proxy says nothing", trusted("", "", ""), "", "/sse", "127.0.0.1:8420", forwarded, "messages?sessionId=ID"},
		{"always relative", &legacy.Options{EndpointURL: "relative", PublicURL: public("https://h/p").PublicURL}, "", "/sse", "localhost", nil, "messages?sessionId=ID"},
		{"always absolute", &legacy.Options{EndpointURL: "absolute"}, "", "/sse", "mcp.example.com", nil, "http://mcp.example.com/messages?sessionId=ID"},
		{"other paths", &legacy.Options{MessagePath: "/api/mcp/post"}, "", "/api/events", "h", nil, "mcp/post?sessionId=ID"},
		{"up and down", &legacy.Options{MessagePath: "/post"}, "", "/a/b/events", "h", nil, "../../post?sessionId=ID"},
		{"a colon", &legacy.Options{MessagePath: "/a:b"}, "", "/sse", "h", nil, "./a:b?sessionId=ID"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := httptest.NewRequest(http.MethodGet, c.url, nil)
				r.Host = c.host
				for k, v := range c.header {
					r.Header[k] = v
				}
				local := net.TCPAddrFromAddrPort(netip.MustParseAddrPort("192.0.2.7:8420"))
				r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, local))
				if got := endpointOf(t, c.o, c.mount, r); got != c.want {
					t.Errorf("got %s, want %s", got, c.want)
				}
			})
		})
	}
}

// nginx with its defaults shows itself by nothing but HTTP/1.0 and Connection: close, the latter alone where
// proxy_http_version is 1.1, and names the bridge's own address as Host.
func TestEndpointBehindPlainNginx(t *testing.T) {
	for _, version := range []string{"1.0", "1.1"} {
		t.Run("HTTP "+version, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				text := "GET /sse HTTP/" + version + "\r\nHost: 127.0.0.1:8420\r\nConnection: close\r\n\r\n"
				r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(text)))
				if err != nil {
					t.Fatal(err)
				}
				if got, want := endpointOf(t, nil, "", r), "messages?sessionId=ID"; got != want {
					t.Errorf("got %s, want %s", got, want)
				}
			})
		})
	}
}

// Report R01: whatever the front is mounted under, what the endpoint event names takes the message, and the
// answer comes (2024-11-05 basic/transports, HTTP with SSE).
func TestEndpointBelowAPrefix(t *testing.T) {
	for _, path := range []string{"/tools/a/sse", "/tools/a/sse/"} {
		for _, host := range []string{"localhost", "mcp.example.com"} {
			t.Run(host+path, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					f := legacy.New(&script{}, nil)
					t.Cleanup(func() { f.Close() })
					mux := http.NewServeMux()
					mux.Handle("/sse", f.Stream())
					mux.Handle("/sse/", f.Stream())
					mux.Handle("/messages", f.Messages())
					parent := http.NewServeMux()
					parent.Handle("/tools/a/", http.StripPrefix("/tools/a", mux))
					s := memhttp.New(t, parent)
					t.Cleanup(func() { f.Close() })
					s.URL = "http://" + host
					c := connectTo(t, s, s.URL+path)
					if strings.Count(c.post, "/tools/a/") != 1 || strings.Contains(c.post[len("http://"):], "//") {
						t.Errorf("endpoint is %s", c.post)
					}
					c.begin()
				})
			})
		}
	}
}
