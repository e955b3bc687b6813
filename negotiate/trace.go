package negotiate

import (
	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
)

// Keys of _meta that carry the context of a trace (SEP-414). They are the names of W3C Trace Context and Baggage and the
// only ones without a prefix besides progressToken.
const (
	MetaTraceParent = "traceparent"
	MetaTraceState  = "tracestate"
	MetaBaggage     = "baggage"
)

// A Trace is the context of a trace as _meta carries it. Empty: not there. The values are as sent: whoever uses them checks them.
type Trace struct {
	Parent  string // traceparent, such as 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01
	State   string // tracestate
	Baggage string
}

// ReadTrace reads the context of a trace from the _meta of raw params. A value that is not a string counts as absent; where a
// key occurs twice the first counts.
func ReadTrace(params []byte) Trace {
	var t Trace
	if !mayName(params, MetaTraceParent) && !mayName(params, MetaBaggage) {
		return t
	}
	meta := jsonrpc.Get(params, "_meta")
	t.Parent, _ = jsonrpc.String(jsonrpc.Get(meta, MetaTraceParent))
	t.State, _ = jsonrpc.String(jsonrpc.Get(meta, MetaTraceState))
	t.Baggage, _ = jsonrpc.String(jsonrpc.Get(meta, MetaBaggage))
	return t
}

// WithTrace returns params with the parent and the state of t in their _meta, in place of those that were there; an empty state
// removes the one that was there, which belonged to another parent. The baggage stays as it is, and so do all other bytes.
// Params that are neither nil nor an object, and those whose _meta is no object, come back as they were, as does everything when t
// has no parent.
func WithTrace(params []byte, t Trace) []byte {
	meta := jsonrpc.Get(params, "_meta")
	if t.Parent == "" || params != nil && !jsonrpc.IsObject(params) || meta != nil && !jsonrpc.IsObject(meta) {
		return params
	}
	meta = jsonrpc.Set(meta, jsonrpc.Quote(t.Parent), MetaTraceParent)
	if t.State == "" {
		meta = jsonrpc.Delete(meta, MetaTraceState)
	} else {
		meta = jsonrpc.Set(meta, jsonrpc.Quote(t.State), MetaTraceState)
	}
	return jsonrpc.Set(params, meta, "_meta")
}
