package upstream

import (
	"net/http"
	"net/url"
	"testing"
)

func TestResolveEndpoint(t *testing.T) {
	const base = "https://user:pw@Host.example/a/sse?x=1"
	for _, test := range []struct {
		data, want string // "": refused
		anyOrigin  bool
	}{
		{"/messages?id=1", "https://user:pw@Host.example/messages?id=1", false},
		{"messages", "https://user:pw@Host.example/a/messages", false},
		{"?id=1", "https://user:pw@Host.example/a/sse?id=1", false},
		{" \t/m \r", "https://user:pw@Host.example/m", false},
		{"https://host.EXAMPLE:443/m#f", "https://user:pw@Host.example/m", false},
		{"HTTPS://other:x@host.example/m", "https://user:pw@Host.example/m", false},
		{"//host.example/m", "https://user:pw@Host.example/m", false},
		{"http://host.example/m", "", false},
		{"https://host.example:8443/m", "", false},
		{"https://host.example.evil/m", "", false},
		{"//evil/m", "", false},
		{"https://host.example@evil/m", "", false},
		{"", "", true},
		{"mailto:a@b", "", true},
		{"ftp://host.example/m", "", true},
		{"https:///m", "", true},
		{"https:m", "", true},
		{"/m\n/n", "", true},
		{"https://host.example:x/m", "", true},
		{"http://u:p@evil:1/m", "http://evil:1/m", true},
	} {
		b, err := url.Parse(base)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		if u, err := resolveEndpoint(b, test.data, test.anyOrigin); err == nil {
			got = u.String()
		}
		if got != test.want {
			t.Errorf("%q, any origin %v: got %q, want %q", test.data, test.anyOrigin, got, test.want)
		}
	}
}

// FuzzResolveEndpoint: what is posted to is on the origin that the stream came from, as the HTTP client understands the URL.
func FuzzResolveEndpoint(f *testing.F) {
	for _, seed := range []string{
		"/messages", "//evil/m", `\\evil\m`, "https://host.example@evil/", "http:evil", "https://host.example:443:80/", "/../..//evil", "%2f%2fevil", "?", "#", ".",
		"https://[::1]/", "https://host.example%40evil/", "\x00//evil", "https://HOST.example./", "javascript:x",
	} {
		f.Add("https://host.example/sse", seed)
		f.Add("http://user@127.0.0.1:8080/a/b/sse?x=y", seed)
	}
	f.Fuzz(func(t *testing.T, rawBase, data string) {
		base, err := url.Parse(rawBase)
		if err != nil || base.Scheme != "http" && base.Scheme != "https" || base.Hostname() == "" {
			t.Skip()
		}
		u, err := resolveEndpoint(base, data, false)
		if err != nil {
			return
		}
		req, err := http.NewRequest(http.MethodPost, u.String(), nil)
		if err != nil {
			return // refused where it is used
		}
		if req.URL.Hostname() != base.Hostname() || req.URL.Port() != base.Port() || req.URL.Scheme != base.Scheme {
			t.Errorf("%q at %q: posts to %q, %q", data, rawBase, req.URL.Scheme, req.URL.Host)
		}
		if req.URL.User.String() != base.User.String() {
			t.Errorf("%q at %q: posts as %q", data, rawBase, req.URL.User)
		}
		if any, err := resolveEndpoint(base, data, true); err != nil || any.String() != u.String() {
			t.Errorf("%q at %q: with any origin allowed got %v, %v, want %v", data, rawBase, any, err, u)
		}
	})
}
