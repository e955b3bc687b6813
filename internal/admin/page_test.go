package admin_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/internal/admin"
	"github.com/mcp-dualstack/bridge/retire"
	"github.com/mcp-dualstack/bridge/telemetry"
)

// A ledger answers what the handlers ask.
type ledger struct {
	report telemetry.Report
	days   []telemetry.DayTotal
	asked  []retire.Stage
}

func newAdmin(t *testing.T, l *ledger) (*admin.Admin, *retire.Keeper) {
	t.Helper()
	k, err := retire.OpenKeeper("", nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := k.Close(); err != nil {
			t.Error(err)
		}
	})
	return admin.New(admin.Options{
		Report: func(target retire.Stage, _ telemetry.Period) (telemetry.Report, error) {
			l.asked = append(l.asked, target)
			return l.report, nil
		},
		Days:   func(int) ([]telemetry.DayTotal, error) { return l.days, nil },
		Forget: func(context.Context, string) error { return nil },
		Keeper: k, Quiet: 30 * telemetry.Day,
	}), k
}

func page(t *testing.T, a *admin.Admin) string {
	t.Helper()
	w := httptest.NewRecorder()
	a.Page(w, httptest.NewRequest(http.MethodGet, "/admin/", nil))
	if w.Code != http.StatusOK {
		t.Fatalf("got %d %s", w.Code, w.Body)
	}
	return w.Body.String()
}

// The page shows at most 500 identities and 50 changes, says how many there are, and asks for one report.
func TestPageIsBounded(t *testing.T) {
	l := &ledger{}
	for i := range 600 {
		l.report.Identities = append(l.report.Identities, telemetry.Identity{ID: fmt.Sprint("id-", i), Label: fmt.Sprint("client-", i)})
	}
	a, k := newAdmin(t, l)
	for i := range 60 {
		stage := retire.Announce
		if i%2 == 1 {
			stage = retire.Open
		}
		if _, err := k.Set(t.Context(), retire.Change{Version: int64(i), State: retire.State{Stage: stage}, Reason: fmt.Sprint("change-", i, ".")}); err != nil {
			t.Fatal(err)
		}
	}
	text := page(t, a)
	if n := strings.Count(text, "<code>id-"); n != 500 || !strings.Contains(text, "500 of 600 identities") {
		t.Errorf("got %d identities", n)
	}
	if n := strings.Count(text, "<bdi>change-"); n != 50 || !strings.Contains(text, "change-59.") || strings.Contains(text, "<bdi>change-9.") {
		t.Errorf("got %d changes, want the newest 50", n)
	}
	if len(l.asked) != 1 {
		t.Errorf("asked for %d reports, want one", len(l.asked))
	}
}

// Each day is a bar of its height on what is below it, in the colour of its transport and revision; what is older than the chart is left out.
func TestCharts(t *testing.T) {
	today := time.Now().UTC().Truncate(24 * time.Hour)
	a, _ := newAdmin(t, &ledger{days: []telemetry.DayTotal{
		{Day: today.AddDate(0, 0, -90), Transport: exchange.HTTPSSE, Revision: "2024-11-05", Sessions: 1000},
		{Day: today, Transport: exchange.HTTPSSE, Revision: "2024-11-05", Sessions: 3},
		{Day: today, Transport: exchange.StreamableHTTP, Revision: "2026-07-28", Sessions: 1, Calls: 1500},
		{Day: today, Transport: exchange.StreamableHTTP, Revision: "", Sessions: 1},
	}})
	text := page(t, a)
	for _, want := range []string{
		`class="l0"`, `height="85.00"><title>` + today.Format(time.DateOnly) + `, HTTP&#43;SSE 2024-11-05: 3</title>`, // 3 of 6, where the scale ends, of 170 units
		`class="sx"`, `Streamable, none agreed <b>1</b>`,
		`class="s4"`, `Streamable 2026-07-28 <b>1500</b>`,
		`>1.5k<`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the page does not have %s", want)
		}
	}
	if strings.Contains(text, "1000") {
		t.Error("a day of 90 days ago is shown")
	}
}

// A preview is about the stage that is asked for, and one of a stage that refuses nobody names nobody.
func TestPreview(t *testing.T) {
	l := &ledger{report: telemetry.Report{Simulation: &telemetry.Simulation{Days: 30, Identities: []telemetry.SimulatedRefusal{{ID: "x", Label: "old", Calls: 2}}}}}
	a, _ := newAdmin(t, l)
	for stage, refused := range map[retire.Stage]int{retire.Warn: 0, retire.Brownout: 1, retire.Closed: 1, retire.Gone: 1} {
		w := httptest.NewRecorder()
		a.Preview(w, httptest.NewRequest(http.MethodGet, "/admin/stage/preview?stage="+string(stage), nil))
		var p struct {
			Stage   retire.Stage
			Checked bool
			Days    int
			Refused []telemetry.SimulatedRefusal
		}
		if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil {
			t.Fatal(err)
		}
		if p.Stage != stage || p.Days != 30 || len(p.Refused) != refused || p.Checked != (refused > 0) {
			t.Errorf("%s: got %+v", stage, p)
		}
		if last := l.asked[len(l.asked)-1]; last != stage {
			t.Errorf("%s: asked about %s", stage, last)
		}
	}
}

// A report that cannot be is the asker's mistake.
func TestReportOfTooMuch(t *testing.T) {
	a, _ := newAdmin(t, &ledger{})
	w := httptest.NewRecorder()
	a.Report(w, httptest.NewRequest(http.MethodGet, "/admin/report?simulate=500d", nil))
	if w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), "500d is longer than the 400d that are kept") {
		t.Errorf("got %d %s, want 400 and the bound", w.Code, w.Body)
	}
}

// Damage has no beginning; it is as long as what was observed.
func TestPageOfADamagedLedger(t *testing.T) {
	to := time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)
	l := &ledger{report: telemetry.Report{Observation: telemetry.Observation{From: to.Add(-48 * time.Hour), To: to,
		Gaps: []telemetry.Gap{{To: to.Add(-24 * time.Hour), Kind: telemetry.GapDamaged}}}}}
	a, _ := newAdmin(t, l)
	if text := page(t, a); !strings.Contains(text, "24h0m0s") || strings.Contains(text, "2562047h") {
		t.Errorf("got no gap of a day in %s", text)
	}
}
