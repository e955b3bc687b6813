package exchange

import (
	"context"
	"errors"

	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
	"github.com/mcp-dualstack/bridge/negotiate"
)

// Reasons of failure (translation.md), for data.bridge.reason.
const (
	ReasonEra           = "era_unsupported" // client and server speak different eras and nothing translates
	ReasonLost          = "upstream_lost"   // the child or connection ended during the call
	ReasonSessionLost   = "upstream_session_lost"
	ReasonUnavailable   = "upstream_unavailable" // it could not be started or reached
	ReasonVersion       = "upstream_version"     // it answered a revision that the bridge does not know
	ReasonInvalid       = "upstream_invalid"     // its answer is not what the protocol says
	ReasonTimeout       = "upstream_timeout"
	ReasonBusy          = "upstream_busy"
	ReasonAuth          = "upstream_auth"        // it answered 401 or 403
	ReasonStreamLost    = "upstream_stream_lost" // the HTTP response broke off before the answer
	ReasonHeaders       = "upstream_headers"     // it refused the headers of a 2026-07-28 request twice
	ReasonClientTimeout = "client_timeout"       // the client did not answer a question in time
	ReasonNoChannel     = "no_client_channel"    // no stream to put a question on
	ReasonClosed        = "session_closed"
	ReasonTooManyCalls  = "too_many_calls"
	ReasonBridge        = "bridge_error" // anything else
	ReasonStreamCut     = "stream_cut"   // the client's stream was ended for its slowness
	ReasonNoCapability  = "client_capability"
)

var publicText = map[string]string{
	ReasonEra:           "the server behind the bridge does not speak this revision of MCP",
	ReasonLost:          "the server behind the bridge ended during the call; whether it was carried out is unknown",
	ReasonSessionLost:   "the server behind the bridge has forgotten this session; start a new one",
	ReasonUnavailable:   "the server behind the bridge could not be started or reached",
	ReasonVersion:       "the server behind the bridge answered with an unknown revision of MCP",
	ReasonInvalid:       "the server behind the bridge answered with something that MCP does not define",
	ReasonTimeout:       "the server behind the bridge did not answer in time; whether the call was carried out is unknown",
	ReasonBusy:          "the server behind the bridge is busy; try again later",
	ReasonAuth:          "the server behind the bridge did not accept the bridge's credentials",
	ReasonStreamLost:    "the connection to the server behind the bridge broke during the call; whether it was carried out is unknown",
	ReasonHeaders:       "the server behind the bridge refused the headers of the request; nothing was carried out",
	ReasonClientTimeout: "the client did not answer in time",
	ReasonNoChannel:     "the client has no open stream on which it could be asked",
	ReasonClosed:        "the session has been closed",
	ReasonTooManyCalls:  "too many calls are in flight in this session; wait for some to end",
	ReasonBridge:        "the bridge could not carry out the request",
	ReasonStreamCut:     "the client did not read its stream fast enough",
	ReasonNoCapability:  "the client did not declare the capability that this request needs",
}

// Error describes f for the log.
func (f *Failure) Error() string {
	if f.Err != nil {
		return f.Reason + ": " + f.Err.Error()
	}
	return f.Reason
}

// Unwrap returns the cause, but not an *Error: in a Failure it is about something between the bridge and the server, and must
// not be taken for a refusal of what the client asked.
func (f *Failure) Unwrap() error {
	if _, ok := f.Err.(*Error); ok {
		return nil
	}
	return f.Err
}

// Fail returns a Failure of a reason with its cause for the log.
func Fail(reason string, err error) *Failure { return &Failure{Reason: reason, Err: err} }

// PublicError returns the JSON-RPC error that a client is shown for an error of Open or Call: a refusal of the
// server's, an *Error, as it is; a *Failure, whatever its cause, as -32603 with its reason in data.bridge.reason, and anything else as
// -32603 bridge_error. The cause never shows.
func PublicError(err error) *Error {
	reason, text := ReasonBridge, ""
	if f, ok := errors.AsType[*Failure](err); ok {
		reason, text = f.Reason, f.Message
	} else if e, ok := errors.AsType[*Error](err); ok {
		return e
	} else if errors.Is(err, context.DeadlineExceeded) {
		reason = ReasonTimeout
	}
	if text == "" {
		text = publicText[reason]
	}
	if text == "" {
		text = publicText[ReasonBridge]
	}
	return negotiate.Refused(jsonrpc.CodeInternal, reason, "%s", text)
}

// A CancelError is the cause of a cancelled ctx when the other end took the request back. It carries the reason as given.
type CancelError struct{ Reason string }

// Error describes the cancellation.
func (e *CancelError) Error() string {
	if e.Reason == "" {
		return "cancelled by the caller"
	}
	return "cancelled by the caller: " + e.Reason
}
