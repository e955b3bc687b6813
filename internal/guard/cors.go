package guard

import (
	"net/http"

	"github.com/rs/cors"
)

// corsMaxAge is how long a browser may remember a preflight, in seconds: the most that Chromium keeps one.
const corsMaxAge = 7200

// exposedHeaders are the response headers that pages may read: those MCP clients need, and what a refusal or a
// retired route says.
var exposedHeaders = []string{
	"Mcp-Session-Id", "Mcp-Protocol-Version", "Www-Authenticate", "Retry-After", "Allow", "Link", "Deprecation", "Sunset",
}

// CORS returns next with what browsers need to call it from the origins that g admits (WHATWG Fetch, CORS protocol;
// report R44). It answers preflights of every path itself, without asking who calls: a preflight never carries
// credentials. It belongs behind Handler, which refuses the other origins.
//
// Every request header is allowed: the names of Mcp-Param-* headers are the tools' own. Credentials that a browser adds by itself
// are not: callers are known by a header that the page sets, and so no page acts as somebody by accident.
func (g *Guard) CORS(next http.Handler) http.Handler {
	return cors.New(cors.Options{
		AllowOriginVaryRequestFunc: func(r *http.Request, value string) (bool, []string) {
			host, ok := parseAuthority(r.Host)
			return ok && g.allowedOrigin(value, host), nil
		},
		AllowedMethods:      []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodDelete},
		AllowedHeaders:      []string{"*"},
		ExposedHeaders:      exposedHeaders,
		MaxAge:              corsMaxAge,
		AllowPrivateNetwork: true, // of origins that were allowed by name
	}).Handler(next)
}
