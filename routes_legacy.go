//go:build !nolegacy

package bridge

import (
	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/legacy"
)

// LegacyBuilt says whether the HTTP+SSE transport is part of this build; the build tag nolegacy leaves it out.
const LegacyBuilt = true

func newLegacyRoutes(h exchange.Handler, s *settings, observe func(exchange.Observation)) legacyRoutes {
	if s.LegacyOff {
		return goneRoutes(s, observe)
	}
	f := legacy.New(h, &legacy.Options{
		Addr: s.addr, Observe: observe, Logger: s.Logger,
		KeepAlive: s.KeepAlive, AskTimeout: s.AskTimeout, WriteTimeout: s.WriteTimeout, BridgeInfo: s.info(),
		MaxSessions: s.MaxSessions, MaxCalls: s.MaxCalls, MaxBodyBytes: s.MaxBodyBytes, StreamBytes: s.StreamBytes,
		BodyTimeout: s.BodyTimeout, MaxStreamAge: s.MaxStreamAge, Reattach: s.Reattach,
		MaxSessionsPerPrincipal: s.MaxSessionsPerPrincipal, MaxCallsInTotal: s.MaxCallsInTotal,
		PublicURL: s.publicURL, SSEPath: s.SSEPath, MessagePath: s.MessagePath,
		EndpointURL: s.EndpointURL, Forwarded: s.forwarded,
	})
	return legacyRoutes{stream: asSpelled(f.Stream()), messages: f.Messages(), drain: f.Drain, shutdown: f.Shutdown, close: f.Close}
}
