package translate

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"

	"github.com/mcp-dualstack/bridge/exchange"
)

// A callState is where a call is (translation.md 7.3). EXPIRED and LOST are over, with an ending that says so.
type callState uint8

const (
	stateRunning   callState = iota // the server works, a request of the client's is attached
	stateSuspended                  // the server waits for answers, no request is attached
	stateParked                     // the server has ended the call, and no request has fetched the outcome
	stateOver
)

// A call is one call of the server, from the client's first request to its outcome, across the requests by which the
// client answers questions. It is the peer of the server's call. The mutable fields are guarded by mu of the suspender.
type call struct {
	s         *suspender
	sess      *suspendSession // that began the call; the one below it stays open until the call has returned
	id        callID
	principal principalHash
	method    string
	params    []byte // of the first request, as the client sent them
	began     time.Time
	ctx       context.Context // of this running exchange; its end cancels the server's call
	cancel    context.CancelCauseFunc
	urls      *urlState          // not nil when the call is made again after URLs have been visited
	journal   *journal           // not nil for a tool that is run again in each round
	affinity  *exchange.Affinity // not nil where the server may ask for URLs to be visited

	state   callState
	round   uint64 // of the newest token
	since   time.Time
	expiry  *time.Timer // while suspended or parked
	visit   *visit      // the attached request while running
	pending []*question // in the order they were asked
	first   time.Time   // arrival of the first and the latest question that the attached request has
	latest  time.Time   // not yet been told; zero: there are older ones, do not wait for siblings
	outcome *outcome    // nil until the call has ended
}

// An outcome is how a call ended.
type outcome struct {
	resp exchange.Response
	err  error
	own  bool // the bridge's own refusal, which nothing is to be mapped in
}

// newCall returns a call that has what ctx carries, but not its end.
func newCall(ctx context.Context, s *suspender, sess *suspendSession, req exchange.Request) *call {
	c := &call{s: s, sess: sess, principal: sess.principal, method: req.Method, params: req.Params, began: time.Now()}
	rand.Read(c.id[:]) // never fails
	c.ctx, c.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	if sess.declared.url {
		c.affinity = &exchange.Affinity{}
		c.ctx = exchange.WithAffinity(c.ctx, c.affinity)
	}
	return c
}

// start calls the server in a goroutine of its own, which may outlive the client's request. It ends when the call
// does, and suspender.close waits for it.
func (c *call) start(req exchange.Request, v *visit) error {
	c.visit = v
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	if c.s.closed || !c.sess.hold() {
		c.cancel(nil)
		return errHandlerClosed
	}
	c.s.calls[c.id] = c
	c.s.wg.Go(func() {
		defer c.sess.release()
		resp, err := c.sess.below.Call(c.ctx, req, c)
		c.cancel(nil)
		c.finish(outcome{resp: resp, err: err})
	})
	return nil
}

// finish takes the outcome of the server's call: for the attached request, or to be parked for the next one.
func (c *call) finish(o outcome) {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	if c.state == stateOver || c.outcome != nil {
		return
	}
	if c.state == stateSuspended && o.err != nil {
		c.s.log.Info("suspended call lost", "method", c.method, "err", o.err)
		c.end(o, ending{o.err})
		return
	}
	c.outcome = &o
	if c.state == stateSuspended {
		c.state = stateParked
		return
	}
	c.visit.notify()
}

// waits reports whether the call waits for its client. The caller holds mu.
func (c *call) waits() bool { return c.state == stateSuspended || c.state == stateParked }

// end takes the call out. Requests that come later for it are told why. A call that runs on is for the caller to
// cancel. The caller holds mu.
func (c *call) end(o outcome, e ending) {
	if c.state == stateOver {
		return
	}
	c.unwait()
	c.state = stateOver
	if c.outcome == nil {
		c.outcome = &o
	}
	c.pending = nil
	delete(c.s.calls, c.id)
	if c.round > 0 {
		c.s.ended.Add(c.id, e)
	}
	if c.visit != nil {
		c.visit.notify()
	}
}

// unwait stops the clock of a waiting call and its count. The caller holds mu.
func (c *call) unwait() {
	if !c.waits() {
		return
	}
	c.expiry.Stop()
	c.s.waiting--
	if c.s.waitingOf[c.principal]--; c.s.waitingOf[c.principal] == 0 {
		delete(c.s.waitingOf, c.principal)
	}
}

// errNoAnswer is the cause of a call whose client did not come back (translation.md 7.3.6).
var errNoAnswer = &exchange.CancelError{Reason: "the client did not answer"}

// expire ends a waiting call: the server hears first that it is cancelled, then that nobody answered. The caller
// holds mu.
func (c *call) expire() {
	c.end(outcome{err: errNoAnswer}, ending{refuse(reasonStateExpired)})
	c.cancel(errNoAnswer)
}

// attend serves the attached request v until the call has an outcome or asks the client.
func (c *call) attend(ctx context.Context, v *visit) (exchange.Response, error) {
	for {
		n := c.next(v)
		c.s.reached(n.bound)
		if n.outcome != nil || n.ask != nil {
			v.telling.Wait() // what was said before is heard before (architecture.md 3, contract 5)
		}
		if n.outcome != nil {
			return c.conclude(n.outcome, v)
		}
		if n.ask != nil {
			return n.ask.result()
		}
		var due <-chan time.Time
		if n.wait > 0 {
			due = time.After(n.wait)
		}
		select {
		case <-v.wake:
		case <-due:
		case <-ctx.Done():
			return exchange.Response{}, c.abandon(context.Cause(ctx))
		}
	}
}

// abandon ends the call because its client has gone (translation.md 7.3.5).
func (c *call) abandon(cause error) error {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	c.end(outcome{err: cause}, ending{refuse(reasonStateUsed)})
	c.cancel(cause)
	return cause
}

// A step is what the attached request does: take the outcome, ask, or wait; wait is zero for as long as it takes.
type step struct {
	outcome *outcome
	ask     *inputRequired
	wait    time.Duration
	bound   string // that was reached, empty for none
}

func (c *call) next(v *visit) step {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	if c.outcome != nil {
		o := c.outcome
		c.end(*o, ending{refuse(reasonStateUsed)})
		return step{outcome: o}
	}
	if len(c.pending) == 0 {
		return step{}
	}
	due := c.latest.Add(c.s.o.GatherQuiet)
	if whole := c.first.Add(c.s.o.GatherMax); whole.Before(due) {
		due = whole
	}
	if wait := time.Until(due); wait > 0 && !c.first.IsZero() {
		return step{wait: wait}
	}
	return c.suspend(v)
}

// suspend asks the client what is pending and lets go of its request, if the limits allow. The caller holds mu.
func (c *call) suspend(v *visit) step {
	bound, refusal := c.beyond()
	if refusal != nil {
		c.cancel(errNoAnswer)
		o := outcome{resp: exchange.Response{Error: refusal}, own: true}
		c.end(o, ending{refuse(reasonStateExpired)})
		return step{outcome: &o, bound: bound}
	}
	c.round++
	fresh := 0
	for _, q := range c.pending {
		if q.key == "" {
			fresh++
			q.key = c.journal.keyOf(q, fmt.Sprintf("%d.%d", c.round, fresh))
		}
	}
	now := time.Now()
	exp := now.Add(c.s.o.TTL)
	if last := c.began.Add(c.s.o.Lifetime); last.Before(exp) {
		exp = last
	}
	ask := c.asking(kindSuspend, exp, append([]*question(nil), c.pending...))
	ask.token.call, ask.token.round = c.id, c.round
	if c.journal != nil {
		ask.token.kind, ask.token.inner = kindJournal, c.journal.encode(c.pending)
		c.cancel(errNoAnswer)
		c.round = 0 // its tokens are no tokens of this call
		c.end(outcome{err: errNoAnswer}, ending{})
		return step{ask: ask}
	}
	c.state, c.visit, c.since = stateSuspended, nil, now
	c.s.waiting++
	c.s.waitingOf[c.principal]++
	round := c.round
	c.expiry = time.AfterFunc(exp.Sub(now), func() { c.timeUp(round) })
	return step{ask: ask, bound: bound}
}

// beyond returns the refusal if the call may not have another round, and the bound that was reached, for which an
// older call may have made room. The caller holds mu.
func (c *call) beyond() (bound string, refusal *exchange.Error) {
	switch {
	case c.round >= uint64(c.s.o.MaxRounds): // #nosec G115 -- a positive bound
		return BoundRounds, internal(reasonTooManyRounds, "the server asked in more than %d rounds; the call has been cancelled", c.s.o.MaxRounds)
	case time.Since(c.began) >= c.s.o.Lifetime:
		return BoundRounds, internal(reasonTooManyRounds, "the call has gone on for more than %s; it has been cancelled", c.s.o.Lifetime)
	case c.journal != nil || !c.s.full(c.principal):
		return "", nil
	case c.s.evict(c.principal):
		return BoundSuspended, nil
	}
	return BoundSuspended, internal(reasonTooMany, "too many calls wait for an answer of their clients; the call has been cancelled")
}

// timeUp is run by the clock of a round.
func (c *call) timeUp(round uint64) {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	if c.waits() && c.round == round {
		c.expire()
	}
}
