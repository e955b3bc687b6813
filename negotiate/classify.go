package negotiate

import (
	"fmt"
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
	Status int // of HTTP
	Err    *jsonrpc.Error
}

// Error describes r for a log.
func (r *Refusal) Error() string { return fmt.Sprintf("%d: %v", r.Status, r.Err) }

// Classify tells the era of a POSTed message: body first, headers only confirm. The Refusal is set
// with ClassRefused only.
//
// A claim in the _meta of initialize that names a legacy revision is not a modern one; the handshake
// goes on and the key is stripped. A header counts as modern only when it has the shape of a date,
// so that garbage is refused as garbage (CheckSessionVersion).
func Classify(h http.Header, m *jsonrpc.Message) (Class, *Refusal) {
	if m.Kind == jsonrpc.Response {
		return ClassLegacy, nil
	}
	claim := ReadClaim(m.Meta)
	if m.Kind == jsonrpc.Notification {
		if claim.Present() || modernHeader(h) != "" {
			return ClassModernNotification, nil
		}
		return ClassLegacy, nil
	}
	switch {
	case m.Method == "initialize" && !modernClaim(claim):
		return ClassInitialize, nil
	case claim.Present():
		return ClassModern, nil
	}
	if v := modernHeader(h); v != "" {
		return ClassRefused, &Refusal{http.StatusBadRequest, Refused(jsonrpc.CodeInvalidParams, ReasonMissingClaim,
			"Invalid params: the MCP-Protocol-Version header says %s, but params._meta has no %q; every request of that revision carries it", quote(v), MetaVersion)}
	}
	return ClassLegacy, nil
}

// modernHeader returns the version header's value if it names 2026-07-28 or a later date.
func modernHeader(h http.Header) string {
	for _, v := range h[HeaderVersion] {
		if isDate(v) && v >= dates[Rev20260728] {
			return v
		}
	}
	return ""
}

// modernClaim reports whether there is a claim that is not the name of a legacy revision.
func modernClaim(c Claim) bool {
	if !c.Present() {
		return false
	}
	s, _ := jsonrpc.String(c.Version)
	r, _ := Parse(s)
	return !Legacy.Has(r)
}

// LegacyClaim reports whether a message on the HTTP+SSE message endpoint claims a version of 2026 or
// later in its _meta (translation.md 3, row 1). Names of drafts that are no dates (DRAFT-2026-v1) sort
// after every date and count: whoever sends one in this place waits for the modern answer.
func LegacyClaim(m *jsonrpc.Message) bool {
	s, ok := jsonrpc.String(ReadClaim(m.Meta).Version)
	return ok && s >= "2026"
}

// UnsupportedVersion returns the -32022 error (2026-07-28 schema UnsupportedProtocolVersionError) with
// data {supported, requested}. requested is the raw JSON string as claimed.
func UnsupportedVersion(served Set, requested []byte) *jsonrpc.Error {
	s, _ := jsonrpc.String(requested)
	e := jsonrpc.Errorf(jsonrpc.CodeUnsupportedVersion,
		"Unsupported protocol version %s: use one of data.supported", quote(s))
	e.Data = versions(served, requested, "")
	return e
}

// CheckSessionVersion applies translation.md 3.2 to the version header of a request of an existing session. mismatch
// reports another served legacy revision than the negotiated one (counted, served as negotiated).
// The refusal is -32600 with status 400: an unknown or unserved revision, or several header lines.
func CheckSessionVersion(h http.Header, negotiated Revision, served Set) (mismatch bool, r *Refusal) {
	lines := h[HeaderVersion]
	switch len(lines) {
	case 0:
		return false, nil
	case 1:
	default:
		return false, &Refusal{http.StatusBadRequest, Refused(jsonrpc.CodeInvalidRequest, ReasonVersionHeader,
			"Invalid request: MCP-Protocol-Version occurs %d times; send it once, as %s", len(lines), negotiated)}
	}
	asked, _ := Parse(lines[0])
	switch {
	case asked == negotiated && asked != None:
		return false, nil
	case (served & Legacy).Has(asked):
		return true, nil
	}
	return false, &Refusal{http.StatusBadRequest, Refused(jsonrpc.CodeInvalidRequest, ReasonVersionHeader,
		"Invalid request: MCP-Protocol-Version %s is not served in this session; send %s, which it negotiated", quote(lines[0]), negotiated)}
}

// versions returns error data {supported, requested}, with {bridge:{reason}} when there is a reason.
// A nil requested becomes null.
func versions(supported Set, requested []byte, reason string) []byte {
	if requested == nil {
		requested = []byte("null")
	}
	out := append([]byte(`{"supported":`), supported.JSON()...)
	out = append(append(out, `,"requested":`...), requested...)
	if reason != "" {
		out = append(append(append(out, `,"bridge":{"reason":`...), jsonrpc.Quote(reason)...), '}')
	}
	return append(out, '}')
}
