package telemetry

import (
	"hash/maphash"
	"sync/atomic"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/negotiate"
)

// subjectOf returns the tool or prompt that a request is about: a name of the server's last lists, or what stands for the rest.
func (s *Signals) subjectOf(req *exchange.Request) string {
	switch req.Method {
	case "tools/call":
		return negotiate.NameOf(req.Params, s.tools.names.find)
	case "prompts/get":
		return negotiate.NameOf(req.Params, s.prompts.names.find)
	}
	return ""
}

// A listing is a list of the server's that has names for labels.
type listing struct {
	member string // of the result
	names  *vocabulary
	last   atomic.Uint64 // hash of the result that was read last: most clients are told the same
}

var listSeed = maphash.MakeSeed()

// learn takes the names of a list that the server has answered, as many as there is room for.
func (l *listing) learn(result []byte) {
	if h := maphash.Bytes(listSeed, result); l.last.Swap(h) == h {
		return
	}
	negotiate.ListedNames(result, l.member, func(name string) bool { return l.names.admit(clean(name)) != l.names.rest })
}
