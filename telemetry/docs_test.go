package telemetry_test

import (
	"context"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/telemetry"
)

// document returns docs/telemetry.md.
func document(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../docs/telemetry.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// section returns what stands below a heading until the next one.
func section(t *testing.T, doc, heading string) string {
	t.Helper()
	_, rest, ok := strings.Cut(doc, "\n"+heading+"\n")
	if !ok {
		t.Fatalf("docs/telemetry.md has no section %q", heading)
	}
	end := regexp.MustCompile(`(?m)^#+ `).FindStringIndex(rest)
	if end == nil {
		return rest
	}
	return rest[:end[0]]
}

// rows returns the cells of the tables of a section whose first cell is code.
func rows(text string) [][]string {
	var out [][]string
	for line := range strings.Lines(text) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		if strings.HasPrefix(cells[0], "`") {
			out = append(out, cells)
		}
	}
	return out
}

// names returns the first cells, sorted.
func names(text string) []string {
	var out []string
	for _, cells := range rows(text) {
		out = append(out, strings.Trim(cells[0], "`"))
	}
	slices.Sort(out)
	return out
}

func same(t *testing.T, what string, documented, code []string) {
	t.Helper()
	slices.Sort(code)
	if diff := cmp.Diff(documented, slices.Compact(code)); diff != "" {
		t.Errorf("%s: the document (-) and the code (+) differ:\n%s", what, diff)
	}
}

// A family is one metric as it is scraped.
type family struct {
	kind   string
	labels map[string]bool // true: every series has it
}

// families reads a scrape, without what the client library says of the process.
func families(text string) map[string]*family {
	out := map[string]*family{}
	counts := map[string]int{}
	seen := map[string]map[string]int{}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if rest, ok := strings.CutPrefix(line, "# TYPE "); ok {
			name, kind, _ := strings.Cut(rest, " ")
			out[name] = &family{kind: kind, labels: map[string]bool{}}
			continue
		}
		if strings.HasPrefix(line, "#") {
			continue
		}
		series, _, _ := cutLast(line, " ")
		name, labels, _ := strings.Cut(series, "{")
		if _, ok := out[name]; !ok {
			name = strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(name, "_bucket"), "_sum"), "_count")
		}
		counts[name]++
		if seen[name] == nil {
			seen[name] = map[string]int{}
		}
		for _, m := range labelName.FindAllStringSubmatch(labels, -1) {
			if m[1] != "le" {
				seen[name][m[1]]++
			}
		}
	}
	for name, f := range out {
		for label, n := range seen[name] {
			f.labels[label] = n == counts[name]
		}
		if strings.HasPrefix(name, "go_") || strings.HasPrefix(name, "process_") || strings.HasPrefix(name, "promhttp_") {
			delete(out, name)
		}
	}
	return out
}

var labelName = regexp.MustCompile(`([a-z_]+)="(?:[^"\\]|\\.)*"`)

// Every metric is in the document with its type and labels, and the document has no others.
func TestMetricsAreDocumented(t *testing.T) {
	s := full(t)
	exercise(t, s)
	everyLabel(t, s)
	scraped := families(scrape(t, s))
	table := section(t, document(t), "## Metrics")
	var code []string
	for name := range scraped {
		code = append(code, name)
	}
	same(t, "metrics", names(table), code)
	for _, cells := range rows(table) {
		name := strings.Trim(cells[0], "`")
		f := scraped[name]
		if f == nil || len(cells) < 3 {
			continue
		}
		if cells[1] != f.kind {
			t.Errorf("%s: the document says %s, it is a %s", name, cells[1], f.kind)
		}
		var documented, has []string
		for label := range strings.SplitSeq(cells[2], ",") {
			if label = strings.NewReplacer("`", "", " ", "", "[", "", "]", "").Replace(label); label != "" {
				documented = append(documented, label)
			}
		}
		for label, always := range f.labels {
			has = append(has, label)
			if !always && !strings.Contains(cells[2], "[`"+label+"`]") {
				t.Errorf("%s: %s is not in every series and not in brackets", name, label)
			}
		}
		slices.Sort(documented)
		same(t, name, documented, has)
	}
}

func TestObservationsAreDocumented(t *testing.T) {
	same(t, "kinds of observations", names(section(t, document(t), "### Kinds of observations")), constants(t, "../exchange", "Seen"))
	for _, kind := range constants(t, "../exchange", "Seen") {
		s := newSignals(t, nil)
		s.Observe(exchange.Observation{Kind: kind, Transport: exchange.HTTPSSE})
		want(t, scrape(t, s), `mcp_bridge_observations_total{kind="`+kind+`",transport="http_sse"}`, 1)
	}
}

// constants returns the values of the string constants of a package whose names begin with prefix.
func constants(t *testing.T, dir, prefix string) []string {
	t.Helper()
	var out []string
	for _, f := range sources(t, dir) {
		ast.Inspect(f, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok {
				return true
			}
			for i, name := range spec.Names {
				if strings.HasPrefix(name.Name, prefix) && i < len(spec.Values) {
					if s, ok := literal(spec.Values[i]); ok {
						out = append(out, s)
					}
				}
			}
			return true
		})
	}
	if len(out) == 0 {
		t.Fatalf("%s has no constants %s...", dir, prefix)
	}
	return out
}

func literal(e ast.Expr) (string, bool) {
	l, ok := e.(*ast.BasicLit)
	if !ok || l.Kind != token.STRING {
		return "", false
	}
	s, err := strconv.Unquote(l.Value)
	return s, err == nil
}

// sources parses the files of a folder that are no tests.
func sources(t *testing.T, dir string) []*ast.File {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if len(files) == 0 && dir == "../legacy" {
		t.Skip("SKIPPING: the transport has been deleted, and what only it has is in the document all the same")
	}
	if err != nil || len(files) == 0 {
		t.Fatalf("no files in %s: %v", dir, err)
	}
	var out []*ast.File
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, f)
	}
	return out
}

// Every bound that can be told is in the document.
func TestBoundsAreDocumented(t *testing.T) {
	var code []string
	for _, dir := range []string{"../upstream", "../translate", "../internal/guard"} {
		code = append(code, constants(t, dir, "Bound")...)
	}
	for _, dir := range []string{".", ".."} {
		code = append(code, constants(t, dir, "bound")...)
	}
	name := regexp.MustCompile(`^max_[a-z_]+$`)
	for _, dir := range []string{"../legacy", "../streamable", "../internal/session"} {
		for _, f := range sources(t, dir) {
			ast.Inspect(f, func(n ast.Node) bool {
				if e, ok := n.(ast.Expr); ok {
					if s, ok := literal(e); ok && name.MatchString(s) {
						code = append(code, s)
					}
				}
				return true
			})
		}
	}
	same(t, "bounds", names(section(t, document(t), "### Bounds")), code)
}

// Every event of the log is in the document. Events are told from other words by what they begin with.
func TestEventsAreDocumented(t *testing.T) {
	code := []string{telemetry.EventCall, telemetry.EventAsked}
	event := regexp.MustCompile(`^(legacy|upgrade|same_url|retire|ledger)(\.[a-z_]+)+$`)
	for _, dir := range []string{".", "..", "../retire", "../cmd/bridge", "../upstream", "../legacy", "../streamable", "../translate", "../internal/guard"} {
		for _, f := range sources(t, dir) {
			ast.Inspect(f, func(n ast.Node) bool {
				if e, ok := n.(ast.Expr); ok {
					if s, ok := literal(e); ok && event.MatchString(s) && s != "ledger.db" {
						code = append(code, s)
					}
				}
				return true
			})
		}
	}
	same(t, "log events", names(section(t, document(t), "## Log events")), code)
}

// Every member of a report is in the document, under the name of its type.
func TestReportIsDocumented(t *testing.T) {
	doc := document(t)
	_, doc, _ = strings.Cut(doc, "\n## The report\n")
	seen := map[reflect.Type]bool{}
	var visit func(reflect.Type)
	visit = func(r reflect.Type) {
		switch r.Kind() {
		case reflect.Pointer, reflect.Slice, reflect.Map:
			visit(r.Elem())
			return
		case reflect.Struct:
		default:
			return
		}
		if seen[r] || r == reflect.TypeFor[time.Time]() {
			return
		}
		seen[r] = true
		var members []string
		for i := range r.NumField() {
			f := r.Field(i)
			visit(f.Type)
			if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" && name != "-" {
				members = append(members, name)
			}
		}
		same(t, r.Name(), names(section(t, doc, "### "+r.Name())), members)
	}
	visit(reflect.TypeFor[telemetry.Report]())
}

// everyLabel makes series with labels that few have.
func everyLabel(t *testing.T, s *telemetry.Signals) {
	t.Helper()
	end := make(chan struct{})
	close(end)
	up := &server{call: func(context.Context) (exchange.Response, error) {
		return exchange.Response{Error: &exchange.Error{Code: -32602}}, nil
	}}
	sess, err := s.Served(s.Upstream(ended{up, end})).Open(t.Context(), legacyClient("c"))
	if err != nil {
		t.Fatal(err)
	}
	for _, req := range []exchange.Request{call("echo"), {Method: "prompts/get", Params: []byte(`{"name":"greet"}`)}} {
		if _, err := sess.Call(t.Context(), req, nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := sess.Close(); err != nil {
		t.Fatal(err)
	}
	s.Bound("", "leases")
}

// ended is a handler whose sessions have ended by themselves.
type ended struct {
	exchange.Handler
	done chan struct{}
}

func (h ended) Open(ctx context.Context, c exchange.Client) (exchange.Session, error) {
	sess, err := h.Handler.Open(ctx, c)
	return endedSession{sess, h.done}, err
}

type endedSession struct {
	exchange.Session
	done chan struct{}
}

func (s endedSession) Done() <-chan struct{} { return s.done }
