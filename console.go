package bridge

import (
	"net/http"
	"net/netip"

	"github.com/gorilla/mux"

	"github.com/mcp-dualstack/bridge/internal/admin"
)

// Network prefixes that stand for the address of an operator in the audit log, in bits.
const (
	auditBits4 = 24
	auditBits6 = 48
)

// routeConsole mounts the admin API and the dashboard.
func (b *Bridge) routeConsole(r *mux.Router) {
	a := admin.New(admin.Options{
		Release: b.s.Version, Report: b.Report, Days: b.ledger.Days, Forget: b.ledger.Forget,
		Keeper: b.retirement.keeper, Quiet: b.s.policy().QuietPeriod, Fixed: b.retirement.fixedBecause(), Addr: b.s.auditAddr, Logger: b.s.Logger,
	})
	for path, methods := range map[string]map[string]http.HandlerFunc{
		"/admin":               {http.MethodGet: a.Page},
		"/admin/assets/{file}": {http.MethodGet: a.Asset},
		"/admin/openapi.json":  {http.MethodGet: a.Asset},
		"/admin/report":        {http.MethodGet: a.Report},
		"/admin/ledger":        {http.MethodGet: a.Ledger, http.MethodDelete: a.Forgotten},
		"/admin/stage":         {http.MethodGet: a.Stage, http.MethodPut: a.SetStage},
		"/admin/stage/preview": {http.MethodGet: a.Preview},
		"/admin/undo":          {http.MethodPost: a.Undo},
		"/admin/history":       {http.MethodGet: a.History},
		"/admin/exemptions":    {http.MethodPost: a.Exempt, http.MethodDelete: a.Unexempt},
	} {
		by := byMethod{}
		for method, h := range methods {
			by[method] = h
			if method == http.MethodGet {
				by[http.MethodHead] = h
			}
		}
		r.Handle(path, b.operators(by))
	}
	r.Handle("/", byMethod{http.MethodGet: http.HandlerFunc(toConsole), http.MethodHead: http.HandlerFunc(toConsole)})
}

// toConsole sends who opens the listener in a browser to the dashboard.
func toConsole(w http.ResponseWriter, r *http.Request) {
	http.Redirect(w, r, "/admin/", http.StatusSeeOther)
}

// fixedBecause says why the stage cannot be changed; empty: it can.
func (t *retirement) fixedBecause() string {
	switch {
	case !LegacyBuilt:
		return "this build has no HTTP+SSE transport (build tag nolegacy): its routes are gone whatever the stage says"
	case t.fixed:
		return "the HTTP+SSE routes are switched off by configuration (--legacy off): they are gone whatever the stage says"
	}
	return ""
}

// auditAddr is where an operator's request comes from, as the audit log has it: the network, not the address.
func (s *settings) auditAddr(r *http.Request) netip.Prefix {
	addr := s.addr(r)
	bits := auditBits6
	if addr.Is4() {
		bits = auditBits4
	}
	p, err := addr.Prefix(bits)
	if err != nil {
		return netip.Prefix{} // there is no address, as on a Unix socket
	}
	return p
}
