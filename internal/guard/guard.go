// Package guard keeps out requests that have no business here: those a browser was tricked into sending, those of
// callers who cannot say who they are, and those that are too many.
//
// A page of any site can make a browser send requests to a server on the user's own machine or
// network, by naming it (which the Origin header gives away) or by letting its own name resolve to it
// (DNS rebinding, which the Host header gives away). Every MCP revision asks servers to check the
// Origin (2024-11-05 transports, HTTP with SSE; 2025-11-25 transports, Security Warning).
package guard

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
)

// Options say which names the server goes by. The zero value admits loopback names and the address
// a request arrived at.
type Options struct {
	// AllowedHosts are further names in the Host header: "mcp.example.com", with any port, or
	// "mcp.example.com:8443", with that one only; addresses with or without brackets.
	AllowedHosts []string
	// AllowedOrigins are the web origins whose pages may call: "https://app.example.com".
	AllowedOrigins []string
	// PublicURL is the URL by which clients know the server; its host and its origin are allowed. Empty: none.
	PublicURL string

	// Refused, if set, is told of every refusal with its reason, one of the Reason constants. It may be called
	// concurrently and must not write to the response.
	Refused func(r *http.Request, reason string)
}

// Reasons of refusals, for data.bridge.reason.
const (
	ReasonHost        = "host_not_allowed"
	ReasonOrigin      = "origin_not_allowed"
	ReasonNoToken     = "unauthenticated"    // there is no credential, or it is worth nothing
	ReasonNoScope     = "insufficient_scope" // the caller is known and may not
	ReasonIssuerDown  = "issuer_unavailable" // nobody can say whether the token is good
	ReasonRateLimited = "rate_limited"       // too many requests in a short time
	ReasonTooMuch     = "too_much_at_once"   // too many requests or streams at the same time
	ReasonAdmin       = "admin_token_needed"
)

// A Guard checks Host and Origin. It is immutable.
type Guard struct {
	hosts   []authority // port empty: any
	origins []origin
	refused func(*http.Request, string)
}

// New returns a Guard, or an error that has every problem of the options.
func New(o Options) (*Guard, error) {
	g := &Guard{refused: o.Refused}
	var errs []error
	for _, s := range o.AllowedHosts {
		a, err := hostOption(s)
		errs = append(errs, wrap("allowed_hosts", s, err))
		g.hosts = append(g.hosts, a)
	}
	for _, s := range o.AllowedOrigins {
		or, err := originOption(s)
		errs = append(errs, wrap("allowed_origins", s, err))
		g.origins = append(g.origins, or)
	}
	if o.PublicURL != "" {
		or, err := publicURL(o.PublicURL)
		errs = append(errs, wrap("public_url", o.PublicURL, err))
		g.origins = append(g.origins, or)
		or.port = "" // a proxy may pass the name on with its own port or with none
		g.hosts = append(g.hosts, or.authority)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return g, nil
}

func wrap(option, value string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %q: %w", option, value, err)
}

func hostOption(s string) (authority, error) {
	switch {
	case strings.Contains(s, "*"):
		return authority{}, errors.New("wildcards are not supported; list each name")
	case strings.Contains(s, "/"):
		return authority{}, errors.New("this is a URL; write the host alone, such as mcp.example.com")
	}
	if ip, err := netip.ParseAddr(s); err == nil && ip.Zone() == "" {
		return authority{ip: ip.Unmap()}, nil
	}
	a, ok := parseAuthority(s)
	if !ok {
		return authority{}, errors.New("this is not a host; write a name or an address, with or without a port")
	}
	return a, nil
}

func originOption(s string) (origin, error) {
	if s == "null" || strings.Contains(s, "*") {
		return origin{}, errors.New("only exact origins are supported; list each one")
	}
	o, ok := parseOrigin(s)
	if !ok {
		return origin{}, errors.New("this is not an origin; write scheme://host or scheme://host:port and nothing after it")
	}
	return o, nil
}

func publicURL(s string) (origin, error) {
	u, err := url.Parse(s)
	if err != nil {
		return origin{}, errors.New("this is not a URL")
	}
	if !strings.EqualFold(u.Scheme, "http") && !strings.EqualFold(u.Scheme, "https") || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return origin{}, errors.New("write http:// or https://, a host, and at most a path after it")
	}
	o, ok := parseOrigin(u.Scheme + "://" + u.Host)
	if !ok {
		return origin{}, errors.New("its host is not one")
	}
	return o, nil
}

// Handler returns next behind the checks. What they refuse gets 403 with a JSON-RPC error without an
// id, code -32600 and data {"bridge":{"reason":...}}.
func (g *Guard) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		reason, message := g.check(r)
		if reason == "" {
			next.ServeHTTP(w, r)
			return
		}
		if g.refused != nil {
			g.refused(r, reason)
		}
		(&refusal{status: http.StatusForbidden, reason: reason, message: message}).write(w)
	})
}

// check returns why r is refused, or "" and "".
func (g *Guard) check(r *http.Request) (reason, message string) {
	host, ok := parseAuthority(r.Host)
	if !ok || !g.allowedHost(host, r) {
		return ReasonHost, fmt.Sprintf("Forbidden: the Host header says %s, which is none of this server's names; if it is one, add it to allowed_hosts or set public_url", quote(r.Host))
	}
	switch values := r.Header["Origin"]; {
	case len(values) == 0: // no browser, or a same-origin GET of one
		return "", ""
	case len(values) > 1:
		return ReasonOrigin, "Forbidden: there are several Origin headers; send one or none"
	case !g.allowedOrigin(values[0], host):
		return ReasonOrigin, fmt.Sprintf("Forbidden: pages of the origin %s may not call this server; if they should, add it to allowed_origins", quote(values[0]))
	}
	return "", ""
}

func (g *Guard) allowedHost(host authority, r *http.Request) bool {
	if host.loopback() || host.ip.IsValid() && host.ip == localIP(r) {
		return true
	}
	for i := range g.hosts {
		if g.hosts[i].admits(host) {
			return true
		}
	}
	return false
}

func (g *Guard) allowedOrigin(s string, host authority) bool {
	o, ok := parseOrigin(s)
	if !ok {
		return false // "null" among them: a sandboxed page or a file, which may be anybody's
	}
	if o.web() && o.loopback() && host.loopback() {
		return true
	}
	for i := range g.origins {
		if g.origins[i].equal(o) {
			return true
		}
	}
	return false
}

// localIP returns the address the request arrived at. A rebound name cannot look like it: a
// browser that sends it in the Host header was told to go to this address.
func localIP(r *http.Request) netip.Addr {
	if a, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr); ok {
		return a.AddrPort().Addr().Unmap().WithZone("")
	}
	return netip.Addr{}
}
