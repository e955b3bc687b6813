package streamable

import (
	"errors"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
	"github.com/mcp-dualstack/bridge/negotiate"
)

const (
	methodDiscover = "server/discover"
	methodListen   = "subscriptions/listen"
)

// discoverResult returns the DiscoverResult of 2026-07-28: the server's own with the revisions served
// here, newest first, or one made from what is known.
func discoverResult(server exchange.Server, served negotiate.Set) []byte {
	if server.Discover != nil {
		return jsonrpc.Set(server.Discover, served.JSON(), "supportedVersions")
	}
	r := jsonrpc.Set(nil, []byte(`"complete"`), "resultType")
	r = jsonrpc.Set(r, served.JSON(), "supportedVersions")
	caps := server.Capabilities
	if caps == nil {
		caps = []byte("{}")
	}
	r = jsonrpc.Set(r, caps, "capabilities")
	if server.Instructions != nil {
		r = jsonrpc.Set(r, server.Instructions, "instructions")
	}
	r = jsonrpc.Set(r, []byte("0"), "ttlMs")
	r = jsonrpc.Set(r, []byte(`"private"`), "cacheScope")
	if server.Info != nil {
		r = jsonrpc.Set(r, server.Info, "_meta", negotiate.MetaServerInfo)
	}
	return r
}

// listenEnd is the result with which a listen ends gracefully (2026-07-28 basic/patterns/subscriptions,
// Graceful Closure). id is the raw id of the request.
func listenEnd(id []byte) []byte {
	return jsonrpc.Set([]byte(`{"resultType":"complete"}`), id, "_meta", negotiate.MetaSubscription)
}

// listenIsOver reports whether err ends a listen that has begun because the server is gone for good: that is
// its graceful end, not a failure of the request (translation.md 8.1 point 5).
func (x *stateless) listenIsOver(err error) bool {
	f, ok := errors.AsType[*exchange.Failure](err)
	return ok && x.st.used() && (f.Reason == exchange.ReasonLost || f.Reason == exchange.ReasonClosed)
}
