//go:build nolegacy

package bridge

import "github.com/mcp-dualstack/bridge/exchange"

// LegacyBuilt says whether the HTTP+SSE transport is part of this build; the build tag nolegacy leaves it out.
const LegacyBuilt = false

func newLegacyRoutes(_ exchange.Handler, _ *settings, t *retirement) legacyRoutes {
	return t.goneRoutes()
}
