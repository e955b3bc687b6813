package bridge_test

import (
	"errors"
	"fmt"
	"go/build"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/mcp-dualstack/bridge"

// A rule says what a package may import; the standard library always.
type rule struct {
	own    []string // packages of this module, by their path in it; "." is the root
	others []string // packages or modules of others, with everything below them
	by     []string // who may import it; empty: everybody whose own rule lets them
}

const (
	jsontext      = "github.com/go-json-experiment/json/jsontext"
	lru           = "github.com/hashicorp/golang-lru/v2"
	gosdk         = "github.com/modelcontextprotocol/go-sdk"
	opentelemetry = "go.opentelemetry.io/otel"
)

// importTable is the table of design/architecture.md, section 2. Packages that are not built yet are in it, so that they
// begin with their rule.
var importTable = map[string]rule{
	"internal/jsonrpc": {others: []string{jsontext}},
	"internal/sse":     {others: []string{jsontext}},
	"retire":           {others: []string{"github.com/fsnotify/fsnotify"}},
	"negotiate":        {own: []string{"internal/jsonrpc"}},
	"exchange":         {own: []string{"internal/jsonrpc", "negotiate"}},
	"internal/session": {own: []string{"exchange", "negotiate", "internal/jsonrpc"}, by: []string{"legacy", "streamable"}},
	"internal/hijack":  {by: []string{"."}},
	"internal/pulse":   {by: []string{"legacy", "streamable"}},
	"translate":        {own: []string{"exchange", "negotiate", "internal/jsonrpc"}, others: []string{lru, jsontext}}, // canonical strings of digests
	"legacy":           {own: transportMay, others: []string{lru}, by: []string{"."}},
	"streamable":       {own: transportMay, others: []string{lru}, by: []string{"."}},
	"upstream":         {own: []string{"exchange", "negotiate", "internal/jsonrpc", "internal/sse"}, others: []string{lru}},
	"telemetry": {
		own:    []string{"exchange", "negotiate"},
		others: []string{lru, opentelemetry, "github.com/prometheus/client_golang", "github.com/Masterminds/semver/v3", "modernc.org/sqlite"},
	},
	"internal/guard": {others: []string{
		"github.com/coreos/go-oidc/v3", gosdk + "/auth", "github.com/rs/cors", "github.com/realclientip/realclientip-go", "golang.org/x/time/rate",
	}},
	"internal/cluster": {others: []string{"github.com/redis/go-redis/v9"}},
	"internal/admin":   {own: []string{"telemetry", "retire", "exchange"}},
	".": {
		own: []string{
			"internal/jsonrpc", "internal/sse", "retire", "negotiate", "exchange", "translate", "legacy", "streamable", "upstream",
			"telemetry", "internal/guard", "internal/cluster", "internal/admin", "internal/hijack",
		},
		others: []string{"github.com/gorilla/mux"},
		by:     []string{"cmd/bridge"},
	},
	"cmd/bridge": {
		own: []string{".", "upstream", "telemetry", "retire", "cmd/bridge/demo"},
		others: []string{
			"github.com/spf13/cobra", "github.com/knadh/koanf", "github.com/lmittmann/tint", opentelemetry,
			"github.com/pires/go-proxyproto",               // of connections that a proxy passes on
			"github.com/spf13/pflag", "go.yaml.in/yaml/v3", // what cobra and koanf are made of: the types of flags, the lines of a file
		},
		by: []string{"nobody"},
	},
	"cmd/bridge/demo": {others: []string{gosdk}, by: []string{"cmd/bridge"}},

	// For tests only.
	"exchange/exchangetest": {own: []string{"exchange", "negotiate", "internal/jsonrpc"}, others: []string{"github.com/google/go-cmp"}, by: []string{"nobody"}},
	"internal/issuertest":   {own: []string{"internal/memhttp"}, others: []string{"github.com/go-jose/go-jose/v4"}, by: []string{"nobody"}},
	"internal/memhttp":      {by: []string{"internal/issuertest"}},
	"internal/schematest":   {own: []string{"exchange", "negotiate", "internal/jsonrpc"}, others: []string{"github.com/google/jsonschema-go"}, by: []string{"nobody"}},
	"test/harness":          {by: []string{"nobody"}},
	"test/streams/server":   {by: []string{"nobody"}},
}

var transportMay = []string{"exchange", "negotiate", "internal/jsonrpc", "internal/sse", "internal/session", "internal/pulse"}

// A node is one package with what its files that are no tests import.
type node struct {
	path    string // in the module; "." is the root
	imports []string
}

// violations returns what breaks the table, one sentence each.
func violations(table map[string]rule, nodes []node) []string {
	var out []string
	for _, n := range nodes {
		r, ok := table[n.path]
		if !ok {
			out = append(out, n.path+" is not in the import table")
			continue
		}
		for _, imp := range n.imports {
			if own, ok := inModule(imp); ok {
				by := table[own].by
				if !slices.Contains(r.own, own) || len(by) > 0 && !slices.Contains(by, n.path) {
					out = append(out, fmt.Sprintf("%s must not import %s", n.path, own))
				}
			} else if !isStandard(imp) && !slices.ContainsFunc(r.others, func(p string) bool { return imp == p || strings.HasPrefix(imp, p+"/") }) {
				out = append(out, fmt.Sprintf("%s must not import %s", n.path, imp))
			}
		}
	}
	return out
}

// inModule returns an import path of this module as a path in it.
func inModule(imp string) (string, bool) {
	if imp == module {
		return ".", true
	}
	return strings.CutPrefix(imp, module+"/")
}

func isStandard(imp string) bool {
	first, _, _ := strings.Cut(imp, "/")
	return !strings.Contains(first, ".")
}

// packages reads the packages of this module as they are built with tags. Folders with a go.mod of their own
// are other modules.
func packages(t *testing.T, tags ...string) []node {
	t.Helper()
	ctx := build.Default
	ctx.BuildTags = tags
	var nodes []node
	err := filepath.WalkDir(".", func(dir string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		if name := d.Name(); dir != "." && (strings.HasPrefix(name, ".") || name == "testdata" || name == "node_modules" || isModule(dir)) {
			return filepath.SkipDir
		}
		p, err := ctx.ImportDir(dir, 0)
		if _, none := errors.AsType[*build.NoGoError](err); none {
			return nil
		}
		if err != nil {
			return err
		}
		if len(p.GoFiles) > 0 {
			nodes = append(nodes, node{filepath.ToSlash(dir), p.Imports})
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return nodes
}

func isModule(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "go.mod"))
	return err == nil
}

func TestImports(t *testing.T) {
	for _, tags := range [][]string{nil, {"nolegacy"}} {
		t.Run(strings.Join(append([]string{"build"}, tags...), " "), func(t *testing.T) {
			nodes := packages(t, tags...)
			if !slices.ContainsFunc(nodes, func(n node) bool { return n.path == "." && slices.Contains(n.imports, module+"/exchange") }) {
				t.Fatal("the root and its imports were not found, so nothing was checked")
			}
			for _, v := range violations(importTable, nodes) {
				t.Error(v)
			}
		})
	}
}

// One file of the normal build knows legacy/, and none of the other.
func TestLegacyCanBeDeleted(t *testing.T) {
	for _, n := range packages(t, "nolegacy") {
		if n.path != "legacy" && slices.Contains(n.imports, module+"/legacy") {
			t.Errorf("%s imports legacy in a build with the tag nolegacy", n.path)
		}
	}
	ctx := build.Default
	p, err := ctx.ImportDir(".", 0)
	if err != nil {
		t.Fatal(err)
	}
	var files []string
	for _, pos := range p.ImportPos[module+"/legacy"] {
		files = append(files, filepath.Base(pos.Filename))
	}
	if want := []string{"routes_legacy.go"}; !slices.Equal(files, want) {
		t.Errorf("files that import legacy: got %v, want %v", files, want)
	}
}

// The checker must be able to fail.
func TestViolations(t *testing.T) {
	tests := []struct {
		name string
		node node
		want []string
	}{
		{"nothing wrong", node{"negotiate", []string{"fmt", "net/http", module + "/internal/jsonrpc"}}, nil},
		{"transports know each other", node{"legacy", []string{module + "/streamable"}}, []string{"legacy must not import streamable"}},
		{"a transport knows the ledger", node{"streamable", []string{module + "/telemetry"}}, []string{"streamable must not import telemetry"}},
		{"a transport behind another's back", node{"upstream", []string{module + "/internal/session"}}, []string{"upstream must not import internal/session"}},
		{"somebody imports the root", node{"telemetry", []string{module}}, []string{"telemetry must not import ."}},
		{"a router below the root", node{"legacy", []string{"github.com/gorilla/mux"}}, []string{"legacy must not import github.com/gorilla/mux"}},
		{"a log handler below the root", node{"exchange", []string{"github.com/lmittmann/tint"}}, []string{"exchange must not import github.com/lmittmann/tint"}},
		{"more of a module than allowed", node{"internal/sse", []string{"github.com/go-json-experiment/json"}}, []string{"internal/sse must not import github.com/go-json-experiment/json"}},
		{"a name that only begins alike", node{"retire", []string{"github.com/fsnotify/fsnotify2"}}, []string{"retire must not import github.com/fsnotify/fsnotify2"}},
		{"test support in the product", node{"upstream", []string{module + "/internal/memhttp"}}, []string{"upstream must not import internal/memhttp"}},
		{"a package without a rule", node{"util", nil}, []string{"util is not in the import table"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := violations(importTable, []node{tt.node}); !slices.Equal(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}
