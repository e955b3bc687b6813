package legacy_test

import (
	"testing"
	"testing/synctest"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
	"github.com/mcp-dualstack/bridge/legacy"
	"github.com/mcp-dualstack/bridge/negotiate"
)

// Translation.md 3, row 1: a message of 2026 gets -32022 with the legacy list, never a result and never silence.
func TestClaims(t *testing.T) {
	const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"go","version":"1"}}`
	synctest.Test(t, func(t *testing.T) {
		var seen log
		h := &script{}
		_, s := serve(t, h, &legacy.Options{Observe: seen.observe, Enabled: negotiate.SetOf(negotiate.Rev20241105, negotiate.Rev20250618)})
		c := connect(t, s)
		c.ok(`{"jsonrpc":"2.0","id":"d","method":"server/discover","params":{` + meta + `}}`)
		c.want(`{"jsonrpc":"2.0","id":"d","error":{"code":-32022,"message":"Unsupported protocol version '2026-07-28': use one of data.supported",` +
			`"data":{"supported":["2025-06-18","2024-11-05"],"requested":"2026-07-28"}}}`)
		c.ok(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{` + meta + `}}`) // no answer
		c.ok(`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{` + meta + `}}`)
		if got := string(jsonrpc.Get([]byte(c.next()), "error", "code")); got != "-32022" {
			t.Errorf("got %s, want -32022", got)
		}
		c.ok(`{"jsonrpc":"2.0","id":2,"method":"server/discover"}`)
		if got := string(jsonrpc.Get([]byte(c.next()), "error", "code")); got != "-32601" {
			t.Errorf("got %s, want -32601", got)
		}
		if got := len(h.clients()); got != 0 {
			t.Errorf("the server was opened %d times, want 0", got)
		}
		if got := seen.kind(exchange.SeenDiscover); len(got) != 4 || got[0].Version != "2026-07-28" || string(got[0].Info) != `{"name":"go","version":"1"}` {
			t.Errorf("observed %+v, want four claims", got)
		}
		c.begin() // and then the client falls back
	})
}

func TestSecondInitialize(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &script{}
		_, s := serve(t, h, nil)
		c := connect(t, s).begin()
		c.ok(initialize("2024-11-05"))
		if got := string(jsonrpc.Get([]byte(c.next()), "error", "code")); got != "-32600" {
			t.Errorf("got %s, want -32600", got)
		}
		c.ok(`{"jsonrpc":"2.0","id":1,"method":"x"}`)
		c.want(`{"jsonrpc":"2.0","id":1,"result":{}}`)
	})
}

// Retirement.md R8: TypeScript clients open a new stream by themselves and go on without an initialize.
func TestClientsThatComeBack(t *testing.T) {
	const list = `{"jsonrpc":"2.0","id":5,"method":"tools/list"}`
	for _, c := range []struct {
		name    string
		header  []string
		enabled negotiate.Set
		want    negotiate.Revision
	}{
		{"no header", nil, 0, negotiate.Rev20241105},
		{"with the header", []string{"Mcp-Protocol-Version", "2025-06-18"}, 0, negotiate.Rev20250618},
		{"a modern header", []string{"Mcp-Protocol-Version", "2026-07-28"}, 0, negotiate.Rev20241105},
		{"garbage", []string{"Mcp-Protocol-Version", "x"}, 0, negotiate.Rev20241105},
		{"a revision that is off", []string{"Mcp-Protocol-Version", "2025-06-18"}, negotiate.SetOf(negotiate.Rev20250326), negotiate.Rev20250326},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := &script{}
				_, s := serve(t, h, &legacy.Options{Enabled: c.enabled})
				cl := connect(t, s)
				// None of these opens anything.
				cl.ok(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":4}}`)
				cl.ok(`{"jsonrpc":"2.0","id":1,"result":{}}`)
				cl.ok(`{"jsonrpc":"2.0","id":1,"method":"ping"}`)
				cl.want(`{"jsonrpc":"2.0","id":1,"result":{}}`)
				if got := len(h.clients()); got != 0 {
					t.Errorf("the server was opened %d times, want 0", got)
				}
				cl.ok(list, c.header...)
				cl.want(`{"jsonrpc":"2.0","id":5,"result":{}}`)
				cl.ok(list)
				cl.want(`{"jsonrpc":"2.0","id":5,"result":{}}`)
				if got := h.clients(); len(got) != 1 || got[0].Revision != c.want || !got[0].Reopened || string(got[0].Capabilities) != "{}" {
					t.Errorf("opened for %+v, want once for %v", got, c.want)
				}
			})
		})
	}
}

// A client whose initialize was refused has not come back; it has not begun.
func TestRequestAfterARefusedInitialize(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &script{}
		_, s := serve(t, h, nil)
		c := connect(t, s)
		c.ok(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":7}}`)
		if got := string(jsonrpc.Get([]byte(c.next()), "error", "code")); got != "-32602" {
			t.Errorf("got %s, want -32602", got)
		}
		c.ok(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
		if got := reasonOf(c.next()); got != "not_initialized" {
			t.Errorf("got %s, want not_initialized", got)
		}
		c.begin()
	})
}
