package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
	"github.com/mcp-dualstack/bridge/negotiate"
)

// statusFailure is the failure of a request whose response holds no answer to it, by the HTTP status (translation.md 13).
func (l *leg) statusFailure(resp *http.Response) *exchange.Failure {
	f := &exchange.Failure{Err: &statusError{l.shown, resp.StatusCode}}
	switch {
	case resp.StatusCode == http.StatusUnauthorized || resp.StatusCode == http.StatusForbidden:
		f.Reason = exchange.ReasonAuth
		if l.o.PassThrough {
			f.Status = resp.StatusCode
			if c := resp.Header.Get("Www-Authenticate"); len(c) <= maxChallengeBytes {
				f.Challenge = c
			}
		}
	case resp.StatusCode == http.StatusTooManyRequests || resp.StatusCode == http.StatusServiceUnavailable:
		f.Reason, f.RetryAfter, f.Answered = exchange.ReasonBusy, retryAfter(resp.Header.Get("Retry-After")), true
	case resp.StatusCode/100 == 2:
		f.Reason = exchange.ReasonInvalid
	default:
		f.Reason = exchange.ReasonUnavailable
		f.Message = fmt.Sprintf("the server behind the bridge refused the request with HTTP status %d", resp.StatusCode)
	}
	return f
}

// maxChallengeBytes bounds what is passed on of a WWW-Authenticate field.
const maxChallengeBytes = 8 << 10

// A statusError is the cause of a failure that an HTTP status stands for.
type statusError struct {
	shown  string // URL for the log
	status int
}

func (e *statusError) Error() string {
	return fmt.Sprintf("%s answered with HTTP status %d", e.shown, e.status)
}

// methodNotFound is the answer to a request that a handshake-era server refused by a bare HTTP status, where no revision of
// that era has its method: -32601, which such a server means (measured: go-sdk v1.8.0 answers 400 with a plain
// text). ok is false where the status may mean anything.
func methodNotFound(method string, err error) (resp exchange.Response, ok bool) {
	refusal, is := errors.AsType[*statusError](err)
	if !is || slices.Contains(handshakeMethods, method) {
		return resp, false
	}
	switch refusal.status {
	case http.StatusBadRequest, http.StatusNotFound, http.StatusNotImplemented:
		return exchange.Response{Error: negotiate.Refused(jsonrpc.CodeMethodNotFound, negotiate.ReasonUnknownMethod,
			"Method not found: %.64s; the server behind the bridge answered it with HTTP status %d", method, refusal.status)}, true
	}
	return resp, false
}

// handshakeMethods are the requests that a client may send in some revision of the handshake era (schema, ClientRequest).
var handshakeMethods = []string{
	"initialize", "ping", "tools/list", "tools/call", "prompts/list", "prompts/get", "completion/complete", "logging/setLevel",
	"resources/list", "resources/templates/list", "resources/read", "resources/subscribe", "resources/unsubscribe",
	"tasks/get", "tasks/list", "tasks/cancel", "tasks/result",
}

// maxRetryAfter bounds what a server may ask for.
const maxRetryAfter = time.Hour

// retryAfter reads the header's seconds or date; 0 if it has neither.
func retryAfter(v string) time.Duration {
	if n, err := strconv.ParseUint(v, 10, 32); err == nil {
		return min(time.Duration(n)*time.Second, maxRetryAfter)
	}
	if t, err := http.ParseTime(v); err == nil {
		return min(max(time.Until(t), 0), maxRetryAfter)
	}
	return 0
}

// sendFailure is the failure of a request that had no response, or only part of one.
func (l *leg) sendFailure(err error) error {
	te, ok := errors.AsType[*transportError](err)
	switch {
	case ok && te.untouched:
		return exchange.Fail(exchange.ReasonUnavailable, fmt.Errorf("%s: %w", l.shown, te.err))
	case ok, errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return exchange.Fail(exchange.ReasonStreamLost, fmt.Errorf("%s: %w", l.shown, err))
	}
	if f, ok := errors.AsType[*exchange.Failure](err); ok {
		return f
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return exchange.Fail(exchange.ReasonTimeout, err)
	}
	return err
}

// repeatable reports whether a request of that method may be sent again though it may have run (translation.md 1.5).
func repeatable(method string) bool {
	switch method {
	case "tools/list", "prompts/list", "resources/list", "resources/templates/list", "resources/read", "completion/complete", methodDiscover:
		return true
	}
	return false
}

// redialDelay is the wait before a request is sent again.
const redialDelay = 250 * time.Millisecond

// pauseFor waits; the error is the cause of ctx.
func pauseFor(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
