package telemetry

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/mcp-dualstack/bridge/exchange"
)

// Upstream returns next with the requests to the server measured and traced: the client's side of the conventions. It belongs
// directly before the server. Where spans are made and this one is recorded, the parent in the _meta of a request is replaced by
// this span (SEP-414); otherwise every byte stays as it is.
func (s *Signals) Upstream(next exchange.Handler) exchange.Handler { return &asked{s, next} }

type asked struct {
	s    *Signals
	next exchange.Handler
}

// Open opens the conversation with the server.
func (h *asked) Open(ctx context.Context, c exchange.Client) (exchange.Session, error) {
	begun := time.Now()
	sess, err := h.next.Open(ctx, c)
	if err != nil {
		h.s.client.leg(h.s.reach.last(), c.Revision).record(ctx, operation{method: "initialize"}.refusedOpen(ctx, err), time.Since(begun))
		return nil, err
	}
	spoken := sess.Server().Revision
	l := h.s.client.leg(h.s.reach.now(), spoken)
	session := c.Session != "" && !spoken.Modern()
	if session {
		l.record(ctx, operation{method: "initialize", outcome: outcomeOK}, time.Since(begun))
	}
	return &askedSession{Session: sess, s: h.s, leg: l, session: session, begun: begun}, nil
}

// A reach is how the server is reached, as a label value. It is asked for when a conversation has begun, because then it is known,
// and not more often than every reachEvery.
type reach struct {
	ask   func() string
	known atomic.Pointer[string]
	until atomic.Int64 // Unix nanoseconds
}

const reachEvery = 10 * time.Second

// last returns what was known last.
func (r *reach) last() string {
	if t := r.known.Load(); t != nil {
		return *t
	}
	return ""
}

// now returns what is known, asked for if it is old.
func (r *reach) now() string {
	now, until := time.Now().UnixNano(), r.until.Load()
	if now < until || !r.until.CompareAndSwap(until, now+int64(reachEvery)) {
		return r.last()
	}
	t := r.ask()
	switch t {
	case "": // not known at the moment
		return r.last()
	case "pipe":
		t = transportInProcess
	}
	r.known.Store(&t)
	return t
}

// An askedSession is a conversation with the server.
type askedSession struct {
	exchange.Session

	s       *Signals
	leg     *leg
	session bool // it began with a handshake
	begun   time.Time
	closed  atomic.Bool
}

// Call measures the call, and learns the names that the server lists.
func (c *askedSession) Call(ctx context.Context, req exchange.Request, back exchange.Peer) (exchange.Response, error) {
	op := operation{method: methodLabel(req.Method), subject: c.s.subjectOf(&req)}
	begun := c.s.clock()
	ctx, span := c.s.startAsked(ctx, op, c.leg, &req)
	resp, err := c.Session.Call(ctx, req, back)
	took := c.s.clock() - begun
	op = op.ended(ctx, resp, err)
	c.leg.record(ctx, op, took)
	endSpan(span, op)
	c.s.logAsked(ctx, c.leg, op, took)
	if op.outcome == outcomeOK {
		switch req.Method {
		case "tools/list":
			c.s.tools.learn(resp.Result)
		case "prompts/list":
			c.s.prompts.learn(resp.Result)
		}
	}
	return resp, err
}

// Notify measures the notification.
func (c *askedSession) Notify(ctx context.Context, note exchange.Request) error {
	begun := time.Now()
	err := c.Session.Notify(ctx, note)
	c.leg.record(ctx, operation{method: methodLabel(note.Method)}.ended(ctx, exchange.Response{}, err), time.Since(begun))
	return err
}

// Close ends the conversation; the first time it is the end of the session.
func (c *askedSession) Close() error {
	fault := endOf(c.Session)
	err := c.Session.Close()
	if c.session && !c.closed.Swap(true) {
		c.s.events.clientSession.Record(context.Background(), time.Since(c.begun).Seconds(), sessionAttributes(c.leg, fault))
	}
	return err
}
