// Package retirement shows what real published clients print at each stage of the retirement of the HTTP+SSE routes
// (retirement.md 2 and 6): npm and Go packages as they are, the real bridge program, real sockets, and the state document changed under it.
//
// The clients are installed by ci (make retirement), which passes -clients; without it the tests are skipped.
package retirement

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/mcp-dualstack/bridge/test/harness"
)

var installed = flag.String("clients", "", "folder with the installed clients: node/ and the program clients")

var bridgeProgram string // built by TestMain

func TestMain(m *testing.M) {
	flag.Parse()
	if *installed == "" || testing.Short() {
		os.Exit(m.Run())
	}
	// Subtests that run in parallel here wait; they do not compute.
	if err := flag.Set("test.parallel", "64"); err != nil {
		panic(err)
	}
	dir, err := os.MkdirTemp("", "bridge-retirement-")
	if err != nil {
		fmt.Fprintln(os.Stderr, "retirement:", err)
		os.Exit(1)
	}
	bridgeProgram = filepath.Join(dir, "bridge")
	code := 1
	if err := harness.Build(bridgeProgram, harness.Bridge); err != nil {
		fmt.Fprintln(os.Stderr, "retirement:", err)
	} else {
		code = m.Run()
		results.print()
	}
	os.RemoveAll(dir)
	os.Exit(code)
}

// A table gathers what each client did at each stage.
type table struct {
	mu      sync.Mutex
	columns []string
	cells   map[string]map[string]string // by client and column
}

var results = &table{cells: map[string]map[string]string{}}

func (t *table) set(client, column string, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !slices.Contains(t.columns, column) {
		t.columns = append(t.columns, column)
	}
	if t.cells[client] == nil {
		t.cells[client] = map[string]string{}
	}
	mark := "ok"
	if !ok {
		mark = "FAIL"
	}
	t.cells[client][column] = mark
}

// print writes the table, a blank where a client has no part in a column.
func (t *table) print() {
	t.mu.Lock()
	defer t.mu.Unlock()
	fmt.Printf("\nclient at stage   ")
	for _, column := range t.columns {
		fmt.Printf("  %s", column)
	}
	fmt.Println()
	for _, c := range published {
		if t.cells[c.name] == nil {
			continue
		}
		line := fmt.Sprintf("%-18s", c.name)
		for _, column := range t.columns {
			line += fmt.Sprintf("  %-*s", len(column), t.cells[c.name][column])
		}
		fmt.Println(strings.TrimRight(line, " "))
	}
	fmt.Println()
}
