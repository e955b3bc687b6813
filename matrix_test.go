package bridge_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	bridge "github.com/mcp-dualstack/bridge"
	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
	"github.com/mcp-dualstack/bridge/internal/memhttp"
	"github.com/mcp-dualstack/bridge/internal/schematest"
	"github.com/mcp-dualstack/bridge/negotiate"
	"github.com/mcp-dualstack/bridge/upstream"
)

// squareRows are the clients of the matrix, squareColumns the servers.
var (
	squareRows = []struct {
		rev negotiate.Revision
		leg string
	}{
		{negotiate.Rev20241105, legSSE},
		{negotiate.Rev20250326, legMCP},
		{negotiate.Rev20250618, legSSE},
		{negotiate.Rev20250618, legMCP},
		{negotiate.Rev20251125, legSSE},
		{negotiate.Rev20251125, legMCP},
		{negotiate.Rev20260728, legModern},
	}
	squareColumns = []struct {
		name   string
		served negotiate.Set
		kind   string
	}{
		{"2024-11-05", negotiate.SetOf(negotiate.Rev20241105), kindPipe},
		{"2025-03-26", negotiate.SetOf(negotiate.Rev20250326), kindPipe},
		{"2025-06-18", negotiate.SetOf(negotiate.Rev20250618), kindPipe},
		{"2025-11-25", negotiate.SetOf(negotiate.Rev20251125), kindPipe},
		{"2026-07-28", negotiate.Modern, kindPipe},
		{"all", negotiate.All, kindPipe},
		{"2024-11-05 sse", negotiate.SetOf(negotiate.Rev20241105), kindSSE},
		{"2025-11-25 sse", negotiate.SetOf(negotiate.Rev20251125), kindSSE},
		{"2025-06-18 http", negotiate.SetOf(negotiate.Rev20250618), kindHTTP},
		{"2025-11-25 http", negotiate.SetOf(negotiate.Rev20251125), kindHTTP},
		{"2026-07-28 http", negotiate.Modern, kindHTTP},
		{"all http", negotiate.All, kindHTTP},
		{"2025-11-25 inproc", negotiate.SetOf(negotiate.Rev20251125), kindInProcess},
		{"2026-07-28 inproc", negotiate.Modern, kindInProcess},
	}
)

// The kinds of upstream. What is reached over HTTP, or is a handler in the same process, is the server behind a bridge of its own that translates nothing.
const (
	kindPipe = "pipe"
	kindSSE  = "sse"
	kindHTTP = "http"

	kindInProcess = "inproc"
)

// errNotThere is the outcome of an exchange that a cell cannot have. Its text is the reason, from translation.md.
type errNotThere string

func (e errNotThere) Error() string { return string(e) }

// TestMatrix plays every exchange between clients of all revisions and servers of all revisions. A cell that cannot work
// says why; every other must do what the client's revision says.
func TestMatrix(t *testing.T) {
	schemas := schematest.Load(t)
	var table strings.Builder
	fmt.Fprintf(&table, "%-16s", "client")
	for _, col := range squareColumns {
		if col.kind == kindSSE && !bridge.LegacyBuilt {
			continue
		}
		fmt.Fprintf(&table, "  %-*s", len(squareExchanges), col.name)
	}
	table.WriteString("\n")
	reasons := map[string]bool{}
	for _, row := range squareRows {
		if row.leg == legSSE && !bridge.LegacyBuilt {
			continue
		}
		fmt.Fprintf(&table, "%s %-5s", row.rev, strings.TrimPrefix(row.leg, legModern))
		for _, col := range squareColumns {
			if col.kind == kindSSE && !bridge.LegacyBuilt {
				continue
			}
			marks := ""
			t.Run(fmt.Sprintf("%s-%s-on-%s", row.rev, row.leg, col.name), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					marks = playSquare(t, row.rev, row.leg, col.served, col.kind, schemas, reasons)
				})
			})
			fmt.Fprintf(&table, "  %s", marks)
		}
		table.WriteString("\n")
	}
	table.WriteString("\n. as the client's revision says   - cannot be, for a reason below   X wrong\ncolumns:")
	for i, x := range squareExchanges {
		fmt.Fprintf(&table, " %d=%s", i+1, x.name)
	}
	table.WriteString("\n")
	for _, r := range slices.Sorted(mapsKeys(reasons)) {
		table.WriteString("  - " + r + "\n")
	}
	t.Log("\n" + table.String())
}

func mapsKeys(m map[string]bool) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

// playSquare plays one cell and returns a mark per exchange.
func playSquare(t *testing.T, rev negotiate.Revision, leg string, served negotiate.Set, kind string, schemas *schematest.Schemas, reasons map[string]bool) string {
	server := &squareServer{t: t, served: served, schemas: schemas, executed: map[string]int{}}
	b, err := bridge.New(squareUpstream(t, server, kind), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	h := memhttp.New(t, b)
	c := newSquareClient(t, rev, leg, h.URL, h.Client(), schemas)
	defer c.close()
	p := &squarePlay{squareClient: c, server: server, upstream: answered(rev, served)}
	var marks strings.Builder
	for _, x := range squareExchanges {
		c.forget()
		err := x.play(p)
		reason, cannot := errors.AsType[errNotThere](err)
		switch {
		case cannot:
			reasons[x.name+": "+string(reason)] = true
			marks.WriteString("-")
		case err != nil:
			t.Errorf("%s: %v", x.name, err)
			marks.WriteString("X")
			if x.name == "open" {
				return marks.String()
			}
		default:
			marks.WriteString(".")
		}
	}
	return marks.String()
}

// squareUpstream returns the server as an upstream of that kind.
func squareUpstream(t *testing.T, server *squareServer, kind string) exchange.Handler {
	t.Helper()
	dial := func(context.Context) (io.ReadWriteCloser, error) {
		near, far := net.Pipe()
		go server.serve(far) // ends when the bridge hangs up
		return near, nil
	}
	if kind == kindPipe {
		return upstream.Pipe(dial, nil)
	}
	inner, err := bridge.New(upstream.Pipe(dial, &upstream.Options{SameEra: true}), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { inner.Close() })
	if kind == kindInProcess {
		up, err := upstream.InProcess(inner, nil)
		if err != nil {
			t.Fatal(err)
		}
		return up
	}
	h := memhttp.New(t, inner)
	path := map[string]string{kindSSE: "/sse", kindHTTP: "/mcp"}[kind]
	o := &upstream.Options{HTTP: &upstream.HTTPOptions{RoundTripper: h.Client().Transport}}
	if kind == kindSSE {
		up, err := upstream.SSE(h.URL+path, o)
		if err != nil {
			t.Fatal(err)
		}
		return up
	}
	up, err := upstream.URL(h.URL+path, o)
	if err != nil {
		t.Fatal(err)
	}
	return up
}

// answered returns the revision that is spoken with a server for a client of rev.
func answered(rev negotiate.Revision, served negotiate.Set) negotiate.Revision {
	switch {
	case served.Has(rev):
		return rev
	case rev.Modern() || served&negotiate.Legacy == 0:
		return served.Newest()
	}
	return (served & negotiate.Legacy).Newest()
}

// A squarePlay is a client in front of a server, in the middle of the play.
type squarePlay struct {
	*squareClient
	server   *squareServer
	upstream negotiate.Revision // spoken with the server
}

// tool calls a tool, and says that it cannot be there if the server's revision does not know what it needs.
func (p *squarePlay) tool(name, more string) (exchange.Response, error) {
	if !toolKnown(name, p.upstream) {
		return exchange.Response{}, errNotThere("the server's revision has no such thing")
	}
	return p.result("tools/call", `{"name":"`+name+`","arguments":{"n":25.0}`+more+`}`)
}

// result is call for what must be answered with a result.
func (p *squarePlay) result(method, params string) (exchange.Response, error) {
	resp, err := p.call(method, params)
	if err == nil && resp.Error != nil {
		err = fmt.Errorf("%s %s: %v %s", method, params, resp.Error, resp.Error.Data)
	}
	return resp, err
}

// settle lets everything that is under way happen.
func (p *squarePlay) settle() { time.Sleep(time.Second); synctest.Wait() }

func text(raw []byte, path ...string) string { return string(jsonrpc.Get(raw, path...)) }

// block returns the first content block of a result.
func block(result []byte) []byte {
	var first []byte
	jsonrpc.Elements(jsonrpc.Get(result, "content"), func(b []byte) bool { first = b; return false })
	return first
}

func wantText(raw []byte, want string, path ...string) error {
	if got := text(raw, path...); got != want {
		return fmt.Errorf("got %s %s, want %s, in %s", strings.Join(path, "."), got, want, raw)
	}
	return nil
}
