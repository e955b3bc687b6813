package negotiate

import (
	"bytes"
	"slices"
	"strings"

	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
)

// Reserved _meta keys (2026-07-28 basic/index, _meta; related-task: 2025-11-25 basic/utilities/tasks).
const (
	MetaVersion       = "io.modelcontextprotocol/protocolVersion"
	MetaClientInfo    = "io.modelcontextprotocol/clientInfo"
	MetaCapabilities  = "io.modelcontextprotocol/clientCapabilities"
	MetaLogLevel      = "io.modelcontextprotocol/logLevel"
	MetaServerInfo    = "io.modelcontextprotocol/serverInfo"
	MetaSubscription  = "io.modelcontextprotocol/subscriptionId"
	MetaRelatedTask   = "io.modelcontextprotocol/related-task"
	MetaProgressToken = "progressToken"
)

// A Claim is the modern envelope of one request: what its _meta says under reserved keys. Raw JSON, nil when absent.
type Claim struct {
	Version      []byte
	Info         []byte
	Capabilities []byte
	LogLevel     []byte
}

// ReadClaim reads the envelope from a request's _meta (jsonrpc.Message.Meta). Where a key occurs
// twice, which jsonrpc.Scan refuses, the first counts.
func ReadClaim(meta []byte) Claim {
	var c Claim
	if !mayName(meta, "modelcontextprotocol") {
		return c // almost every legacy message
	}
	// One pass with a copy of each name is twice as fast as four calls of Get.
	jsonrpc.Members(meta, func(name string, value []byte) bool {
		if p := c.field(name); p != nil && *p == nil {
			*p = value
		}
		return true
	})
	return c
}

// field returns where the value under a _meta key belongs, or nil.
func (c *Claim) field(key string) *[]byte {
	switch key {
	case MetaVersion:
		return &c.Version
	case MetaClientInfo:
		return &c.Info
	case MetaCapabilities:
		return &c.Capabilities
	case MetaLogLevel:
		return &c.LogLevel
	}
	return nil
}

// Present reports whether the message claims a version in its _meta at all.
func (c Claim) Present() bool { return c.Version != nil }

// An Envelope is what a request to a modern server carries in _meta beside the progress token.
type Envelope struct {
	Version      Revision
	Info         []byte // raw Implementation object; nil: left out
	Capabilities []byte // raw object; nil: {}
	LogLevel     string // empty: left out
}

// WithEnvelope returns params with the envelope in its _meta, in place of any that was there. The other bytes stay as they were.
// params is a raw object or nil, which counts as {}; a _meta that is not an object is replaced. An
// array has no place for a _meta and comes back as it was.
func WithEnvelope(params []byte, e Envelope) []byte {
	if params != nil && !jsonrpc.IsObject(params) {
		return params
	}
	meta := jsonrpc.Get(params, "_meta")
	if !jsonrpc.IsObject(meta) {
		meta = nil
	}
	return jsonrpc.Set(params, e.join(meta), "_meta")
}

// join returns a _meta object with the members of meta that are no envelope keys, then those of e.
func (e Envelope) join(meta []byte) []byte {
	rest := members(jsonrpc.DeleteFunc(meta, isEnvelopeKey))
	version, capabilities := e.Version.String(), e.Capabilities
	if capabilities == nil {
		capabilities = []byte("{}")
	}
	out := make([]byte, 0, len(rest)+len(capabilities)+len(e.Info)+256)
	out = append(out, '{')
	if len(rest) > 0 {
		out = append(append(out, rest...), ',')
	}
	out = append(out, `"`+MetaVersion+`":"`...)
	out = append(out, version...)
	out = append(out, `","`+MetaCapabilities+`":`...)
	out = append(out, capabilities...)
	if e.Info != nil {
		out = append(out, `,"`+MetaClientInfo+`":`...)
		out = append(out, e.Info...)
	}
	if e.LogLevel != "" {
		out = append(out, `,"`+MetaLogLevel+`":`...)
		out = append(out, jsonrpc.Quote(e.LogLevel)...)
	}
	return append(out, '}')
}

func isEnvelopeKey(key string) bool { return new(Claim).field(key) != nil }

// members returns the text between the braces of a raw object, outer blanks removed.
func members(obj []byte) []byte {
	obj = bytes.TrimSpace(obj)
	if len(obj) < 2 {
		return nil
	}
	return bytes.TrimSpace(obj[1 : len(obj)-1])
}

// StripReserved returns params without the _meta keys under a reserved MCP prefix (2026-07-28 basic/index: a
// prefix whose second label is modelcontextprotocol or mcp), by translation.md 1.7; progressToken and
// the keys named in keep stay. An emptied _meta stays as {}. The same slice is returned when nothing was there to remove.
func StripReserved(m *jsonrpc.Message, keep ...string) []byte {
	if !mayBeReserved(m.Meta) {
		return m.Params
	}
	meta := jsonrpc.DeleteFunc(m.Meta, func(name string) bool {
		return IsReserved(name) && !slices.Contains(keep, name)
	})
	if len(meta) == len(m.Meta) {
		return m.Params
	}
	return jsonrpc.Set(m.Params, meta, "_meta")
}

// mayBeReserved reports whether meta can have a reserved key at all, by its text. Almost no legacy
// message has one, and this answers without reading the members.
func mayBeReserved(meta []byte) bool {
	return mayName(meta, "modelcontextprotocol") || mayName(meta, "mcp")
}

// mayName reports whether a member name with word in it can occur in text. \u may hide a letter.
func mayName(text []byte, word string) bool {
	return bytes.Contains(text, []byte(word)) || bytes.Contains(text, []byte(`\u`))
}

// IsReserved reports whether a _meta key lies under a reserved MCP prefix. Labels are compared as
// written: JSON names are case-sensitive, and so are the readers of these keys.
func IsReserved(key string) bool {
	prefix, _, ok := strings.Cut(key, "/")
	if !ok {
		return false
	}
	_, rest, _ := strings.Cut(prefix, ".")
	second, _, _ := strings.Cut(rest, ".")
	return second == "modelcontextprotocol" || second == "mcp"
}

// ValidLogLevel reports whether s is one of the eight levels of RFC 5424 names (2026-07-28 schema, LoggingLevel).
func ValidLogLevel(s string) bool {
	switch s {
	case "debug", "info", "notice", "warning", "error", "critical", "alert", "emergency":
		return true
	}
	return false
}
