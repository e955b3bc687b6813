package legacy_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/mcp-dualstack/bridge/exchange"
)

// A logging server declares logging, or does not.
type logging struct {
	script
	capabilities string
}

func (h *logging) Open(ctx context.Context, c exchange.Client) (exchange.Session, error) {
	s, err := h.script.Open(ctx, c)
	return &loggingSession{s, h.capabilities}, err
}

type loggingSession struct {
	exchange.Session
	capabilities string
}

func (s *loggingSession) Server() exchange.Server {
	return exchange.Server{Capabilities: []byte(s.capabilities), Info: []byte(`{"name":"s","version":"1"}`)}
}

// Retirement.md R7: one notification a session, only if logging was negotiated and the level allows it.
func TestNotice(t *testing.T) {
	const (
		done  = `{"jsonrpc":"2.0","method":"notifications/initialized"}`
		told  = `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"warning","data":"moved"}}`
		list  = `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`
		reply = `{"jsonrpc":"2.0","id":1,"result":{}}`
	)
	level := func(l string) string {
		return `{"jsonrpc":"2.0","id":1,"method":"logging/setLevel","params":{"level":"` + l + `"}}`
	}
	setReply := func(l string) string { return `{"jsonrpc":"2.0","id":1,"result":{"level":"` + l + `"}}` }
	for _, c := range []struct {
		name, capabilities string
		send               []string
		want               []string
	}{
		{"after initialized", `{"logging":{}}`, []string{done, list, list}, []string{told, reply, reply}},
		{"before the first request of a client that leaves initialized out", `{"logging":{}}`, []string{list, list}, []string{told, reply, reply}},
		{"not negotiated", `{"tools":{}}`, []string{done, list}, []string{reply}},
		{"null is not a capability", `{"logging":null}`, []string{done, list}, []string{reply}},
		{"told before the level is known", `{"logging":{}}`, []string{level("error")}, []string{told, setReply("error")}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var seen log
				g := &stage{notices: 1}
				o := g.options()
				o.Observe = seen.observe
				_, s := staged(t, &logging{capabilities: c.capabilities}, g, o)
				cl := connect(t, s)
				cl.ok(initialize("2025-06-18"))
				cl.next()
				for _, m := range c.send {
					cl.ok(m)
				}
				cl.want(c.want...)
				told := 0
				if c.want[0] == `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"warning","data":"moved"}}` {
					told = 1
				}
				if got := len(seen.kind(exchange.SeenNotice)); got != told {
					t.Errorf("observed %d notices, want %d", got, told)
				}
			})
		})
	}
	// A session that was open before the stage came is told at its next request, if its level lets it.
	for l, want := range map[string][]string{
		"debug": {told, reply}, "info": {told, reply}, "notice": {told, reply}, "warning": {told, reply},
		"error": {reply}, "critical": {reply}, "alert": {reply}, "emergency": {reply}, "nonsense": {told, reply},
	} {
		t.Run("level "+l, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := &stage{}
				_, s := staged(t, &logging{capabilities: `{"logging":{}}`}, g, g.options())
				cl := connect(t, s)
				cl.ok(initialize("2025-06-18"))
				cl.next()
				cl.ok(level(l))
				cl.want(setReply(l))
				g.set(func() { g.notices = 1 })
				cl.ok(list)
				cl.want(want...)
			})
		})
	}
}

// The result of initialize can be given something for the client to read; nothing else is.
func TestGreeting(t *testing.T) {
	for _, c := range []struct{ name, greeting, want string }{
		{"none", "", initialized},
		{"meta", `{"com.example/x":1}`, `{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-06-18","capabilities":{},"serverInfo":{"name":"s","version":"1"},"_meta":{"com.example/x":1}}}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := &stage{greeting: c.greeting}
				_, s := staged(t, &script{}, g, g.options())
				cl := connect(t, s)
				cl.ok(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":7}}`)
				if msg := cl.next(); msg != `{"jsonrpc":"2.0","id":0,"error":{"code":-32602,"message":"params.protocolVersion must be a string"}}` && reasonOf(msg) == "" {
					t.Errorf("a refused initialize: got %s", msg)
				}
				cl.ok(initialize("2025-06-18"))
				cl.want(c.want)
				cl.ok(`{"jsonrpc":"2.0","id":1,"method":"tools/call"}`)
				cl.want(`{"jsonrpc":"2.0","id":1,"result":{}}`)
			})
		})
	}
}

// A server that refuses the handshake is not greeted for.
func TestGreetingOfARefusal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &stage{greeting: `{"com.example/x":1}`}
		h := &script{open: func(context.Context, exchange.Client) error { return &exchange.Error{Code: -32000, Message: "no"} }}
		_, s := staged(t, h, g, g.options())
		cl := connect(t, s)
		cl.ok(initialize("2025-06-18"))
		cl.want(`{"jsonrpc":"2.0","id":0,"error":{"code":-32000,"message":"no"}}`)
	})
}
