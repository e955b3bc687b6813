package bridge

import (
	"net/url"
	"path"
	"strings"
	"testing"
)

// FuzzForwarded: whatever a trusted proxy passes on of its client's forwarded headers, the URLs that are published are plain ones of http
// that end in the path of MCP, on the host that the header names or the request has, and the address is one.
func FuzzForwarded(f *testing.F) {
	for _, seed := range [][4]string{
		{"https", "pub.test", "/playwright/", "198.51.100.4"}, {"HTTPS", "pub.test:8443", "/a/b", "198.51.100.4:4711, 10.0.0.8"}, {"javascript", "pub.test", "//evil.test", "unknown"},
		{"https", "a@evil.test", `/\evil.test`, "::1"}, {"https", "evil.test/x", "/a?b#c", "[2001:db8::1]:1"}, {"https", "evil.test?x", "/../..", "fe80::1%eth0"},
		{"https", "[::1]:80", "/%2e%2e/%2f", ",,,"}, {"https", "a b", "/a b", "10.0.0.7"}, {"http", "x:y", "x", ""}, {"https", "ü.test", "/ü\u2028", "1.2.3.4,"}, {"https", "pub.test", "/a%zz", "0.0.0.0"},
	} {
		f.Add(seed[0], seed[1], seed[2], seed[3])
	}
	s, _, err := Options{TrustedProxies: []string{"10.0.0.0/8"}}.check(nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, scheme, host, prefix, addresses string) {
		r := request("/sse")
		r.Host, r.RemoteAddr = "mcp.test", "10.0.0.7:999"
		for name, value := range map[string]string{"X-Forwarded-Proto": scheme, "X-Forwarded-Host": host, "X-Forwarded-Prefix": prefix, "X-Forwarded-For": addresses} {
			if strings.ContainsFunc(value, func(c rune) bool { return c < ' ' && c != '\t' || c == 0x7f }) {
				t.Skip() // net/http does not let it in
			}
			r.Header[name] = []string{value}
		}
		if a := s.addr(r); !a.IsValid() || a.IsUnspecified() {
			t.Errorf("%q: got the address %v", addresses, a)
		}
		text := s.successor(r)
		u, err := url.Parse(text)
		if err != nil {
			t.Fatalf("got %q: %v", text, err)
		}
		if u.Scheme != "http" && u.Scheme != "https" || u.Host != "mcp.test" && u.Host != host || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
			t.Errorf("proto %q, host %q, prefix %q: got %q", scheme, host, prefix, text)
		}
		if path.Base(u.Path) != "mcp" || strings.Contains(u.EscapedPath(), "//") || strings.ContainsAny(text, " \t\r\n<>\"") {
			t.Errorf("prefix %q: got %q", prefix, text)
		}
	})
}
