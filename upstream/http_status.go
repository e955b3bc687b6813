package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/mcp-dualstack/bridge/exchange"
)

// statusFailure is the failure of a request whose response holds no answer to it, by the HTTP status (translation.md 13).
func (l *leg) statusFailure(resp *http.Response) *exchange.Failure {
	f := &exchange.Failure{Err: fmt.Errorf("%s answered with HTTP status %d", l.shown, resp.StatusCode)}
	switch {
	case resp.StatusCode == http.StatusUnauthorized || resp.StatusCode == http.StatusForbidden:
		f.Reason = exchange.ReasonAuth
		if l.o.PassThrough {
			f.Status, f.Challenge = resp.StatusCode, resp.Header.Get("Www-Authenticate")
		}
	case resp.StatusCode == http.StatusTooManyRequests || resp.StatusCode == http.StatusServiceUnavailable:
		f.Reason, f.RetryAfter = exchange.ReasonBusy, retryAfter(resp.Header.Get("Retry-After"))
	case resp.StatusCode/100 == 2:
		f.Reason = exchange.ReasonInvalid
	default:
		f.Reason = exchange.ReasonUnavailable
		f.Message = fmt.Sprintf("the server behind the bridge refused the request with HTTP status %d", resp.StatusCode)
	}
	return f
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
