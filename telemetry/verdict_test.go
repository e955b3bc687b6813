package telemetry_test

import (
	"bytes"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/telemetry"
)

// A history is what clients did on days before now.
type history struct {
	observed int // days
	visits   []visit
}

type visit struct {
	client  exchange.Client
	calls   int
	daysAgo int
}

// use lets a client in on days before now.
func (h *history) use(c exchange.Client, calls int, daysAgo ...int) {
	for _, d := range daysAgo {
		h.visits = append(h.visits, visit{c, calls, d})
	}
}

// answer lets it all happen in fake time, and asks.
func (h *history) answer(t *testing.T, q telemetry.Question) (r telemetry.Report) {
	t.Helper()
	slices.SortStableFunc(h.visits, func(a, b visit) int { return b.daysAgo - a.daysAgo })
	synctest.Test(t, func(t *testing.T) {
		l := openLedger(t, "", nil)
		end := time.Now().AddDate(0, 0, h.observed)
		for _, v := range h.visits {
			time.Sleep(time.Until(end.AddDate(0, 0, -v.daysAgo)))
			converse(t, l.Handler(&server{}), v.client, v.calls)
		}
		time.Sleep(time.Until(end))
		var err error
		if r, err = l.Answer(q); err != nil {
			t.Fatal(err)
		}
		closeLedger(t, l)
	})
	return r
}

func codesOf(list []telemetry.Finding) string {
	var out []string
	for _, f := range list {
		out = append(out, f.Code)
	}
	return strings.Join(out, " ")
}

func TestVerdicts(t *testing.T) {
	desk, ci := at(asks(legacyClient("desk"), "2024-11-05"), "10.0.1.1", "node"), at(legacyClient("ci"), "10.0.2.1", "node")
	daily := []int{5, 4, 3, 2, 1}
	until := time.Date(2027, 2, 1, 0, 0, 0, 0, time.UTC)
	tests := []struct {
		name     string
		observed int // days
		uses     func(*history)
		policy   func(*telemetry.Policy)
		target   string
		want     string // verdict: blockers | doubts | warnings
	}{
		{"nobody", 50, nil, nil, "", "ready: | |"},
		{"nobody, young", 44, nil, nil, "", "insufficient: | observation |"},
		{"breaks", 50, func(h *history) { h.use(desk, 1, daily...) }, nil, "", "blocked: breaks | |"},
		{"breaks, young", 9, func(h *history) { h.use(desk, 1, daily...) }, nil, "", "blocked: breaks | observation |"},
		{"needs another URL", 50, func(h *history) { h.use(ci, 1, daily...) }, nil, "", "blocked: new_url | |"},
		{"exempt", 50, func(h *history) { h.use(desk, 1, daily...) },
			func(p *telemetry.Policy) {
				p.Exemptions = []telemetry.Exemption{{ID: "desk@10.0.1.0/24;node", Until: until}}
			}, "", "ready: | | exempt"},
		{"exempt by network", 50, func(h *history) { h.use(desk, 1, daily...) },
			func(p *telemetry.Policy) { p.Exemptions = []telemetry.Exemption{{ID: "@10.0.1.0/24", Until: until}} }, "", "ready: | | exempt"},
		{"exempt no longer", 50, func(h *history) { h.use(desk, 1, daily...) },
			func(p *telemetry.Policy) {
				p.Exemptions = []telemetry.Exemption{{ID: "desk@10.0.1.0/24", Until: time.Date(1999, 11, 1, 0, 0, 0, 0, time.UTC)}}
			}, "", "blocked: breaks | |"},
		{"exempt by one name, no longer by another", 50, func(h *history) { h.use(desk, 1, daily...) },
			func(p *telemetry.Policy) {
				p.Exemptions = []telemetry.Exemption{
					{ID: "desk@10.0.1.0/24;node", Until: time.Date(1999, 11, 1, 0, 0, 0, 0, time.UTC)},
					{ID: "desk@10.0.1.0/24", Until: until},
				}
			}, "", "ready: | | exempt"},
		{"ignored", 50, func(h *history) { h.use(desk, 1, daily...) },
			func(p *telemetry.Policy) {
				p.Attested = []telemetry.Attestation{{ID: "desk@10.0.1.0/24", Class: telemetry.ClassIgnored, Reason: "test machine"}}
			}, "", "ready: | |"},
		{"a class ignored", 50, func(h *history) { h.use(ci, 1, daily...) }, func(p *telemetry.Policy) { p.Ignore = append(p.Ignore, telemetry.ClassCapable) }, "", "ready: | |"},
		{"few tolerated", 50, func(h *history) { h.use(desk, 1, daily...); h.use(over(ci, exchange.StreamableHTTP), 999, 1) },
			func(p *telemetry.Policy) { p.MaxIdentities, p.MaxTrafficShare = 1, 0.01 }, "", "ready: | | tolerated"},
		{"few, but much", 50, func(h *history) { h.use(desk, 1, daily...) },
			func(p *telemetry.Policy) { p.MaxIdentities, p.MaxTrafficShare = 1, 0.01 }, "", "blocked: breaks traffic_share | |"},
		{"little, but many", 50, func(h *history) { h.use(desk, 1, daily...); h.use(ci, 1, daily...) },
			func(p *telemetry.Policy) { p.MaxIdentities, p.MaxTrafficShare = 1, 1 }, "", "blocked: breaks new_url identities | |"},
		{"monthly, just there", 70, func(h *history) { h.use(desk, 1, 60, 30, 1) }, nil, "", "blocked: breaks | | cadence"},
		{"monthly, due", 70, func(h *history) { h.use(desk, 1, 65, 35) }, nil, "", "insufficient: | cadence |"},
		{"monthly, exempt", 70, func(h *history) { h.use(desk, 1, 65, 35) },
			func(p *telemetry.Policy) {
				p.Exemptions = []telemetry.Exemption{{ID: "desk@10.0.1.0/24", Until: until}}
			}, "", "ready: | |"},
		{"seen once", 70, func(h *history) { h.use(desk, 1, 40) }, nil, "", "insufficient: | cadence |"},
		{"seen once, long ago", 70, func(h *history) { h.use(desk, 1, 61) }, nil, "", "ready: | |"},
		{"warn refuses nobody", 9, func(h *history) { h.use(desk, 1, daily...) }, nil, "warn", "ready: | | breaks observation"},
		{"closed refuses", 50, func(h *history) { h.use(desk, 1, daily...) }, nil, "closed", "blocked: breaks | |"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := &history{observed: tt.observed}
			if tt.uses != nil {
				tt.uses(h)
			}
			p := telemetry.DefaultPolicy()
			if tt.policy != nil {
				tt.policy(&p)
			}
			r := h.answer(t, telemetry.Question{Policy: &p, Target: tt.target})
			got := fmt.Sprintf("%s: %s | %s | %s", r.Verdict, codesOf(r.Blockers), codesOf(r.Doubts), codesOf(r.Warnings))
			if got = strings.TrimRight(strings.ReplaceAll(got, "  ", " "), " "); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

// A ledger that was damaged leaves a doubt for as long as what it knew could have mattered.
func TestDamagedIsInsufficient(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ledger.db")
	spoil(t, file, 0, []byte("this is not a database, it is a text of some length"))
	now := time.Now()
	o := &telemetry.Options{}
	telemetry.SetClock(o, func() time.Time { return now })
	r := report(t, openLedger(t, file, o))
	if r.Verdict != telemetry.Insufficient || !hasDoubt(r, telemetry.DoubtDamaged) || r.Observation.Gaps[0].Kind != telemetry.GapDamaged {
		t.Errorf("got %s, %v and gaps %v", r.Verdict, r.Doubts, r.Observation.Gaps)
	}
}

func TestSimulation(t *testing.T) {
	h := &history{observed: 50}
	desk, ci := at(asks(legacyClient("desk"), "2024-11-05"), "10.0.1.1", "node"), at(legacyClient("ci"), "10.0.2.1", "node")
	h.use(desk, 3, 20, 6, 5, 0)
	h.use(ci, 1, 8)
	h.use(over(ci, exchange.StreamableHTTP), 1, 3)
	r := h.answer(t, telemetry.Question{Target: "closed", Simulate: 7 * telemetry.Day})
	want := &telemetry.Simulation{Target: "closed", Days: 7, Sessions: 3, Calls: 9, Identities: []telemetry.SimulatedRefusal{
		{ID: "desk@10.0.1.0/24;node", Label: "desk 1.0", Class: telemetry.ClassUnknown, Sessions: 3, Calls: 9},
	}}
	if diff := cmp.Diff(r.Simulation, want); diff != "" {
		t.Errorf("(- got, + want):\n%s", diff)
	}
	if s := h.answer(t, telemetry.Question{Target: "brownout", Simulate: 7 * telemetry.Day}).Simulation; s.Sessions != 3 || len(s.Identities) != len(want.Identities) {
		t.Errorf("brownout: got %+v, want those of closed", s)
	}
	if s := h.answer(t, telemetry.Question{Target: "warn", Simulate: 7 * telemetry.Day}).Simulation; s.Sessions != 0 {
		t.Errorf("warn: got %+v, want that it refuses nobody", s)
	}
}

// The numbers for a collector are what the linter of Prometheus wants them to be.
func TestPromLint(t *testing.T) {
	h := &history{observed: 50}
	h.use(asks(legacyClient("desk"), "2024-11-05"), 3, 1)
	r := h.answer(t, telemetry.Question{})
	var b bytes.Buffer
	if err := r.WriteProm(&b); err != nil {
		t.Fatal(err)
	}
	served := scrape(t, newSignals(t, &telemetry.SignalOptions{Report: func() (telemetry.Report, error) { return r, nil }}))
	for line := range strings.Lines(b.String()) {
		series, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if series == "#" {
			continue
		}
		n, err := strconv.ParseFloat(value, 64)
		if err != nil {
			t.Fatal(err)
		}
		want(t, served, series, n) // a server says the same under the same name
	}
	for _, line := range []string{`mcp_bridge_retirement_ready{target_stage="gone"} 0`, `mcp_bridge_retirement_blockers{code="breaks"} 1`,
		`mcp_bridge_legacy_identities{class="unknown"} 1`, `mcp_bridge_ledger_identities{kind="client"} 1`, `mcp_bridge_legacy_traffic_ratio 1`} {
		if !strings.Contains(b.String(), line+"\n") {
			t.Errorf("%s is missing", line)
		}
	}
	problems, err := promlint.New(&b).Lint()
	if err != nil || len(problems) > 0 {
		t.Errorf("got %v, %v", problems, err)
	}
}
