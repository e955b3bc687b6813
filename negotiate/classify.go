package negotiate

import (
	"net/http"

	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
)

// A Class says how a POST on the Streamable HTTP endpoint is to be treated (translation.md 3, rows 4 to 9; batches are told by their first character).
type Class uint8

// The classes.
const (
	ClassRefused            Class = iota // the accompanying Refusal says how
	ClassInitialize                      // row 5
	ClassModern                          // row 6: go on with CheckModern
	ClassModernNotification              // row 8: 202, otherwise ignored
	ClassLegacy                          // rows 4 and 9: needs a session
)

// A Refusal is an answer to a request that goes no further.
type Refusal struct {
	Status int
	Err    *jsonrpc.Error
}

// Classify tells the era of a POSTed message: body first, headers only confirm.
func Classify(h http.Header, m *jsonrpc.Message) (Class, *Refusal) { panic("not built") }

// LegacyClaim reports whether a message on the HTTP+SSE message endpoint claims a version of 2026 or
// later in its _meta (translation.md 3, row 1).
func LegacyClaim(m *jsonrpc.Message) bool { panic("not built") }

// UnsupportedVersion returns the -32022 error (2026-07-28 schema UnsupportedProtocolVersionError) with
// data {supported, requested}. requested is the raw JSON string as claimed.
func UnsupportedVersion(served Set, requested []byte) *jsonrpc.Error { panic("not built") }

// CheckModern applies steps 2 to 8 of the ladder of translation.md 3.1 that need no upstream to a ClassModern request.
// Steps 1, 9 and 10 and the unknown methods of step 7 belong to the caller. acceptRawName is the operator's
// switch accept_raw_mcp_name of translation.md 11.
func CheckModern(h http.Header, m *jsonrpc.Message, served Set, acceptRawName bool) (Claim, *Refusal) {
	panic("not built")
}

// CheckSessionVersion applies translation.md 3.2 to the version header of a request of an existing session. mismatch
// reports another served legacy revision than the negotiated one (counted, served as negotiated).
func CheckSessionVersion(h http.Header, negotiated Revision, served Set) (mismatch bool, r *Refusal) {
	panic("not built")
}
