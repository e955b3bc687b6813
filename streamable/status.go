package streamable

import (
	"errors"
	"net/http"
	"time"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
	"github.com/mcp-dualstack/bridge/negotiate"
)

// An answer is how a stateless response looks on HTTP, as long as no stream has begun. The zero value is
// status 200.
type answer struct {
	status     int
	retryAfter time.Duration
	challenge  string
}

// statelessRefusal turns an error of Open or Call into what the client is shown and the status it comes with, by
// translation.md 3.1 step 10 and section 13. served is what clients may speak here.
func statelessRefusal(err error, served negotiate.Set, requested []byte) *refusal {
	x := &refusal{err: exchange.PublicError(err)}
	f, ok := errors.AsType[*exchange.Failure](err)
	switch {
	case !ok:
		x.status = statelessStatus(x.err.Code)
	case f.Reason == exchange.ReasonEra:
		if f.Served != 0 {
			served &= f.Served
		}
		x.err = negotiate.UnsupportedVersion(served, requested)
		x.status = http.StatusBadRequest
	case f.Reason == exchange.ReasonBusy || f.RetryAfter > 0: // too_many_suspended and its like (translation.md 7.3.7)
		x.status, x.retryAfter = http.StatusServiceUnavailable, max(f.RetryAfter, time.Second)
	case f.Challenge != "":
		x.status, x.challenge = f.Status, f.Challenge
	default:
		x.status = http.StatusOK
	}
	return x
}

// statelessStatus returns the status that a JSON-RPC error of the server comes with (2026-07-28
// basic/transports/streamable-http; translation.md 3.1 step 10).
func statelessStatus(code int) int {
	switch code {
	case jsonrpc.CodeMethodNotFound:
		return http.StatusNotFound
	case jsonrpc.CodeMissingCapability, jsonrpc.CodeHeaderMismatch, jsonrpc.CodeUnsupportedVersion:
		return http.StatusBadRequest
	}
	return http.StatusOK
}
