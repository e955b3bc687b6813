package negotiate

// Header names, canonical form of net/http.
const (
	HeaderVersion     = "Mcp-Protocol-Version"
	HeaderSession     = "Mcp-Session-Id"
	HeaderMethod      = "Mcp-Method"
	HeaderName        = "Mcp-Name"
	HeaderParamPrefix = "Mcp-Param-"
	HeaderLastEventID = "Last-Event-Id"
)

// EncodeValue returns s as a header value: itself if it is visible ASCII, space and tab without leading or trailing
// blanks and does not look like the sentinel, otherwise =?base64?...?= (2026-07-28 streamable-http, Value Encoding).
func EncodeValue(s string) string { panic("not built") }

// DecodeValue is the reverse of EncodeValue; ok is false for illegal characters, bad base64 or a payload that is not UTF-8.
func DecodeValue(v string) (s string, ok bool) { panic("not built") }
