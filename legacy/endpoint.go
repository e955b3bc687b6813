package legacy

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
)

// Values of Options.EndpointURL.
const (
	endpointAuto     = "auto"
	endpointAbsolute = "absolute"
	endpointRelative = "relative"
)

const sessionParam = "sessionId" // of the query of the message endpoint

// endpoint returns the data of the endpoint event that answers r (translation.md 9.1).
func (f *Front) endpoint(r *http.Request, id string) string {
	query := url.Values{sessionParam: {id}}.Encode()
	if f.o.EndpointURL == endpointRelative {
		return relative(r.URL.Path, f.o.MessagePath) + "?" + query
	}
	u, ok := f.published(r)
	switch {
	case ok:
	case f.o.EndpointURL == endpointAbsolute || isDirect(r):
		u = url.URL{Scheme: scheme(r), Host: r.Host, Path: join(mountPrefix(r), f.o.MessagePath)}
	default:
		return relative(r.URL.Path, f.o.MessagePath) + "?" + query
	}
	if u.Host == "" && f.o.EndpointURL == endpointAbsolute {
		u.Scheme, u.Host = scheme(r), r.Host
	}
	u.RawQuery = query
	return u.String()
}

// published returns the message endpoint as configuration or a trusted proxy tell. Where a proxy tells only
// the prefix it stripped, the result has no origin.
func (f *Front) published(r *http.Request) (u url.URL, ok bool) {
	if p := f.o.PublicURL; p != nil {
		return url.URL{Scheme: p.Scheme, Host: p.Host, Path: join(p.Path, f.o.MessagePath)}, true
	}
	if f.o.Forwarded == nil {
		return u, false
	}
	scheme, host, prefix, ok := f.o.Forwarded(r)
	if !ok || (scheme == "" || host == "") && prefix == "" {
		return u, false
	}
	if scheme != "" && host != "" {
		u.Scheme, u.Host = scheme, host
	}
	u.Path = join(outer(prefix, mountPrefix(r)), f.o.MessagePath)
	return u, true
}

// outer returns the path prefix that clients see: what a proxy says it stripped before what a parent
// router stripped. A proxy that names its prefix and passes it on has it in both.
func outer(proxy, mount string) string {
	proxy = "/" + strings.Trim(proxy, "/")
	if mount == proxy || strings.HasPrefix(mount, proxy+"/") || proxy == "/" {
		return mount
	}
	return proxy + mount
}

// mountPrefix returns what a parent router has stripped from the path of r (http.StripPrefix leaves RequestURI as it
// was), without a slash at its end.
func mountPrefix(r *http.Request) string {
	u, err := url.ParseRequestURI(r.RequestURI)
	if err != nil {
		return ""
	}
	prefix, ok := strings.CutSuffix(u.Path, r.URL.Path)
	if !ok {
		return ""
	}
	return strings.TrimRight(prefix, "/")
}

func join(prefix, path string) string {
	return strings.TrimRight(prefix, "/") + "/" + strings.TrimLeft(path, "/")
}

// relative returns a reference without a leading slash that leads from one path to another (RFC
// 3986, section 5.2), and so does it below any prefix that they share.
func relative(from, to string) string {
	if !strings.HasPrefix(from, "/") {
		from = "/" + from
	}
	to = join("", to)
	dir := from[:strings.LastIndexByte(from, '/')+1]
	common := 0
	for i := 0; i < len(dir) && i < len(to) && dir[i] == to[i]; i++ {
		if dir[i] == '/' {
			common = i + 1
		}
	}
	ref := strings.Repeat("../", strings.Count(dir[common:], "/")) + to[common:]
	if ref == "" { // an empty reference is the document itself
		ref = "./"
	}
	return (&url.URL{Path: ref}).String() // protects a colon in the first segment
}

func scheme(r *http.Request) string {
	if r.TLS != nil {
		return "https"
	}
	return "http"
}

// isDirect reports whether the client surely dialled this listener: nothing was forwarded, and Host is a loopback name or
// the address that the connection came in on. HTTP/1.0 and Connection: close are how nginx speaks to a server by default,
// with the server's own address as Host and no other sign of itself.
func isDirect(r *http.Request) bool {
	if !r.ProtoAtLeast(1, 1) || r.Close {
		return false
	}
	for name := range r.Header {
		switch {
		case name == "Forwarded", name == "Via", name == "X-Real-Ip", strings.HasPrefix(name, "X-Forwarded-"):
			return false
		}
	}
	return isLoopback(r.Host) || isOwn(r)
}

func isLoopback(host string) bool {
	name := hostname(host)
	if name == "localhost" || strings.HasSuffix(name, ".localhost") {
		return true
	}
	ip, err := netip.ParseAddr(name)
	return err == nil && ip.Unmap().IsLoopback()
}

// isOwn reports whether Host is the local address of the connection of r, port included.
func isOwn(r *http.Request) bool {
	local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if !ok {
		return false
	}
	own, err := netip.ParseAddrPort(local.String())
	if err != nil {
		return false
	}
	host := r.Host
	if _, _, err := net.SplitHostPort(host); err != nil {
		port := map[string]string{"http": "80", "https": "443"}[scheme(r)]
		host = net.JoinHostPort(hostname(host), port)
	}
	asked, err := netip.ParseAddrPort(host)
	return err == nil && asked.Port() == own.Port() && asked.Addr().Unmap() == own.Addr().Unmap().WithZone("")
}

// hostname returns a Host without port and brackets, in lower case.
func hostname(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return strings.ToLower(strings.Trim(host, "[]"))
}
