package admin

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strconv"

	"github.com/mcp-dualstack/bridge/retire"
	"github.com/mcp-dualstack/bridge/telemetry"
)

// Report answers GET /admin/report?stage=STAGE&simulate=7d&output=json|text|csv|prom|junit: can the legacy routes go, and
// who breaks (retirement.md 5). All parameters may be left out.
func (a *Admin) Report(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	target, simulate, err := asked(q.Get("stage"), q.Get("simulate"))
	if err != nil {
		refuse(w, http.StatusBadRequest, "invalid", err.Error())
		return
	}
	format, kind := q.Get("output"), ""
	write := map[string]func(telemetry.Report, io.Writer) error{
		"json":  telemetry.Report.WriteJSON,
		"csv":   telemetry.Report.WriteCSV,
		"prom":  telemetry.Report.WriteProm,
		"junit": telemetry.Report.WriteJUnit,
		"text":  func(r telemetry.Report, w io.Writer) error { return r.WriteText(w, nil) },
	}
	switch format {
	case "", "json":
		format, kind = "json", "application/json"
	case "csv":
		kind = "text/csv; charset=utf-8"
	case "junit":
		kind = "application/xml"
	case "prom", "text":
		kind = "text/plain; charset=utf-8"
	default:
		refuse(w, http.StatusBadRequest, "invalid", "output: "+strconv.Quote(format)+" is not json, text, csv, prom or junit")
		return
	}
	report, err := a.o.Report(target, simulate)
	var body bytes.Buffer
	if err == nil {
		err = write[format](report, &body)
	}
	if err != nil {
		a.unreadable(w, "ledger", err)
		return
	}
	h := w.Header()
	h.Set("Content-Type", kind)
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	_, _ = w.Write(body.Bytes()) // nobody to tell: the client went away
}

// asked reads the stage a report is about and the period to simulate; empty: gone and none.
func asked(stage, simulate string) (retire.Stage, telemetry.Period, error) {
	target, period := retire.Gone, telemetry.Period(0)
	var errs []error
	if stage != "" {
		s, err := retire.ParseStage(stage)
		target, errs = s, append(errs, err)
	}
	if simulate != "" {
		p, err := telemetry.ParsePeriod(simulate)
		period, errs = p, append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return target, period, err
	}
	return target, period, telemetry.Question{Target: string(target), Simulate: period}.Check()
}

// Ledger answers GET /admin/ledger with the identities of the report.
func (a *Admin) Ledger(w http.ResponseWriter, _ *http.Request) {
	report, err := a.o.Report(retire.Gone, 0)
	if err != nil {
		a.unreadable(w, "ledger", err)
		return
	}
	answer(w, http.StatusOK, struct {
		Identities []telemetry.Identity `json:"identities"`
	}{report.Identities})
}

// Forgotten answers DELETE /admin/ledger?id=ID: what is known of the identity is removed.
func (a *Admin) Forgotten(w http.ResponseWriter, r *http.Request) {
	id := r.URL.Query().Get("id")
	if id == "" {
		refuse(w, http.StatusBadRequest, "invalid", "id: which identity? its id is in GET /admin/ledger")
		return
	}
	switch err := a.o.Forget(r.Context(), id); {
	case errors.Is(err, telemetry.ErrUnknown):
		refuse(w, http.StatusNotFound, "not_found", "id: the ledger knows nobody by "+strconv.Quote(id))
	case err != nil:
		a.unreadable(w, "ledger", err)
	default:
		w.WriteHeader(http.StatusNoContent)
	}
}

// History answers GET /admin/history with the audit log, oldest first, and with verify=true whether it is what was written.
func (a *Admin) History(w http.ResponseWriter, r *http.Request) {
	out := struct {
		Records      []retire.Record      `json:"records"`
		Verification *retire.Verification `json:"verification,omitempty"`
	}{Records: []retire.Record{}}
	records, err := a.o.Keeper.History()
	if err == nil && r.URL.Query().Get("verify") == "true" {
		out.Verification, err = a.o.Keeper.Verify()
	}
	if err != nil {
		a.unreadable(w, "audit log", err)
		return
	}
	out.Records = append(out.Records, records...)
	answer(w, http.StatusOK, out)
}
