package negotiate

import "github.com/mcp-dualstack/bridge/internal/jsonrpc"

// An Initialize is what an initialize request says.
type Initialize struct {
	Requested    string   // protocolVersion as sent; "" when params are absent or {}
	Answer       Revision // what to answer, by translation.md 4
	Capabilities []byte   // raw object; nil when absent
	Info         []byte   // raw clientInfo object; nil when absent
}

// ReadInitialize reads the params of an initialize request and chooses the revision to answer from
// the enabled ones (never a modern one), by translation.md 4 "Answer to the client". The error is
// -32602 with data {supported, requested} (supported: the enabled legacy revisions, newest first), or -32602 without
// data when capabilities or clientInfo are not objects.
func ReadInitialize(params []byte, enabled Set) (Initialize, *jsonrpc.Error) { panic("not built") }
