package translate

import (
	"fmt"
	"testing"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
)

// TestMissedIsBounded: of what comes before a member has been told that it is subscribed, the latest of each kind and URI is kept.
func TestMissedIsBounded(t *testing.T) {
	m := newMember([]byte(`{"toolsListChanged":true,"resourceSubscriptions":["db://"]}`), nil)
	for i := range maxUpdates + 10 {
		uri := fmt.Sprint("db://", i)
		for version := range 2 {
			params := fmt.Appendf(nil, `{"uri":"%s","v":%d}`, uri, version)
			m.miss(exchange.Request{Method: noteUpdated, Params: params}, uri)
		}
		if i == 0 {
			m.miss(exchange.Request{Method: listKinds[0].note}, "")
		}
	}
	if len(m.missed) != maxUpdates || m.missed[1].Method != listKinds[0].note {
		t.Errorf("%d are kept, the second a %s; want %d", len(m.missed), m.missed[1].Method, maxUpdates)
	}
	for _, n := range m.missed {
		if n.Method == noteUpdated && string(jsonrpc.Get(n.Params, "v")) != "1" {
			t.Fatalf("%s is not the latest", n.Params)
		}
	}
}
