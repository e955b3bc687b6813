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

// complete is T8: the result of a handshake-era server as a final one of 2026-07-28. info is the server's raw
// Implementation, nil if it has none that is valid. One that says what it is (resultType) but is not final stays as it is.
func complete(method string, r, info []byte) []byte {
	var add members
	switch t := jsonrpc.Get(r, "resultType"); {
	case t == nil:
		add.add("resultType", []byte(`"`+resultComplete+`"`))
	case !is(t, resultComplete):
		return r
	}
	if cacheable(method) {
		if ttl := jsonrpc.Get(r, "ttlMs"); ttl == nil {
			add.add("ttlMs", []byte("0"))
		} else if !isNatural(ttl) {
			r = jsonrpc.Set(r, []byte("0"), "ttlMs")
		}
		if scope := jsonrpc.Get(r, "cacheScope"); scope == nil {
			add.add("cacheScope", []byte(`"private"`))
		} else if !is(scope, "public") && !is(scope, "private") {
			r = jsonrpc.Set(r, []byte(`"private"`), "cacheScope")
		}
	}
	if info == nil || jsonrpc.Get(r, "_meta", negotiate.MetaServerInfo) != nil {
		return add.after(r)
	}
	meta := jsonrpc.Get(r, "_meta")
	named := jsonrpc.Set(meta, info, negotiate.MetaServerInfo)
	if meta != nil {
		return add.after(jsonrpc.Set(r, named, "_meta"))
	}
	add.add("_meta", named)
	return add.after(r)
}

// cacheable reports whether results of the method say how long they may be kept (2026-07-28 schema, CacheableResult).
func cacheable(method string) bool {
	switch method {
	case "server/discover", "tools/list", "prompts/list", "resources/list", "resources/templates/list", "resources/read":
		return true
	}
	return false
}

// isNatural reports whether raw is an integer of at least 0 without fraction or exponent.
func isNatural(raw []byte) bool {
	for _, c := range raw {
		if c < '0' || c > '9' {
			return false
		}
	}
	return len(raw) > 0
}
