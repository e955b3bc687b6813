package negotiate

import (
	"fmt"
	"strings"
	"unicode"

	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
)

// Reasons of refusals, for data.bridge.reason (translation.md 13): what a client sent was wrong.
// The reasons why there is no answer from upstream are in package exchange.
const (
	ReasonMalformedRequest  = "malformed_request"           // the JSON-RPC envelope or params are not what the specification says
	ReasonMissingClaim      = "missing_claim"               // a modern version header without a version in _meta
	ReasonMalformedClaim    = "malformed_claim"             // a reserved _meta key that is missing or of the wrong type
	ReasonLogLevel          = "invalid_log_level"           // the _meta log level is none of the eight names
	ReasonMethodRemoved     = "method_removed"              // the client's revision does not have the method any more
	ReasonUnknownMethod     = "unknown_method"              // neither the bridge nor the server knows the method
	ReasonVersionHeader     = "unsupported_version_header"  // MCP-Protocol-Version of a session request is not served
	ReasonRevision          = "unsupported_revision"        // no enabled revision can be answered to this initialize
	ReasonMissingSession    = "missing_session"             // a request that needs a session names none
	ReasonUnknownSession    = "unknown_session"             // the session has ended, never was, or is somebody else's
	ReasonSessionExists     = "session_exists"              // a second initialize in one session
	ReasonBatch             = "batch_not_allowed"           // an array where the revision has no batching, or with a forbidden element
	ReasonNotAcceptable     = "not_acceptable"              // Accept admits none of the media types that could be answered
	ReasonMediaType         = "unsupported_media_type"      // a body that is not said to be JSON in UTF-8
	ReasonBodyTooLarge      = "body_too_large"              // a body over the limit
	ReasonBodySlow          = "body_too_slow"               // a body that did not come in time
	ReasonTooManySessions   = "too_many_sessions"           // no room for a session
	ReasonTooManyStreams    = "too_many_streams"            // no room for a stream
	ReasonDuplicateArgument = "duplicate_argument"          // an argument mirrored in a header occurs twice
	ReasonUnmirrorable      = "argument_cannot_be_mirrored" // no legal Mcp-Param header exists for an argument
)

// Refused returns an error the bridge makes itself, with data {"bridge":{"reason":reason}} and a
// formatted public message that says what was wrong, where, and what to do. It is not for -32020 to
// -32022, whose data have a shape of their own.
func Refused(code int, reason, format string, args ...any) *jsonrpc.Error {
	e := jsonrpc.Errorf(code, format, args...)
	e.Data = fmt.Appendf(nil, `{"bridge":{"reason":%s}}`, jsonrpc.Quote(reason))
	return e
}

// mismatch returns a HeaderMismatch error (2026-07-28 streamable-http, Server Validation), which carries no data.
func mismatch(format string, args ...any) *jsonrpc.Error {
	return jsonrpc.Errorf(jsonrpc.CodeHeaderMismatch, "Header mismatch: "+format, args...)
}

const maxQuoteRunes = 64

// quote returns a client's value in single quotes, fit for a message: without control characters and cut to 64 runes.
func quote(s string) string {
	var b strings.Builder
	b.WriteByte('\'')
	n := 0
	for _, r := range s {
		if !unicode.IsPrint(r) {
			continue
		}
		if n == maxQuoteRunes {
			b.WriteString("...")
			break
		}
		b.WriteRune(r)
		n++
	}
	b.WriteByte('\'')
	return b.String()
}
