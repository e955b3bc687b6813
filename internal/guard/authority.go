package guard

import (
	"net/netip"
	"strings"
)

// An authority is a host with an optional port, as in a Host header (RFC 9110, 7.2). It aliases
// the text it was read from.
type authority struct {
	name string     // without a final dot; empty if ip is valid
	ip   netip.Addr // of a literal, IPv4 in IPv6 unmapped
	port string     // decimal; empty: not given
}

const maxHostBytes = 255 + len(":65535")

// parseAuthority reads HOST, HOST:PORT or either with a bracketed IPv6 address. ok is false for
// anything else: user info, blanks, characters no host name has (a letter beyond ASCII among them:
// clients send punycode), zones, ports out of range. An empty port is none.
func parseAuthority(s string) (a authority, ok bool) {
	if len(s) > maxHostBytes {
		return authority{}, false
	}
	host, rest, bracketed := s, "", strings.HasPrefix(s, "[")
	if bracketed {
		end := strings.IndexByte(s, ']')
		if end < 0 {
			return authority{}, false
		}
		host, rest = s[1:end], s[end+1:]
	} else if i := strings.IndexByte(s, ':'); i >= 0 {
		host, rest = s[:i], s[i:]
	}
	if rest != "" {
		if rest[0] != ':' || !isPort(rest[1:]) {
			return authority{}, false
		}
		a.port = rest[1:]
	}
	if bracketed {
		ip, err := netip.ParseAddr(host)
		a.ip = ip.Unmap()
		return a, err == nil && ip.Is6() && ip.Zone() == ""
	}
	host = strings.TrimSuffix(host, ".")
	digits, ok := isName(host)
	if !ok {
		return authority{}, false
	}
	if digits { // ParseAddr allocates its error, so it is asked only about what looks like an address
		ip, err := netip.ParseAddr(host)
		a.ip = ip
		return a, err == nil
	}
	a.name = host
	return a, true
}

// isName reports whether s has the characters of a host name and no empty label, and whether it
// has digits and dots only.
func isName(s string) (digits, ok bool) {
	digits = true
	prev := byte('.')
	for i := range len(s) {
		c := s[i]
		switch {
		case c >= '0' && c <= '9':
		case c == '.':
			if prev == '.' {
				return false, false
			}
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c == '-', c == '_':
			digits = false
		default:
			return false, false
		}
		prev = c
	}
	return digits, prev != '.'
}

// isPort reports whether s is a port number or empty.
func isPort(s string) bool {
	n := 0
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' || len(s) > 5 {
			return false
		}
		n = 10*n + int(s[i]-'0')
	}
	return n <= 65535
}

// loopback reports whether a is localhost or a loopback address, with any port.
func (a authority) loopback() bool {
	return a.ip.IsLoopback() || strings.EqualFold(a.name, "localhost")
}

// sameHost compares the hosts without regard to case.
func (a authority) sameHost(b authority) bool {
	return a.ip == b.ip && strings.EqualFold(a.name, b.name)
}

// admits reports whether a, an entry of the options, covers the host of a request. A request
// without a port goes to the standard one of a scheme that a proxy may have taken off.
func (a authority) admits(b authority) bool {
	if !a.sameHost(b) {
		return false
	}
	return a.port == "" || a.port == b.port || b.port == "" && (a.port == "80" || a.port == "443")
}

// An origin is a web origin (RFC 6454): where a page comes from.
type origin struct {
	scheme string
	authority
}

// parseOrigin reads SCHEME://AUTHORITY with nothing after it.
func parseOrigin(s string) (o origin, ok bool) {
	scheme, rest, found := strings.Cut(s, "://")
	if !found || !isScheme(scheme) {
		return origin{}, false
	}
	a, ok := parseAuthority(rest)
	return origin{scheme, a}, ok
}

// isScheme reports whether s is a URI scheme (RFC 3986, 3.1).
func isScheme(s string) bool {
	for i := range len(s) {
		c := s[i] | 0x20
		letter := c >= 'a' && c <= 'z'
		if !letter && (i == 0 || (s[i] < '0' || s[i] > '9') && s[i] != '+' && s[i] != '-' && s[i] != '.') {
			return false
		}
	}
	return s != ""
}

// web reports whether o is one of pages that came over HTTP.
func (o origin) web() bool {
	return strings.EqualFold(o.scheme, "http") || strings.EqualFold(o.scheme, "https")
}

func (o origin) equal(p origin) bool {
	return strings.EqualFold(o.scheme, p.scheme) && o.sameHost(p.authority) && o.fullPort() == p.fullPort()
}

// fullPort returns the port, the standard one of the scheme if none was given.
func (o origin) fullPort() string {
	switch {
	case o.port != "":
		return o.port
	case strings.EqualFold(o.scheme, "http"):
		return "80"
	case strings.EqualFold(o.scheme, "https"):
		return "443"
	}
	return ""
}
