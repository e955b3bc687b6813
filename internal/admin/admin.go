// Package admin is what an operator sees: the admin API and the dashboard (retirement.md 6 and 8).
//
// It routes nothing and keeps nobody out: the root mounts the handlers on the admin listener behind the guard.
package admin

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/netip"

	"github.com/mcp-dualstack/bridge/retire"
	"github.com/mcp-dualstack/bridge/telemetry"
)

// Options are what the handlers show and change. All but Fixed, Addr and Logger must be set.
type Options struct {
	Release string // version of the program

	// Report answers whether the routes can go to the stage target, and, if simulate is set, whom that would have refused in that time.
	Report func(target retire.Stage, simulate telemetry.Period) (telemetry.Report, error)
	// Days returns the use of the last n days by day, transport and revision, oldest first.
	Days func(n int) ([]telemetry.DayTotal, error)
	// Forget removes what the ledger knows of an identity.
	Forget func(ctx context.Context, id string) error
	Keeper *retire.Keeper
	// Quiet is the quiet period of the policy: how far a preview looks back.
	Quiet telemetry.Period

	// Fixed says why the stage cannot be changed, such as a flag that decides it; empty: it can.
	Fixed string
	// Addr returns where a request comes from, as the audit log has it. Nil: it is not recorded.
	Addr func(*http.Request) netip.Prefix

	Logger *slog.Logger // nil is silent
}

// actor is who changes things, in the audit log: there is one admin token, and whoever has it is the operator.
const actor = "admin"

// An Admin has the handlers.
type Admin struct{ o Options }

// New returns the handlers for o.
func New(o Options) *Admin {
	if o.Addr == nil {
		o.Addr = func(*http.Request) netip.Prefix { return netip.Prefix{} }
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &Admin{o: o}
}

// A problem is the body of every answer that is an error.
type problem struct {
	Error string `json:"error"`          // one sentence
	Code  string `json:"code,omitempty"` // stale, not_ready, nothing_to_undo, invalid, fixed, not_found, locked, closed, unreadable
}

// refuse answers with a problem.
func refuse(w http.ResponseWriter, status int, code, text string) {
	answer(w, status, problem{Error: text, Code: code})
}

// answer writes v as JSON with a line break after it.
func answer(w http.ResponseWriter, status int, v any) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	_ = e.Encode(v) // nobody to tell: the client went away
}

// unreadable answers that the ledger or the audit log cannot be read, and logs why.
func (a *Admin) unreadable(w http.ResponseWriter, what string, err error) {
	a.o.Logger.Error("read the "+what, "err", err)
	refuse(w, http.StatusInternalServerError, "unreadable", "the "+what+" cannot be read; the log of the bridge says why")
}
