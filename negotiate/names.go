package negotiate

import (
	"bytes"

	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
)

// The functions of this file read single members of messages for the record. The bytes have been checked where they came in.

// NameOf returns the name member of raw params (CallToolRequestParams and GetPromptRequestParams of every revision), "" if it is
// not a string. find is given its text and returns what is kept; the text is part of params where it needs no unescaping.
func NameOf(params []byte, find func(name []byte) string) string {
	raw := jsonrpc.Get(params, "name")
	if !isString(raw) {
		return ""
	}
	inner := raw[1 : len(raw)-1]
	if bytes.IndexByte(inner, '\\') >= 0 {
		s, _ := jsonrpc.String(raw)
		inner = []byte(s)
	}
	return find(inner)
}

// ListedNames calls yield with the name of each element of the list member of a raw result (ListToolsResult with tools,
// ListPromptsResult with prompts) until it returns false. Elements without a name are skipped.
func ListedNames(result []byte, list string, yield func(name string) bool) {
	jsonrpc.Elements(jsonrpc.Get(result, list), func(item []byte) bool {
		name, ok := jsonrpc.String(jsonrpc.Get(item, "name"))
		return !ok || yield(name)
	})
}

// IsToolError reports whether a raw CallToolResult has isError true (every revision). A result that spells the member's name with
// escapes, which no known server does, counts as none: looking for that would mean to read every long result to its end.
func IsToolError(result []byte) bool {
	return bytes.Contains(result, []byte(`"isError"`)) && string(jsonrpc.Get(result, "isError")) == "true"
}
