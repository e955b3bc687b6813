package telemetry_test

import (
	"bytes"
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// A ruleFile is a file of alert rules as Prometheus reads it.
type ruleFile struct {
	Groups []struct {
		Name  string `yaml:"name"`
		Rules []struct {
			Alert       string            `yaml:"alert"`
			Expr        string            `yaml:"expr"`
			For         string            `yaml:"for"`
			Labels      map[string]string `yaml:"labels"`
			Annotations map[string]string `yaml:"annotations"`
		} `yaml:"rules"`
	} `yaml:"groups"`
}

// known are the metrics that there are, with every suffix that a query may name.
func known(t *testing.T) map[string]*family {
	t.Helper()
	s := full(t)
	exercise(t, s)
	everyLabel(t, s)
	out := map[string]*family{}
	for name, f := range families(scrape(t, s)) {
		if f.kind != "histogram" {
			out[name] = f
			continue
		}
		for _, suffix := range []string{"_bucket", "_sum", "_count"} {
			out[name+suffix] = f
		}
	}
	return out
}

var (
	selector = regexp.MustCompile(`\b(mcp_[a-z_]+)(?:\{([^}]*)\})?`)
	matcher  = regexp.MustCompile(`([a-z_]+)\s*[=!]~?\s*"`)
	grouping = regexp.MustCompile(`\b(?:by|without|on)\s*\(([^)]*)\)`)
)

// scraped are the labels that a collector adds.
var scraped = []string{"job", "instance", "le"}

// checkQuery reports what a query names that is not there.
func checkQuery(t *testing.T, where, query string, metrics map[string]*family) {
	t.Helper()
	labels := map[string]bool{}
	for _, m := range grouping.FindAllStringSubmatch(query, -1) {
		for label := range strings.SplitSeq(m[1], ",") {
			labels[strings.TrimSpace(label)] = true
		}
	}
	found := 0
	for _, m := range selector.FindAllStringSubmatch(grouping.ReplaceAllString(query, " "), -1) {
		f := metrics[m[1]]
		if f == nil {
			t.Errorf("%s: there is no metric %s", where, m[1])
			continue
		}
		found++
		for _, l := range matcher.FindAllStringSubmatch(m[2], -1) {
			if _, ok := f.labels[l[1]]; !ok && !slices.Contains(scraped, l[1]) {
				t.Errorf("%s: %s has no label %s", where, m[1], l[1])
			}
		}
		for label := range labels {
			if _, ok := f.labels[label]; !ok && !slices.Contains(scraped, label) && label != "" {
				t.Errorf("%s: %s has no label %s", where, m[1], label)
			}
		}
	}
	if found == 0 {
		t.Errorf("%s: asks for no metric: %s", where, query)
	}
	if strings.Count(query, "(") != strings.Count(query, ")") {
		t.Errorf("%s: brackets do not match: %s", where, query)
	}
}

func TestAlertsNameWhatThereIs(t *testing.T) {
	text, err := os.ReadFile("../docs/alerts.yml")
	if err != nil {
		t.Fatal(err)
	}
	var file ruleFile
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	if err := d.Decode(&file); err != nil {
		t.Fatal(err)
	}
	metrics := known(t)
	alerts := map[string]bool{}
	for _, g := range file.Groups {
		for _, r := range g.Rules {
			checkQuery(t, r.Alert, r.Expr, metrics)
			if r.Labels["severity"] == "" || r.Annotations["summary"] == "" || r.Annotations["description"] == "" || alerts[r.Alert] {
				t.Errorf("%s: needs a name of its own, a severity, a summary and a description", r.Alert)
			}
			alerts[r.Alert] = true
		}
	}
	// Those of retirement.md 7.
	for _, name := range []string{
		"LegacyUseNearSunset", "LegacyHandshakeAfterClosed", "ExemptIdentityRefused", "RetirementStateSkew", "LedgerNotWritten", "EvidenceInsufficientBeforeStep",
	} {
		if !alerts[name] {
			t.Errorf("there is no alert %s", name)
		}
	}
}

func TestDashboardShowsWhatThereIs(t *testing.T) {
	text, err := os.ReadFile("../docs/grafana.json")
	if err != nil {
		t.Fatal(err)
	}
	var board struct {
		Panels []struct {
			ID      int
			Title   string
			Type    string
			GridPos struct{ X, Y, W, H int }
			Targets []struct{ Expr, RefID string }
		}
		Templating struct {
			List []struct{ Name, Definition string }
		}
	}
	if err := json.Unmarshal(text, &board); err != nil {
		t.Fatal(err)
	}
	metrics := known(t)
	ids, panels := map[int]bool{}, 0
	for _, p := range board.Panels {
		if ids[p.ID] || p.GridPos.X+p.GridPos.W > 24 {
			t.Errorf("%s: the id is taken, or it does not fit", p.Title)
		}
		ids[p.ID] = true
		if p.Type == "row" {
			continue
		}
		panels++
		if len(p.Targets) == 0 {
			t.Errorf("%s: shows nothing", p.Title)
		}
		for _, target := range p.Targets {
			checkQuery(t, p.Title, target.Expr, metrics)
		}
	}
	for _, v := range board.Templating.List {
		if v.Name == "job" {
			checkQuery(t, "variable job", v.Definition, metrics)
		}
	}
	if panels < 10 {
		t.Errorf("got %d panels, want a dashboard", panels)
	}
}

// The check must be able to fail.
func TestCheckQuery(t *testing.T) {
	metrics := map[string]*family{"mcp_a_total": {kind: "counter", labels: map[string]bool{"x": true}}}
	for query, ok := range map[string]bool{
		`sum by (x) (rate(mcp_a_total{x="1",job="j"}[5m]))`: true,
		`rate(mcp_b_total[5m])`:                             false,
		`rate(mcp_a_total{y="1"}[5m])`:                      false,
		`sum by (z) (mcp_a_total)`:                          false,
		`sum(mcp_a_total`:                                   false,
		`vector(1)`:                                         false,
	} {
		var inner testing.T
		checkQuery(&inner, "query", query, metrics)
		if inner.Failed() == ok {
			t.Errorf("%s: got failed %v", query, inner.Failed())
		}
	}
}
