package bridge

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

func TestRoute(t *testing.T) {
	tests := []struct{ name, path, prefix, want string }{
		{"plain", "/mcp", "", "/mcp"},
		{"slash at the end", "/mcp/", "", "/mcp"},
		{"slashes at the end", "/mcp///", "", "/mcp"},
		{"two at the beginning", "//mcp", "", "/mcp"},
		{"two inside", "/a//mcp", "", "/a/mcp"},
		{"root", "/", "", "/"},
		{"only slashes", "///", "", "/"},
		{"empty", "", "", "/"},
		{"no slash", "mcp", "", "/mcp"},
		{"dot segments are not resolved", "/a/../mcp", "", "/a/../mcp"},
		{"prefix there", "/tools/a/mcp", "/tools/a", "/mcp"},
		{"prefix stripped by an ingress", "/mcp", "/tools/a", "/mcp"},
		{"prefix with two slashes", "//tools//a/mcp/", "/tools/a", "/mcp"},
		{"prefix alone", "/tools/a/", "/tools/a", "/"},
		{"begins like the prefix", "/tools/alpha", "/tools/a", "/tools/alpha"},
		{"prefix twice goes once", "/tools/a/tools/a/mcp", "/tools/a", "/tools/a/mcp"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := route(tt.path, tt.prefix); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// What handlers see: the route, and in RequestURI what stands before it and after it.
func TestNormalised(t *testing.T) {
	tests := []struct{ name, target, path, requestURI, spelled, mount string }{
		{"plain", "/sse?a=b", "/sse", "/sse?a=b", "/sse", ""},
		{"slash at the end", "/sse/", "/sse", "/sse/", "/sse/", ""},
		{"two slashes at the end", "/sse//?a=b", "/sse", "/sse//?a=b", "/sse//", ""},
		{"two at the beginning", "//sse", "/sse", "/sse", "/sse", ""},
		{"under the prefix", "/tools/a//sse/", "/sse", "/tools/a/sse/", "/sse/", "/tools/a"},
		{"escaped letters", "/%73se", "/sse", "/sse", "/sse", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var path, uri, spelled, mount string
			last := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { spelled = r.URL.Path })
			h := normalised(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				path, uri, mount = r.URL.Path, r.RequestURI, mountPrefix(r)
				asSpelled(last).ServeHTTP(w, r)
			}), "/tools/a")
			h.ServeHTTP(httptest.NewRecorder(), request(tt.target))
			if path != tt.path || uri != tt.requestURI || spelled != tt.spelled || mount != tt.mount {
				t.Errorf("got path %q, URI %q, spelled %q, mount %q; want %q, %q, %q, %q",
					path, uri, spelled, mount, tt.path, tt.requestURI, tt.spelled, tt.mount)
			}
		})
	}
}

// request returns a GET as a server reads it: a target that begins with two slashes is a path.
func request(target string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, "http://127.0.0.1"+target, nil)
	r.RequestURI = target
	return r
}
