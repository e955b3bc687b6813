package bridge

import (
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestForwarded(t *testing.T) {
	type seen struct{ Addr, Successor string }
	tests := []struct {
		name, public, remote string
		header               http.Header
		want                 seen
	}{
		{"straight", "", "127.0.0.1:999", nil, seen{"127.0.0.1", "http://mcp.test/mcp"}},
		{"somebody claims", "", "192.0.2.1:999",
			http.Header{"X-Forwarded-For": {"10.9.9.9"}, "X-Forwarded-Proto": {"https"}, "X-Forwarded-Host": {"evil.test"}, "X-Forwarded-Prefix": {"/x"}},
			seen{"192.0.2.1", "http://mcp.test/mcp"}},
		{"a trusted proxy names everything", "", "10.0.0.7:999",
			http.Header{"X-Forwarded-For": {"198.51.100.4"}, "X-Forwarded-Proto": {"https"}, "X-Forwarded-Host": {"pub.test"}, "X-Forwarded-Prefix": {"/playwright/"}},
			seen{"198.51.100.4", "https://pub.test/playwright/mcp"}},
		{"it keeps the host", "", "10.0.0.7:999", http.Header{"X-Forwarded-Proto": {"https"}}, seen{"10.0.0.7", "https://mcp.test/mcp"}},
		{"it names a host only, so the scheme is not known", "", "10.0.0.7:999", http.Header{"X-Forwarded-Host": {"pub.test"}}, seen{"10.0.0.7", "http://mcp.test/mcp"}},
		{"a host with a user in it", "", "10.0.0.7:999",
			http.Header{"X-Forwarded-Proto": {"https"}, "X-Forwarded-Host": {"a@evil.test"}}, seen{"10.0.0.7", "https://mcp.test/mcp"}},
		{"a host that ends a Link field", "", "10.0.0.7:999",
			http.Header{"X-Forwarded-Proto": {"https"}, "X-Forwarded-Host": {`evil.test>;rel="x"`}}, seen{"10.0.0.7", "https://mcp.test/mcp"}},
		{"two proxies of ours, a forged hop before them", "", "10.0.0.7:999",
			http.Header{"X-Forwarded-For": {"1.1.1.1, 198.51.100.4", "10.0.0.8"}}, seen{"198.51.100.4", "http://mcp.test/mcp"}},
		{"nonsense before our proxy", "", "10.0.0.7:999", http.Header{"X-Forwarded-For": {"unknown, 10.0.0.8"}}, seen{"10.0.0.7", "http://mcp.test/mcp"}},
		{"nobody but our proxies", "", "10.0.0.7:999", http.Header{"X-Forwarded-For": {"10.0.0.9, 10.0.0.8"}}, seen{"10.0.0.7", "http://mcp.test/mcp"}},
		{"a hop with a port", "", "10.0.0.7:999", http.Header{"X-Forwarded-For": {"198.51.100.4:4711"}}, seen{"198.51.100.4", "http://mcp.test/mcp"}},
		{"mapped address", "", "[::ffff:10.0.0.7]:999", http.Header{"X-Forwarded-For": {"::ffff:198.51.100.4"}}, seen{"198.51.100.4", "http://mcp.test/mcp"}},
		{"the public URL wins", "https://mcp.example.com/tools/", "10.0.0.7:999",
			http.Header{"X-Forwarded-Proto": {"http"}, "X-Forwarded-Host": {"pub.test"}}, seen{"10.0.0.7", "https://mcp.example.com/tools/mcp"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, _, err := Options{PublicURL: tt.public, TrustedProxies: []string{"10.0.0.0/8"}}.check(nil)
			if err != nil {
				t.Fatal(err)
			}
			r := request("/sse")
			r.Host, r.RemoteAddr = "mcp.test", tt.remote
			if tt.header != nil {
				r.Header = tt.header
			}
			got := seen{s.addr(r).String(), s.successor(r)}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("want -, got +:\n%s", diff)
			}
		})
	}
}
