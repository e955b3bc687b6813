package telemetry_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/telemetry"
)

// What a front reports of an authenticated caller is recorded of the principal, wherever it comes from and whatever it calls itself.
func TestObservationsOfAPrincipal(t *testing.T) {
	c := at(asks(legacyClient("desk"), "2024-11-05"), "10.0.0.1", "node")
	c.Principal = "alice"
	elsewhere := at(c, "192.0.2.1", "curl")
	seen := func(kind string, c exchange.Client) exchange.Observation {
		return exchange.Observation{Kind: kind, Transport: exchange.HTTPSSE, Session: c.Session, Principal: c.Principal, Addr: c.Addr, UserAgent: c.UserAgent}
	}
	with := func(o exchange.Observation, change func(*exchange.Observation)) exchange.Observation {
		change(&o)
		return o
	}
	tried := with(seen(exchange.SeenRefused, elsewhere), func(o *exchange.Observation) { o.Transport = exchange.StreamableHTTP })
	named := with(seen(exchange.SeenRefused, c), func(o *exchange.Observation) {
		o.Version, o.Info, o.Stage, o.Point = "2024-11-05", c.Info, "closed", "initialize"
	})
	tests := []struct {
		name  string
		plays []play
		class telemetry.Class
		signs []string
	}{
		{"refused by name", []play{sees(named)}, telemetry.ClassUnknown, nil},
		{"refused by the stage", []play{sees(with(seen(exchange.SeenRefused, c), func(o *exchange.Observation) { o.Stage, o.Point = "gone", "get" }))}, telemetry.ClassUnknown, nil},
		{"discovers and gives up", []play{sees(seen(exchange.SeenStream, c), with(seen(exchange.SeenDiscover, c), func(o *exchange.Observation) { o.Info = c.Info })), waits(40 * time.Second)},
			telemetry.ClassCapable, []string{"discover"}},
		{"falls back from another address", []play{sees(tried, seen(exchange.SeenStream, c)), opens(c)}, telemetry.ClassProbing, []string{"fallback"}},
		{"falls back from the same URL", []play{sees(with(tried, func(o *exchange.Observation) { o.Kind = exchange.SeenSameURL }), seen(exchange.SeenStream, c)), opens(c)},
			telemetry.ClassProbing, []string{"fallback"}},
		{"somebody else tried from this address", []play{sees(with(tried, func(o *exchange.Observation) { o.Principal, o.Addr, o.UserAgent = "bob", c.Addr, c.UserAgent }),
			seen(exchange.SeenStream, c)), opens(c)}, telemetry.ClassUnknown, nil},
		{"silent", []play{sees(seen(exchange.SeenStream, c), seen(exchange.SeenSilent, c))}, telemetry.ClassProbe, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := openLedger(t, "", nil)
				for _, p := range tt.plays {
					p(t, l)
				}
				id := l.IDs(c)[0]
				r := report(t, l)
				if len(r.Identities) != 1 || r.Identities[0].ID != id || r.Identities[0].Kind != telemetry.KindPrincipal {
					t.Fatalf("got %+v, want %s alone", r.Identities, id)
				}
				var signs []string
				for _, s := range r.Identities[0].Evidence {
					signs = append(signs, s.Kind)
				}
				if got := r.Identities[0].Class; got != tt.class || !slices.Equal(signs, tt.signs) {
					t.Errorf("got %s %v, want %s %v", got, signs, tt.class, tt.signs)
				}
				closeLedger(t, l)
			})
		})
	}
}
