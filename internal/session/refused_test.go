package session_test

import (
	"testing"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
	"github.com/mcp-dualstack/bridge/internal/session"
	"github.com/mcp-dualstack/bridge/negotiate"
)

// Who was refused is known from the initialize request only: there is no conversation to tell it.
func TestRefusedInitializeIsObservedWithItsInfo(t *testing.T) {
	const info = `{"name":"c","version":"1"}`
	const unservable = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2024-11-05","capabilities":{},"clientInfo":` + info + `}}`
	for _, c := range []struct {
		name, message, version, reason string
		begin                          func(testing.TB, exchange.Handler, func(*session.Options)) (*session.Session, *outlet)
		change                         func(*session.Options)
	}{
		{"revision", unservable, "2024-11-05", negotiate.ReasonRevision, start, func(o *session.Options) { o.Enabled = 1 << negotiate.Rev20251125 }},
		{"second", initialize, "2025-06-18", negotiate.ReasonSessionExists, begun, func(*session.Options) {}},
	} {
		for _, way := range []struct {
			name string
			send func(*session.Session, *jsonrpc.Message)
		}{
			{"waiting", func(s *session.Session, m *jsonrpc.Message) { s.Initialize(t.Context(), m) }},
			{"handled", func(s *session.Session, m *jsonrpc.Message) { s.Handle(m, new(outlet)) }},
		} {
			t.Run(c.name+" "+way.name, func(t *testing.T) {
				var seen []exchange.Observation
				s, _ := c.begin(t, &script{}, func(o *session.Options) {
					c.change(o)
					o.Observe = func(x exchange.Observation) { seen = append(seen, x) }
				})
				way.send(s, message(t, c.message))
				if len(seen) != 1 || seen[0].Kind != exchange.SeenRefused || string(seen[0].Info) != info || seen[0].Version != c.version || seen[0].Detail != c.reason {
					t.Errorf("observed %+v, want one refused with %s, %s, %s", seen, info, c.version, c.reason)
				}
			})
		}
	}
}
