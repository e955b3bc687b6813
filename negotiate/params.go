package negotiate

import (
	"net/http"

	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
)

// A Param is one x-mcp-header annotation of a tool's inputSchema (2026-07-28 server/tools, x-mcp-header).
type Param struct {
	Path   []string // member names below arguments
	Header string   // canonical, with the prefix: Mcp-Param-Region
	Type   string   // string, integer, number or boolean as the schema says
}

// ReadParams returns the annotations of a tool's inputSchema reachable through properties only. ok is false if any
// of them breaks the constraints of the revision (names, duplicates, types); such a tool is not to be offered over HTTP.
func ReadParams(inputSchema []byte) (ps []Param, ok bool) { panic("not built") }

// CheckParams compares the Mcp-Param-* fields of h with the arguments by the table of translation.md 11.
// The error is -32020.
func CheckParams(h http.Header, args []byte, ps []Param) *jsonrpc.Error { panic("not built") }

// ParamHeaders returns the Mcp-Param-* fields for the arguments. The error is -32602 for an integer beyond 2^53-1.
func ParamHeaders(args []byte, ps []Param) (http.Header, *jsonrpc.Error) { panic("not built") }
