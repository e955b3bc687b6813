package bridge

import (
	"net/http"
	"net/url"
	"strings"
)

// cleanPath returns p with one leading slash, no empty segments and no trailing slash. Dot segments stay:
// nothing is served under them.
func cleanPath(p string) string {
	if isClean(p) {
		return p
	}
	b := make([]byte, 0, len(p)+1)
	for seg := range strings.SplitSeq(p, "/") {
		if seg != "" {
			b = append(append(b, '/'), seg...)
		}
	}
	if len(b) == 0 {
		return "/"
	}
	return string(b)
}

func isClean(p string) bool {
	return p == "/" || strings.HasPrefix(p, "/") && !strings.HasSuffix(p, "/") && !strings.Contains(p, "//")
}

// route returns the path by which a request is routed: cleaned, and without the public prefix when it is
// there, since an ingress may strip it or not.
func route(p, prefix string) string {
	p = cleanPath(p)
	if prefix == "" {
		return p
	}
	rest, ok := strings.CutPrefix(p, prefix)
	switch {
	case !ok:
		return p
	case rest == "":
		return "/"
	case rest[0] != '/':
		return p // /toolsmith does not lie under /tools
	}
	return rest
}

// normalised serves every spelling of a path directly. A redirect would turn a POST into a GET or lose its body
// with some clients. URL.Path becomes the route; RequestURI keeps what stands before it, and slashes at the
// end, which count when a client resolves a reference against its URL.
func normalised(next http.Handler, prefix string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p := route(r.URL.Path, prefix)
		if p == r.URL.Path && r.URL.RawPath == "" {
			next.ServeHTTP(w, r)
			return
		}
		r2 := new(http.Request)
		*r2 = *r
		r2.URL = new(url.URL)
		*r2.URL = *r.URL
		r2.URL.Path, r2.URL.RawPath = p, ""
		if u, err := url.ParseRequestURI(r.RequestURI); err == nil {
			u.Path, u.RawPath = cleanPath(u.Path)+trailing(u.Path), ""
			r2.RequestURI = u.RequestURI()
		}
		next.ServeHTTP(w, r2)
	})
}

// trailing returns the slashes at the end of p, none for the root.
func trailing(p string) string {
	return p[len(strings.TrimRight(p[min(1, len(p)):], "/"))+min(1, len(p)):]
}

// asSpelled gives a handler that makes references to its own URL the slashes at its end back.
func asSpelled(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		u, err := url.ParseRequestURI(r.RequestURI)
		if err != nil || !strings.HasSuffix(u.Path, "/") || r.URL.Path == "/" {
			next.ServeHTTP(w, r)
			return
		}
		r2 := new(http.Request)
		*r2 = *r
		r2.URL = new(url.URL)
		*r2.URL = *r.URL
		r2.URL.Path += trailing(u.Path)
		next.ServeHTTP(w, r2)
	})
}

// mountPrefix returns what stands before the route in the path the client asked for: the public prefix, or
// where a parent router mounted the bridge. The request's own URL.Path is the route.
func mountPrefix(r *http.Request) string {
	u, err := url.ParseRequestURI(r.RequestURI)
	if err != nil {
		return ""
	}
	prefix, ok := strings.CutSuffix(cleanPath(u.Path), r.URL.Path)
	if !ok {
		return ""
	}
	return prefix
}
