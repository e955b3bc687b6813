package bridge

import (
	"net/http"
	"net/netip"
	"net/url"
	"strings"
)

// trusted reports whether a is one of the operator's proxies.
func (s *settings) trusted(a netip.Addr) bool {
	for _, p := range s.proxies {
		if p.Contains(a) {
			return true
		}
	}
	return false
}

// remote returns the address at the other end of the connection, the zero Addr if there is none.
func remote(r *http.Request) netip.Addr {
	ap, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	return ap.Addr().Unmap().WithZone("")
}

// addr returns the client's address: the last of X-Forwarded-For that is not a trusted proxy's own,
// provided that a trusted proxy is at the other end of the connection.
func (s *settings) addr(r *http.Request) netip.Addr {
	a := remote(r)
	if !s.trusted(a) {
		return a
	}
	hops := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	for i := len(hops) - 1; i >= 0; i-- {
		hop, err := netip.ParseAddr(strings.TrimSpace(hops[i]))
		if err != nil {
			return a // what stands further left was not vouched for by anyone
		}
		a = hop.Unmap()
		if !s.trusted(a) {
			return a
		}
	}
	return a
}

// forwarded returns what a trusted proxy says about the URL that the client used: scheme and host, both
// empty unless the scheme is known, and the clean path prefix that the proxy stripped. ok is false when no trusted proxy
// spoke.
func (s *settings) forwarded(r *http.Request) (scheme, host, prefix string, ok bool) {
	if !s.trusted(remote(r)) {
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

// isHost reports whether h can stand as the authority of a URL, without a user.
func isHost(h string) bool {
	u, err := url.Parse("//" + h)
	return err == nil && h != "" && u.Host == h
}

func schemeOf(r *http.Request) string {
	if r.TLS != nil {
		return "https"
	}
	return "http"
}

// successor returns the absolute URL of the MCP route as the client can reach it. r's path is the route.
func (s *settings) successor(r *http.Request) string {
	if s.publicURL != nil {
		return s.publicURL.JoinPath(s.MCPPath).String()
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
	return u.JoinPath(s.MCPPath).String()
}
