package translate

import (
	"context"
	"time"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
	"github.com/mcp-dualstack/bridge/negotiate"
)

// An inputRequired is what a client is asked in one round.
type inputRequired struct {
	s         *suspender
	token     token // without its digest
	params    []byte
	questions []*question
}

// asking returns what a client is asked, with a token of that kind.
func (c *call) asking(kind tokenKind, exp time.Time, qs []*question) *inputRequired {
	return &inputRequired{s: c.s, params: c.params, questions: qs, token: token{
		kind: kind, exp: exp, principal: c.principal, method: c.method, upstream: c.s.o.Upstream, owner: c.s.o.Owner,
	}}
}

// result returns the InputRequiredResult of 2026-07-28. Without questions it has a requestState only.
func (r *inputRequired) result() (exchange.Response, error) {
	if len(r.token.inner) > maxInner {
		r.s.reached(BoundState)
		r.s.log.Warn("requestState too large", "bytes", len(r.token.inner))
		return exchange.Response{Error: internal(reasonStateTooLarge, "what has to be kept between the rounds of this call is too large")}, nil
	}
	r.token.digest = salientDigest(r.params)
	state := r.s.sealed(&r.token)
	size := len(state) + 64
	for _, q := range r.questions {
		size += len(q.key) + len(q.method) + len(q.params) + 32
	}
	out := append(make([]byte, 0, size), `{"resultType":"input_required",`...)
	if len(r.questions) > 0 {
		out = append(out, `"inputRequests":{`...)
		for i, q := range r.questions {
			if i > 0 {
				out = append(out, ',')
			}
			out = append(append(append(out, '"'), q.key...), `":`...)
			out = q.append(out)
		}
		out = append(out, `},`...)
	}
	out = append(append(append(out, `"requestState":"`...), state...), `"}`...)
	return exchange.Response{Result: out}, nil
}

// sealed returns the text of a token, and reports one that is large (translation.md 7.2).
func (s *suspender) sealed(t *token) string {
	text := s.keys.seal(t)
	if len(text) > largeToken {
		s.reached(BoundLargeState)
		s.log.Warn("large requestState", "method", t.method, "bytes", len(text))
	}
	return text
}

// refuse returns the -32602 of a requestState. It does not say which check failed.
func refuse(reason string) *exchange.Error {
	text := "the requestState is not valid for this request; send the request without it"
	switch reason {
	case reasonStateExpired:
		text = "the requestState has expired; send the request without it"
	case reasonStateUsed:
		text = "the requestState has been used; send the request without it"
	}
	return negotiate.Refused(jsonrpc.CodeInvalidParams, reason, "Invalid params: %s", text)
}

// internal returns a -32603 of the bridge's own.
func internal(reason, format string, args ...any) *exchange.Error {
	return negotiate.Refused(jsonrpc.CodeInternal, reason, format, args...)
}

// A claim is what a request must match to use a token.
type claim struct {
	principal principalHash
	method    string
	digest    [32]byte
}

// check opens the requestState of a request and compares it with the request (translation.md 7.2). Which check
// failed is only logged.
func (s *suspender) check(raw []byte, c claim) (*token, *exchange.Error) {
	text, ok := jsonrpc.String(raw)
	if !ok {
		return nil, s.refuseState(c.method, reasonStateInvalid, "not a string")
	}
	t, err := s.keys.open(text)
	if err != nil {
		return nil, s.refuseState(c.method, reasonStateInvalid, err.Error())
	}
	switch {
	case t.principal != c.principal:
		return nil, s.refuseState(c.method, reasonStateInvalid, "another principal")
	case t.method != c.method:
		return nil, s.refuseState(c.method, reasonStateInvalid, "another method")
	case t.digest != c.digest:
		return nil, s.refuseState(c.method, reasonStateInvalid, "other params")
	case t.upstream != s.o.Upstream:
		return nil, s.refuseState(c.method, reasonStateInvalid, "another upstream")
	case !time.Now().Before(t.exp):
		return nil, s.refuseState(c.method, reasonStateExpired, "expired")
	}
	return t, nil
}

func (s *suspender) refuseState(method, reason, check string) *exchange.Error {
	s.log.Warn("requestState refused", "method", method, "reason", reason, "check", check)
	return refuse(reason)
}

// retry serves a request that carries the token t of a suspended call, by the table of translation.md 7.3.4.
func (s *suspender) retry(ctx context.Context, t *token, params []byte, v *visit) (exchange.Response, error) {
	if t.owner != s.o.Owner {
		s.log.Warn("requestState of another replica", "method", t.method, "owner", t.owner)
		return exchange.Response{Error: internal(reasonOwner, "the replica of the bridge that holds this call cannot be reached from here")}, nil
	}
	c, o, err := s.reattach(t, params, v)
	switch {
	case err != nil:
		return failed(err)
	case o != nil:
		return c.conclude(o, v)
	}
	return c.attend(ctx, v)
}

// failed returns an error as an answer where it is one of the bridge's own.
func failed(err error) (exchange.Response, error) {
	if e, ok := err.(*exchange.Error); ok {
		return exchange.Response{Error: e}, nil
	}
	return exchange.Response{}, err
}

// reattach gives the call of a token its answers and the request v, or returns its outcome, or says why there is
// neither.
func (s *suspender) reattach(t *token, params []byte, v *visit) (*call, *outcome, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.calls[t.call]
	if c == nil {
		return nil, nil, s.gone(t)
	}
	if t.round != c.round || !c.waits() {
		return nil, nil, s.refuseState(t.method, reasonStateUsed, "an older round, or the call is running")
	}
	if c.state == stateParked {
		o := c.outcome
		c.end(*o, ending{refuse(reasonStateUsed)})
		return c, o, nil
	}
	answers, err := readAnswers(c.pending, jsonrpc.Get(params, "inputResponses"))
	if err != nil {
		return nil, nil, err
	}
	rest := c.pending[:0:0]
	for i, q := range c.pending {
		if answers[i] == nil {
			rest = append(rest, q)
		}
	}
	if c.lacking(v.declared, rest...) {
		return c, c.outcome, nil
	}
	c.unwait()
	for i, q := range c.pending {
		if answers[i] != nil {
			q.answer <- answerOf(answers[i])
		}
	}
	// What is left has been asked or queued before: the client is told at once.
	c.pending, c.state, c.visit = rest, stateRunning, v
	c.first, c.latest = time.Time{}, time.Time{}
	return c, nil, nil
}

// gone says why there is no call of a token of this replica's. The caller holds mu.
func (s *suspender) gone(t *token) error {
	if e, known := s.ended.Get(t.call); known {
		s.log.Warn("requestState refused", "method", t.method, "check", "call has ended", "err", e.why)
		return e.why
	}
	s.log.Warn("requestState of a call that is not known", "method", t.method)
	return exchange.Fail(exchange.ReasonLost, nil)
}

// readAnswers returns what inputResponses has for each question, nil where it has nothing. The error is -32602: it
// is not an object, or a value has not the shape of an answer to its question.
func readAnswers(qs []*question, raw []byte) ([][]byte, error) {
	answers := make([][]byte, len(qs))
	if jsonrpc.IsNull(raw) {
		return answers, nil
	}
	if !jsonrpc.IsObject(raw) {
		return nil, negotiate.Refused(jsonrpc.CodeInvalidParams, reasonInput, "Invalid params: inputResponses must be an object")
	}
	for i, q := range qs {
		value := jsonrpc.Get(raw, q.key)
		if value == nil || q.key == "" {
			continue
		}
		if !answersInput(q.method, value) {
			return nil, negotiate.Refused(jsonrpc.CodeInvalidParams, reasonInput,
				"Invalid params: inputResponses %q is no result of %s; the call still waits for one", q.key, q.method)
		}
		answers[i] = value
	}
	return answers, nil
}
