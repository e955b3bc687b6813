package translate

import (
	"bytes"

	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
	"github.com/mcp-dualstack/bridge/negotiate"
)

// Values of resultType (2026-07-28 schema, ResultType).
const (
	resultComplete      = "complete"
	resultInputRequired = "input_required"
)

// withoutEnvelope is T7: a result of 2026-07-28 without what only that revision has.
func withoutEnvelope(r []byte) []byte {
	final := is(jsonrpc.Get(r, "resultType"), resultComplete)
	meta := jsonrpc.Get(r, "_meta")
	rest := notReserved(meta)
	r = jsonrpc.DeleteFunc(r, func(name string) bool {
		switch name {
		case "resultType":
			return final
		case "ttlMs", "cacheScope":
			return true
		}
		return name == "_meta" && rest == nil && meta != nil
	})
	if rest == nil || same(rest, meta) {
		return r
	}
	return jsonrpc.Set(r, rest, "_meta")
}

// withoutReserved returns params or a result without the _meta keys that are the bridge's, and without a _meta
// that this empties.
func withoutReserved(obj []byte) []byte {
	meta := jsonrpc.Get(obj, "_meta")
	switch rest := notReserved(meta); {
	case same(rest, meta):
		return obj
	case rest == nil:
		return jsonrpc.Delete(obj, "_meta")
	default:
		return jsonrpc.Set(obj, rest, "_meta")
	}
}

// notReserved returns a _meta without the keys that are the bridge's: the same slice if there are none, nil if there
// are no others.
func notReserved(meta []byte) []byte {
	if !mayBeReserved(meta) {
		return meta
	}
	rest := jsonrpc.DeleteFunc(meta, negotiate.IsReserved)
	if !same(rest, meta) && isEmpty(rest) {
		return nil
	}
	return rest
}

// mayBeReserved reports whether a _meta can have a key under a reserved prefix. \u may hide a letter.
func mayBeReserved(meta []byte) bool {
	return bytes.Contains(meta, []byte("mcp")) || mayHave(meta, "modelcontextprotocol")
}
