package translate

import (
	"bytes"

	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
	"github.com/mcp-dualstack/bridge/negotiate"
)

// declared is what a client said it can do, as far as the bridge decides by it.
type declared struct {
	roots, sampling, tools, context bool // tools and context: of sampling
	form, url                       bool // of elicitation
}

// readDeclared reads a ClientCapabilities object of any revision. An empty elicitation object means form
// (translation.md 12).
func readDeclared(raw []byte) declared {
	var d declared
	d.roots = !jsonrpc.IsNull(jsonrpc.Get(raw, "roots"))
	s := jsonrpc.Get(raw, "sampling")
	d.sampling = !jsonrpc.IsNull(s)
	d.tools = !jsonrpc.IsNull(jsonrpc.Get(s, "tools"))
	d.context = !jsonrpc.IsNull(jsonrpc.Get(s, "context"))
	if e := jsonrpc.Get(raw, "elicitation"); jsonrpc.IsObject(e) {
		d.url = !jsonrpc.IsNull(jsonrpc.Get(e, "url"))
		d.form = !jsonrpc.IsNull(jsonrpc.Get(e, "form")) || !d.url
	}
	return d
}

// handshakeCapabilities returns the ClientCapabilities of a modern client as a handshake-era server is told them
// (translation.md 4): roots may change, for the bridge says so; experimental and the tasks extension stay behind.
// The same slice is returned when there is nothing to change.
func handshakeCapabilities(caps []byte) []byte {
	if !jsonrpc.IsNull(jsonrpc.Get(caps, "roots")) {
		caps = jsonrpc.Set(caps, []byte(`{"listChanged":true}`), "roots")
	}
	return withoutTasks(jsonrpc.Delete(caps, "experimental"))
}

// modernCapabilities returns the ClientCapabilities of a client of revision r as a modern server is told them
// (translation.md 4). Nil becomes {}. A declared elicitation counts also where the revision does not have it: SDKs
// that are told to speak an old revision declare, and do, what they can (measured with go-sdk v1.8.0).
func modernCapabilities(caps []byte, r negotiate.Revision) []byte {
	if !jsonrpc.IsObject(caps) {
		return []byte("{}")
	}
	whole := caps
	caps = jsonrpc.DeleteFunc(caps, func(name string) bool {
		switch name {
		case "experimental", "tasks":
			return true
		}
		return jsonrpc.IsNull(jsonrpc.Get(whole, name)) // some clients write what they do not have as null
	})
	if !jsonrpc.IsNull(jsonrpc.Get(caps, "roots")) {
		caps = jsonrpc.Set(caps, []byte("{}"), "roots")
	}
	if !r.Has(negotiate.SamplingTools) {
		caps = jsonrpc.Delete(jsonrpc.Delete(caps, "sampling", "tools"), "sampling", "context")
	}
	if !r.Has(negotiate.URLElicitation) && jsonrpc.Get(caps, "elicitation", "url") != nil {
		caps = jsonrpc.Delete(caps, "elicitation", "url")
	}
	return withoutTasks(caps)
}

// withoutTasks returns ClientCapabilities or ServerCapabilities without the tasks extension; an emptied
// extensions object goes too.
func withoutTasks(caps []byte) []byte {
	if jsonrpc.Get(caps, "extensions", negotiate.ExtensionTasks) == nil {
		return caps
	}
	caps = jsonrpc.Delete(caps, "extensions", negotiate.ExtensionTasks)
	if rest := bytes.TrimSpace(jsonrpc.Get(caps, "extensions")); isEmpty(rest) {
		caps = jsonrpc.Delete(caps, "extensions")
	}
	return caps
}

// isEmpty reports whether raw is an object without members.
func isEmpty(raw []byte) bool {
	empty := jsonrpc.IsObject(raw)
	jsonrpc.Members(raw, func(string, []byte) bool {
		empty = false
		return false
	})
	return empty
}
