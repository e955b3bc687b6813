//go:build nolegacy

package bridge

import (
	"net/http"

	"github.com/mcp-dualstack/bridge/exchange"
)

// LegacyBuilt says whether the HTTP+SSE transport is part of this build; the build tag nolegacy leaves it out.
const LegacyBuilt = false

func newLegacyRoutes(_ exchange.Handler, _ *settings, t *retirement, _ func(http.Handler) http.Handler) legacyRoutes {
	return t.goneRoutes()
}
