package streamable

import (
	"net/http"
	"time"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
	"github.com/mcp-dualstack/bridge/negotiate"
)

// Refusals for want of room. A bound that is the client's own is 429, one that all share 503. They are given only to
// those whose session is known: nothing may hide a 404 (R05).
var (
	refusedSessions = full(http.StatusServiceUnavailable, 5*time.Second, "max_sessions", negotiate.Refused(jsonrpc.CodeInternal, negotiate.ReasonTooManySessions,
		"too many sessions are open; try again later"))
	refusedOwnSessions = full(http.StatusTooManyRequests, 5*time.Second, "max_sessions_per_principal", negotiate.Refused(jsonrpc.CodeInternal, negotiate.ReasonTooManySessions,
		"too many sessions of yours are open; end some with DELETE"))
	refusedStreams = full(http.StatusServiceUnavailable, 5*time.Second, "max_streams", negotiate.Refused(jsonrpc.CodeInternal, negotiate.ReasonTooManyStreams,
		"too many streams are open; try again later"))
	refusedOwnStreams = full(http.StatusTooManyRequests, time.Second, "max_streams_per_session", negotiate.Refused(jsonrpc.CodeInternal, negotiate.ReasonTooManyStreams,
		"too many streams of this session are open; close some"))
	refusedCalls = full(http.StatusServiceUnavailable, time.Second, "max_calls_in_total", negotiate.Refused(jsonrpc.CodeInternal, exchange.ReasonTooManyCalls,
		"too many calls of all clients are in flight; try again later"))
	refusedOwnCalls  = full(http.StatusTooManyRequests, time.Second, "max_calls", exchange.PublicError(exchange.Fail(exchange.ReasonTooManyCalls, nil)))
	refusedStateless = full(http.StatusServiceUnavailable, time.Second, "max_stateless", negotiate.Refused(jsonrpc.CodeInternal, exchange.ReasonTooManyCalls,
		"too many requests of all clients are in flight; try again later"))
)

func full(status int, retryAfter time.Duration, bound string, e *jsonrpc.Error) *refusal {
	return &refusal{status: status, retryAfter: retryAfter, bound: bound, err: e}
}

// reserve makes room for one more session of a principal. Who is not authenticated shares one name with everybody
// else like that, so only the total counts.
func (f *Front) reserve(principal string) *refusal {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.reserved >= f.o.MaxSessions:
		return refusedSessions
	case principal != "" && f.principals[principal] >= f.o.MaxSessionsPerPrincipal:
		return refusedOwnSessions
	}
	f.reserved++
	if principal != "" {
		f.principals[principal]++
	}
	return nil
}

// vacate takes a session out of the table and gives its room back. The caller holds mu.
func (f *Front) vacate(s *session) {
	delete(f.sessions, s.id)
	f.reserved--
	if s.principal == "" {
		return
	}
	if f.principals[s.principal]--; f.principals[s.principal] == 0 {
		delete(f.principals, s.principal)
	}
}

// openStream counts in a stream of s, which closeStream counts out.
func (f *Front) openStream(s *session) *refusal {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case s.carried >= f.o.MaxStreamsPerSession:
		return refusedOwnStreams
	case f.streams >= f.o.MaxStreams:
		return refusedStreams
	}
	f.streams++
	s.carried++
	return nil
}

func (f *Front) closeStream(s *session) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.streams--
	s.carried--
}

// begin counts a request of a session in, or says why not.
func (f *Front) begin() *refusal {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.draining:
		return refusedShutdown
	case f.calls-f.stateless >= f.o.MaxCallsInTotal:
		return refusedCalls
	}
	f.calls++
	return nil
}

// end counts out a request that begin counted in.
func (f *Front) end() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls--
	f.hush()
}

func (f *Front) beginStateless(method string) *refusal {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.draining:
		return refusedShutdown
	case f.stateless >= f.o.MaxStateless:
		return refusedStateless
	}
	f.calls++
	f.stateless++
	if method == methodListen {
		f.listens++
	}
	return nil
}

func (f *Front) endStateless(method string) {
	f.mu.Lock()
	f.stateless--
	if method == methodListen {
		f.listens--
	}
	f.calls--
	f.hush()
	f.mu.Unlock()
}
