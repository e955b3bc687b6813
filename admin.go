package bridge

import (
	"net/http"

	"github.com/gorilla/mux"

	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
)

// Admin returns the handler of the operator's listener:
//
//	GET /healthz        200 while the process serves; the body says whether the server answers
//	GET /readyz         200, or 503 while the server does not answer and once Shutdown or Close was called
//	GET /metrics        what docs/telemetry.md lists, in the text format of Prometheus or in OpenMetrics
//	/admin/             the dashboard
//	/admin/...          the admin API, which /admin/openapi.json describes
//
// Health is for everybody. The rest is served to the hosts of Options.AllowedHosts only, as the client routes are, so that no web
// page can read it, and asks for the token of Options.AdminTokenFile; without one the listener must be a private one. /metrics is
// served under any IP address too, which is what collectors use and web pages are not called by.
func (b *Bridge) Admin() http.Handler {
	r := mux.NewRouter().SkipClean(true)
	get := func(path string, h http.HandlerFunc) { r.Handle(path, byMethod{http.MethodGet: h, http.MethodHead: h}) }
	get("/healthz", b.serveHealth)
	get("/readyz", b.serveReady)
	r.Handle("/metrics", b.metrics())
	b.routeConsole(r)
	if b.s.Profiles != nil {
		r.PathPrefix("/debug/pprof/").Handler(b.operators(b.s.Profiles))
	}
	r.NotFoundHandler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer(w, r, http.StatusNotFound, note{Error: "nothing is served on this path; there are /admin/, /healthz, /readyz and /metrics"})
	})
	return normalised(r, "")
}

// status writes {"status": text}.
func status(w http.ResponseWriter, code int, text string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = w.Write(append(jsonrpc.Set(nil, jsonrpc.Quote(text), "status"), '\n')) // nobody to tell: the client went away
}
