package bridge_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	bridge "github.com/mcp-dualstack/bridge"
)

// How many reports there are.
const reportCount = 51

var reportRow = regexp.MustCompile(`^\| (R\d\d) \| ([^|]+) \| ([^|]+) \| ([^|]+) \|$`)

// docs/reports.md has a row for each report in order, with an answer, and each of the tests that it names exists.
func TestReportsAreShown(t *testing.T) {
	text, err := os.ReadFile("docs/reports.md")
	if err != nil {
		t.Fatal(err)
	}
	tests := testFunctions(t)
	n := 0
	for line := range strings.Lines(string(text)) {
		row := reportRow.FindStringSubmatch(strings.TrimSpace(line))
		if row == nil {
			if strings.HasPrefix(line, "| R") {
				t.Errorf("no row of a report: %s", line)
			}
			continue
		}
		n++
		if want := fmt.Sprintf("R%02d", n); row[1] != want {
			t.Errorf("got %s, want %s", row[1], want)
		}
		for _, name := range reportTests(t, row[1], row[4]) {
			test, conversation, ok := strings.Cut(name, "/TestConversations/")
			if ok {
				name = test + "/TestConversations"
				if _, err := os.Stat(filepath.Join("testdata/conversations", conversation+".txtar")); err != nil {
					t.Errorf("%s: %v", row[1], err)
				}
			}
			if !tests[name] && (bridge.LegacyBuilt || !strings.HasPrefix(name, "legacy/")) {
				t.Errorf("%s names %s, which is not there", row[1], name)
			}
		}
	}
	if n != reportCount {
		t.Errorf("got %d reports, want %d", n, reportCount)
	}
}

var reportTest = regexp.MustCompile("`([a-z0-9/]+)\\.(Test[A-Za-z0-9]+(?:/[a-z0-9-]+)?)`")

// reportTests returns the tests of a row as folder, a slash and the name.
func reportTests(t *testing.T, report, cell string) []string {
	t.Helper()
	var names []string
	for _, m := range reportTest.FindAllStringSubmatch(cell, -1) {
		folder := m[1]
		if folder == "bridge" {
			folder = "."
		}
		names = append(names, folder+"/"+m[2])
	}
	if len(names) == 0 || strings.TrimSpace(reportTest.ReplaceAllString(cell, "")) != "" {
		t.Errorf("%s: tests are named as `folder.TestName`: %s", report, cell)
	}
	return names
}

// testFunctions returns the tests of all packages of this module, whatever their build tags, as folder, a slash and the name.
func testFunctions(t *testing.T) map[string]bool {
	t.Helper()
	found := map[string]bool{}
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, decl := range f.Decls {
			if fn, ok := decl.(*ast.FuncDecl); ok && fn.Recv == nil && strings.HasPrefix(fn.Name.Name, "Test") && fn.Body != nil && len(fn.Body.List) > 0 {
				found[filepath.ToSlash(filepath.Dir(path))+"/"+fn.Name.Name] = true
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}
