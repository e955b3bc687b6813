package translate

import (
	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
	"github.com/mcp-dualstack/bridge/negotiate"
)

// asHandshake returns a modern server as a handshake-era client sees it (translation.md 4, Capabilities): the
// InitializeResult is its DiscoverResult without the envelope, its unknown members kept. bridge is the raw
// Implementation that stands in for what the server does not say about itself.
func asHandshake(s exchange.Server, bridge []byte) exchange.Server {
	r := jsonrpc.DeleteFunc(s.Discover, func(name string) bool {
		switch name {
		case "resultType", "ttlMs", "cacheScope", "supportedVersions", "protocolVersion", "serverInfo", "capabilities":
			return true
		}
		return false
	})
	info := jsonrpc.Get(s.Discover, "_meta", negotiate.MetaServerInfo)
	if !jsonrpc.IsObject(info) {
		info = s.Info
	}
	s.Info = namedInfo(info, bridge)
	s.Capabilities = handshakeServer(s.Capabilities)
	s.Served = negotiate.All
	r = withoutReserved(r)
	r = jsonrpc.Set(r, jsonrpc.Quote(negotiate.Legacy.Newest().String()), "protocolVersion") // the front says which
	r = jsonrpc.Set(r, s.Capabilities, "capabilities")
	r = jsonrpc.Set(r, s.Info, "serverInfo")
	if _, text := jsonrpc.String(s.Instructions); !text {
		s.Instructions, r = nil, jsonrpc.Delete(r, "instructions")
	} else {
		r = jsonrpc.Set(r, s.Instructions, "instructions")
	}
	s.Initialize, s.Discover = r, nil
	return s
}

// readable returns s without what of its description is none: capabilities that are no object, an Implementation without name or
// version, instructions that are no text. A client that checks the schema would give up at them without a hint.
func readable(s exchange.Server) exchange.Server {
	if !jsonrpc.IsObject(s.Capabilities) {
		s.Capabilities = []byte("{}")
	}
	if !isImplementation(s.Info) {
		s.Info = nil
	}
	if _, text := jsonrpc.String(s.Instructions); !text {
		s.Instructions = nil
	}
	return s
}

// presentable returns a handshake-era server as a client of that era can read it: the name and version that the server did not
// give are the bridge's. What is right in the InitializeResult keeps its bytes.
func (h *handler) presentable(s exchange.Server) exchange.Server {
	info := namedInfo(s.Info, h.o.Info)
	s = readable(s)
	s.Info = info
	if s.Initialize == nil {
		return s
	}
	own := s.Initialize
	if !jsonrpc.IsObject(jsonrpc.Get(own, "capabilities")) {
		s.Initialize = jsonrpc.Set(s.Initialize, s.Capabilities, "capabilities")
	}
	if !isImplementation(jsonrpc.Get(own, "serverInfo")) {
		s.Initialize = jsonrpc.Set(s.Initialize, s.Info, "serverInfo")
	}
	if s.Instructions == nil {
		s.Initialize = jsonrpc.Delete(s.Initialize, "instructions")
	}
	if !same(own, s.Initialize) {
		h.log.Warn("initialize result of the server mended: its capabilities, serverInfo or instructions are none")
	}
	return s
}

// handshakeServer returns ServerCapabilities without tasks of any design (translation.md 10).
func handshakeServer(caps []byte) []byte {
	if !jsonrpc.IsObject(caps) {
		return []byte("{}")
	}
	return withoutTasks(jsonrpc.Delete(caps, "tasks"))
}

// namedInfo returns an Implementation with the name and version that a handshake demands, those of bridge where
// info has none.
func namedInfo(info, bridge []byte) []byte {
	if !jsonrpc.IsObject(info) {
		return bridge
	}
	for _, member := range []string{"name", "version"} {
		if _, ok := jsonrpc.String(jsonrpc.Get(info, member)); !ok {
			info = jsonrpc.Set(info, jsonrpc.Get(bridge, member), member)
		}
	}
	return info
}
