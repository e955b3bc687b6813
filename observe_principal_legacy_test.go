//go:build !nolegacy

package bridge_test

import (
	"strings"
	"testing"

	bridge "github.com/mcp-dualstack/bridge"
	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/retire"
	"github.com/mcp-dualstack/bridge/telemetry"
)

// An authenticated client that a stage refuses before it has a conversation is known by its principal, with and without the class that
// rules about tools give it.
func TestRefusedPrincipalIsKnown(t *testing.T) {
	for name, rules := range map[string][]bridge.ToolRule{"without rules": nil, "with rules": {{Grant: "group:staff", Allow: []string{"*"}}}} {
		t.Run(name, func(t *testing.T) {
			h := newHouse(t, &server{}, &bridge.Options{Auth: bridge.Auth{TokenFile: residents}, ToolRules: rules})
			if _, err := h.b.Retirement().Set(t.Context(), retire.Change{State: retire.State{Stage: retire.Gone}, Actor: "test", Reason: "a test", Force: true}); err != nil {
				t.Fatal(err)
			}
			if res := h.do("alice", "GET", "/sse", ""); res.StatusCode != 405 {
				t.Fatalf("GET /sse at gone: %d", res.StatusCode)
			}
			r, err := h.b.Report("", 0)
			if err != nil {
				t.Fatal(err)
			}
			if len(r.Identities) != 1 || r.Identities[0].Kind != telemetry.KindPrincipal || r.Identities[0].Transports[exchange.HTTPSSE].Refusals != 1 {
				t.Fatalf("got %+v, want one principal with one refusal", r.Identities)
			}
			refused := r.Identities[0].ID

			const bad = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"clientInfo":{"name":"desk","version":"1"}}}`
			h.do("alice", "POST", "/mcp", bad) // refused by a front, which knows alice by what she may do, too
			h.session("alice")                 // by the way that counts principals anyhow
			if r, err = h.b.Report("", 0); err != nil {
				t.Fatal(err)
			}
			if len(r.Identities) != 1 || r.Identities[0].ID != refused || !strings.HasPrefix(refused, "sub:") {
				t.Errorf("got %+v, want %s alone", r.Identities, refused)
			}
		})
	}
}
