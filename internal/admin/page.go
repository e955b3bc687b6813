package admin

import (
	"bytes"
	"cmp"
	"embed"
	"fmt"
	"html/template"
	"net/http"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/retire"
	"github.com/mcp-dualstack/bridge/telemetry"
)

//go:embed page.html page.css page.js icon.svg openapi.json
var files embed.FS

var page = template.Must(template.New("page.html").Funcs(template.FuncMap{
	"day":    func(t time.Time) string { return written(t, time.DateOnly) },
	"minute": func(t time.Time) string { return written(t, "2006-01-02 15:04") },
	"stamp":  func(t time.Time) string { return t.UTC().Format(time.RFC3339) },
}).ParseFS(files, "page.html"))

func written(t time.Time, layout string) string {
	if t.IsZero() {
		return "not set"
	}
	return t.UTC().Format(layout)
}

// What the page shows at most. The report as JSON or CSV has everything.
const (
	maxRows    = 500
	maxChanges = 50
)

// simulated is for how long the page takes the routes to have been off.
const simulated = 7 * telemetry.Day

// A view is what the page shows.
type view struct {
	Release    string
	Now        time.Time
	Report     telemetry.Report
	Verdict    headline
	State      *retire.State
	Damage     string
	Stages     []stageMark
	Windows    []windowRow
	ChartDays  int
	Charts     []chart
	Identities []identityRow
	Known      int
	Simulation *telemetry.Simulation
	LongestGap string
	History    []retire.Record
	Fixed      string // why the stage cannot be changed; empty: it can
}

type headline struct{ Word, Sentence, Next string }

type stageMark struct {
	Name retire.Stage
	When string // past, now, planned or next
	Date string
}

type windowRow struct {
	retire.Window
	Share  int
	Status string
}

type identityRow struct {
	telemetry.Identity
	Who, Also     string
	Asks          string
	Calls, Errors int64
	Gap           string
	Exempt        string
	Evidence      string
}

// Page serves the dashboard.
func (a *Admin) Page(w http.ResponseWriter, _ *http.Request) {
	v, err := a.view()
	if err != nil {
		a.unreadable(w, "ledger", err)
		return
	}
	var body bytes.Buffer
	if err := page.Execute(&body, v); err != nil {
		a.o.Logger.Error("render the dashboard", "err", err)
		refuse(w, http.StatusInternalServerError, "", "the page cannot be rendered; the log of the bridge says why")
		return
	}
	harden(w.Header())
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	_, _ = w.Write(body.Bytes()) // nobody to tell: the client went away
}

// harden keeps everything out of the page that did not come with it.
func harden(h http.Header) {
	h.Set("Content-Security-Policy", "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; object-src 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
}

// Asset serves the files of the page by the last element of the path.
func (a *Admin) Asset(w http.ResponseWriter, r *http.Request) {
	name := path.Base(r.URL.Path)
	kind := map[string]string{
		"page.css": "text/css; charset=utf-8", "page.js": "text/javascript; charset=utf-8", "icon.svg": "image/svg+xml", "openapi.json": "application/json",
	}[name]
	if kind == "" {
		refuse(w, http.StatusNotFound, "not_found", "there is no such file")
		return
	}
	body, err := files.ReadFile(name)
	if err != nil {
		panic("admin: " + name + " is not embedded")
	}
	harden(w.Header())
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Cache-Control", "no-cache")
	_, _ = w.Write(body) // #nosec G705 -- a file of the binary; nobody to tell: the client went away
}

func (a *Admin) view() (*view, error) {
	now := time.Now()
	report, err := a.o.Report(retire.Gone, simulated)
	if err != nil {
		return nil, err
	}
	days, err := a.o.Days(chartDays)
	if err != nil {
		return nil, err
	}
	history, err := a.o.Keeper.History()
	if err != nil {
		return nil, err
	}
	state := a.o.Keeper.State()
	v := &view{
		Release: a.o.Release, Now: now, Report: report, State: state, Simulation: report.Simulation,
		Stages: stageMarks(state, history), Windows: windowRows(state, now), ChartDays: chartDays, Known: len(report.Identities), LongestGap: longestGap(report), Fixed: a.o.Fixed,
		Verdict: headlineOf(report),
		Charts: []chart{
			newChart("Sessions and stateless requests per day", days, now, func(d telemetry.DayTotal) int64 { return d.Sessions }),
			newChart("Calls per day", days, now, func(d telemetry.DayTotal) int64 { return d.Calls }),
		},
	}
	if err := a.o.Keeper.Damage(); err != nil {
		v.Damage = err.Error()
	}
	for _, id := range report.Identities[:min(len(report.Identities), maxRows)] {
		v.Identities = append(v.Identities, newIdentityRow(id, now))
	}
	slices.Reverse(history)
	v.History = history[:min(len(history), maxChanges)]
	return v, nil
}

func headlineOf(r telemetry.Report) headline {
	h := headline{Word: strings.ToUpper(string(r.Verdict)), Next: r.Next()}
	switch r.Verdict {
	case telemetry.Ready:
		h.Sentence = "Nobody who counts would break."
	case telemetry.Blocked:
		h.Sentence = count(len(r.Blockers), "reason", "reasons") + " why the legacy routes cannot go yet."
	default:
		h.Sentence = "It cannot be told yet: " + count(len(r.Doubts), "doubt", "doubts") + "."
	}
	return h
}

func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprint(n, " ", many)
}

// stageMarks puts dates to the stages: when each was last reached, or when it is scheduled.
func stageMarks(s *retire.State, history []retire.Record) []stageMark {
	reached := make(map[retire.Stage]time.Time)
	for _, r := range history {
		if r.From != r.To {
			reached[r.To] = r.Time
		}
	}
	planned := make(map[retire.Stage]time.Time)
	for _, st := range s.Schedule {
		planned[st.Stage] = st.At
	}
	var out []stageMark
	for _, st := range retire.Stages() {
		m := stageMark{Name: st, When: "next"}
		switch {
		case st == s.Stage:
			m.When = "now"
		case s.Stage.After(st):
			m.When = "past"
		}
		if t := reached[st]; !t.IsZero() && s.Stage.Reached(st) {
			m.Date = written(t, time.DateOnly)
		}
		if t := planned[st]; !t.IsZero() && !s.Stage.Reached(st) {
			m.When, m.Date = "planned", "planned "+written(t, time.DateOnly)
		}
		out = append(out, m)
	}
	return out
}

func windowRows(s *retire.State, now time.Time) []windowRow {
	var out []windowRow
	for _, w := range s.Brownouts {
		row := windowRow{Window: w, Share: w.Percent, Status: "to come"}
		if row.Share == 0 {
			row.Share = 100
		}
		switch {
		case w.Aborted != "":
			row.Status = "aborted: " + w.Aborted
		case !now.Before(w.Until):
			row.Status = "over"
		case !now.Before(w.From):
			row.Status = "active"
		}
		out = append(out, row)
	}
	return out
}

func longestGap(r telemetry.Report) string {
	var longest time.Duration
	for _, g := range r.Observation.Gaps {
		longest = max(longest, g.To.Sub(cmp.Or(g.From, r.Observation.From))) // damage is from the beginning on
	}
	if longest == 0 {
		return ""
	}
	return longest.Round(time.Minute).String()
}

func newIdentityRow(id telemetry.Identity, now time.Time) identityRow {
	legacy := id.Transports[exchange.HTTPSSE]
	row := identityRow{
		Identity: id, Who: id.Label, Asks: strings.Join(id.Requested, ", "), Calls: legacy.Calls, Errors: legacy.Errors,
	}
	if row.Who == "" {
		row.Who = "(no name given)"
	}
	if id.Prefix != "" {
		row.Also = id.Prefix
	}
	if id.Cadence.LongestGapDays > 0 {
		row.Gap = fmt.Sprint(id.Cadence.LongestGapDays, " d")
	}
	if !id.ExemptUntil.IsZero() {
		row.Exempt = "until " + written(id.ExemptUntil, time.DateOnly)
		if now.After(id.ExemptUntil) {
			row.Exempt = "was " + row.Exempt
		}
	}
	var signs []string
	for _, s := range id.Evidence {
		signs = append(signs, s.Kind)
	}
	row.Evidence = strings.Join(signs, ", ")
	return row
}
