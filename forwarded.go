package bridge

import (
	"net/http"
	"net/netip"
	"net/url"
	"strings"
)

// addr returns the client's address, after trusted proxies.
func (s *settings) addr(r *http.Request) netip.Addr { return s.proxies.Addr(r) }

// forwarded returns what a trusted proxy says about the URL that the client used: scheme and host, both
// empty unless the scheme is known, and the clean path prefix that the proxy stripped. ok is false when no trusted proxy
// spoke.
func (s *settings) forwarded(r *http.Request) (scheme, host, prefix string, ok bool) {
	if !s.proxies.Trusts(r) {
		return "", "", "", false
	}
	if scheme = strings.ToLower(r.Header.Get("X-Forwarded-Proto")); scheme == "http" || scheme == "https" {
		if host = r.Header.Get("X-Forwarded-Host"); !isHost(host) {
			host = r.Host
		}
	} else {
		scheme = ""
	}
	if p := r.Header.Get("X-Forwarded-Prefix"); isRoutePath(p) && p != "/" {
		prefix = cleanPath(p)
	}
	return scheme, host, prefix, scheme != "" || prefix != ""
}

// isHost reports whether h can stand as the authority of a URL, without a user, and in a Link field: net/url takes brackets
// and quotation marks too.
func isHost(h string) bool {
	u, err := url.Parse("//" + h)
	return err == nil && h != "" && u.Host == h && !strings.ContainsFunc(h, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune(".-_:[]", r))
	})
}

func schemeOf(r *http.Request) string {
	if r.TLS != nil {
		return "https"
	}
	return "http"
}

// successor returns the absolute URL of the MCP route as the client can reach it. r's path is the route.
func (s *settings) successor(r *http.Request) string { return s.published(r, s.MCPPath) }

// published returns the absolute URL of a path of the bridge as the client can reach it. r's own path is the route.
func (s *settings) published(r *http.Request, path string) string {
	if s.publicURL != nil {
		return s.publicURL.JoinPath(path).String() // #nosec G125 -- a path of the bridge's own
	}
	u := url.URL{Scheme: schemeOf(r), Host: r.Host, Path: mountPrefix(r)}
	if scheme, host, prefix, ok := s.forwarded(r); ok {
		if scheme != "" {
			u.Scheme, u.Host = scheme, host
		}
		if !strings.HasPrefix(u.Path+"/", prefix+"/") { // a proxy may name its prefix and pass it on
			u.Path = prefix + u.Path
		}
	}
	return u.JoinPath(path).String() // #nosec G125 -- a path of the bridge's own
}
