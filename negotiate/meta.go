package negotiate

import "github.com/mcp-dualstack/bridge/internal/jsonrpc"

// Reserved _meta keys (2026-07-28 basic/index, _meta).
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

// ReadClaim reads the envelope from a request's _meta (jsonrpc.Message.Meta).
func ReadClaim(meta []byte) Claim { panic("not built") }

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
func WithEnvelope(params []byte, e Envelope) []byte { panic("not built") }

// StripReserved returns params without the _meta keys under a reserved MCP prefix (2026-07-28 basic/index: a
// prefix whose second label is modelcontextprotocol or mcp), by translation.md 1.7; progressToken and
// the keys named in keep stay. An emptied _meta stays as {}. The same slice is returned when nothing was there to remove.
func StripReserved(m *jsonrpc.Message, keep ...string) []byte { panic("not built") }

// IsReserved reports whether a _meta key lies under a reserved MCP prefix.
func IsReserved(key string) bool { panic("not built") }

// ValidLogLevel reports whether s is one of the eight levels of RFC 5424 names.
func ValidLogLevel(s string) bool { panic("not built") }
