package upstream_test

import (
	"bufio"
	"fmt"
	"io"
	"testing"
	"testing/synctest"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/exchange/exchangetest"
	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
	"github.com/mcp-dualstack/bridge/negotiate"
	"github.com/mcp-dualstack/bridge/upstream"
)

// A survey names the revisions that a server answers with, and takes lists of revisions for no more than
// they turn out to be.
func TestExamine(t *testing.T) {
	some := negotiate.SetOf(negotiate.Rev20250618, negotiate.Rev20241105)
	contract := func(served negotiate.Set) func(io.ReadWriter) error {
		return func(rw io.ReadWriter) error { return exchangetest.Serve(rw, served) }
	}
	listsBoth := func(rw io.ReadWriter) error { // but does not know initialize
		return replyWith(rw, func(m *jsonrpc.Message) string {
			if m.Method == "server/discover" {
				return `"result":{"resultType":"complete","supportedVersions":["2026-07-28","2025-11-25"],"capabilities":{}}`
			}
			return `"error":{"code":-32601,"message":"Method not found"}`
		})
	}
	refusesAll := func(rw io.ReadWriter) error {
		return replyWith(rw, func(*jsonrpc.Message) string { return `"error":{"code":-32000,"message":"go away"}` })
	}
	for _, test := range []struct {
		name      string
		serve     func(io.ReadWriter) error
		revisions negotiate.Set
		modern    bool
		legacy    bool
		reason    string
	}{
		{"both eras", contract(negotiate.All), negotiate.All, true, true, ""},
		{"stateless", contract(negotiate.Modern), negotiate.Modern, true, false, ""},
		{"some of the session era", contract(some), some, false, true, ""},
		{"both, some", contract(some | negotiate.Modern), some | negotiate.Modern, true, true, ""},
		{"lists both and knows one", listsBoth, negotiate.Modern, true, false, ""},
		{"refuses everything", refusesAll, 0, false, false, exchange.ReasonVersion},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dial, wait := dialer(test.serve)
				up := upstream.Pipe(dial, nil)
				defer func() { _ = up.Close(); wait() }()
				s, err := upstream.Examine(t.Context(), up)
				equal(t, "error", reason(err), test.reason)
				equal(t, "revisions", fmt.Sprint(s.Revisions.Strings()), fmt.Sprint(test.revisions.Strings()))
				equal(t, "modern", s.Modern, test.modern)
				equal(t, "legacy", s.Legacy, test.legacy)
			})
		})
	}
}

// replyWith answers every request with what f returns, "result":... or "error":...
func replyWith(rw io.ReadWriter, f func(*jsonrpc.Message) string) error {
	r := bufio.NewScanner(rw)
	for r.Scan() {
		m, err := jsonrpc.Scan(r.Bytes())
		if err != nil {
			return err
		}
		if m.Kind == jsonrpc.Request {
			fmt.Fprintf(rw, `{"jsonrpc":"2.0","id":%s,%s}`+"\n", m.ID, f(&m))
		}
	}
	return r.Err()
}
