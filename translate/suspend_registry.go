package translate

import (
	"context"
	"log/slog"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
)

// Reasons of this package, for data.bridge.reason (translation.md 7).
const (
	reasonStateInvalid  = "state_invalid"
	reasonStateExpired  = "state_expired"
	reasonStateUsed     = "state_used"
	reasonStateTooLarge = "state_too_large"
	reasonOwner         = "owner_unavailable"
	reasonTooMany       = "too_many_suspended"
	reasonQuestions     = "too_many_questions"
	reasonListens       = "too_many_listens"
	reasonInput         = "invalid_input_response"
	reasonQuestion      = "invalid_input_request"
	reasonUnsolicited   = "no_call_to_ask_for"
	reasonDeclined      = "declined"
)

// retrySuspended is what a client is told to wait when there is no room for another suspended call.
const retrySuspended = 5 * time.Second

// A suspender holds what outlives one request of a modern client in front of a handshake-era server: suspended
// calls, watch sessions, and the keys of what clients hold. Methods may be called concurrently.
type suspender struct {
	o    SuspendOptions
	keys *keyring
	next exchange.Handler
	log  *slog.Logger

	roots   []byte                     // Options.Roots
	observe func(exchange.Observation) // Options.Observe

	ctx    context.Context // ends with Close; parent of what outlives a request
	cancel context.CancelCauseFunc
	wg     sync.WaitGroup // every goroutine

	visited *completions
	listens listens

	// mu guards the fields below and those of all calls. It is never held across a call into another package
	// that may wait.
	mu        sync.Mutex
	closed    bool
	calls     map[callID]*call // whose outcome has not been had
	waiting   int              // calls that are suspended or parked
	waitingOf map[principalHash]int
	ended     *lru.Cache[callID, ending] // calls that ended while clients hold tokens
}

// An ending says why there is no call under an id any more.
type ending struct {
	why error // what the client is told
}

func newSuspender(next exchange.Handler, opts SuspendOptions, log *slog.Logger) (*suspender, error) {
	o, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	keys, err := newKeyring(o.Secrets)
	if err != nil {
		return nil, err
	}
	s := &suspender{
		o: o, keys: keys, next: next, log: log,
		calls: make(map[callID]*call), waitingOf: make(map[principalHash]int),
	}
	if s.ended, err = lru.New[callID, ending](4 * o.MaxTotal); err != nil {
		return nil, err
	}
	s.visited = newCompletions(8 * o.MaxTotal)
	s.listens.init(s)
	s.ctx, s.cancel = context.WithCancelCause(context.Background())
	return s, nil
}

// Check reports everything that is wrong with o, joined.
func (o SuspendOptions) Check() error {
	_, err := newSuspender(nil, o, nil)
	return err
}

var errHandlerClosed error = exchange.Fail(exchange.ReasonClosed, nil)

// close ends every call and listen, and waits for all goroutines.
func (s *suspender) close() {
	s.mu.Lock()
	s.closed = true
	for _, c := range s.calls {
		c.end(outcome{err: errHandlerClosed}, ending{errHandlerClosed})
		c.cancel(errHandlerClosed)
	}
	s.mu.Unlock()
	s.cancel(errHandlerClosed)
	s.wg.Wait()
}

// spawn runs f in a goroutine that close waits for. It returns false when the suspender has been closed.
func (s *suspender) spawn(f func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.wg.Go(f)
	return true
}

// admit makes sure that a call that may suspend can be held, ending the oldest of the same principal for it if need
// be. The error is a *exchange.Failure too_many_suspended.
func (s *suspender) admit(p principalHash) error {
	s.mu.Lock()
	full := s.full(p)
	room := !full || s.evict(p)
	s.mu.Unlock()
	if full {
		s.reached(BoundSuspended)
	}
	if room {
		return nil
	}
	return &exchange.Failure{
		Reason: reasonTooMany, RetryAfter: retrySuspended,
		Message: "too many calls wait for an answer of their clients; answer some of them or try again later",
	}
}

// full reports whether a bound on suspended calls has been reached. The caller holds mu.
func (s *suspender) full(p principalHash) bool {
	return s.waiting >= s.o.MaxTotal || s.waitingOf[p] >= s.o.MaxPerPrincipal
}

// evict ends the oldest suspended call of p if it has waited long enough (translation.md 7.3.7). The caller holds mu.
func (s *suspender) evict(p principalHash) bool {
	var oldest *call
	for _, c := range s.calls {
		if c.principal == p && c.waits() && (oldest == nil || c.since.Before(oldest.since)) {
			oldest = c
		}
	}
	if oldest == nil || time.Since(oldest.since) < s.o.EvictAfter {
		return false
	}
	s.log.Info("suspended call ended to make room", "method", oldest.method, "waited", time.Since(oldest.since))
	oldest.expire()
	return true
}

// dropped reports a note that c would have had to be told of and was not.
func (s *suspender) dropped(c exchange.Client, method string) {
	if s.observe != nil {
		s.observe(exchange.Observation{
			Kind: exchange.SeenDropped, Detail: method, Transport: c.Transport, Session: c.Session, Principal: c.Principal, Addr: c.Addr, UserAgent: c.UserAgent,
		})
	}
}

// makeRoom is evict for a caller that found the pool of upstream sessions full.
func (s *suspender) makeRoom(p principalHash) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.evict(p)
}

// Owner returns the replica that holds the call which a request's params are a retry of; ok is false if they are of no
// suspended call that h knows the key of. h is a Handler of this package.
func Owner(h exchange.Handler, params []byte) (owner string, ok bool) {
	th, is := h.(*handler)
	if !is {
		return "", false
	}
	text, is := jsonrpc.String(jsonrpc.Get(params, "requestState"))
	if !is {
		return "", false
	}
	t, err := th.suspender.keys.open(text)
	if err != nil || t.kind != kindSuspend {
		return "", false
	}
	return t.owner, true
}
