package telemetry

import (
	"context"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/mcp-dualstack/bridge/exchange"
)

// Outcomes of the begin of a session.
const (
	openedAccepted   = "accepted"
	openedRefused    = "refused"
	openedFailed     = "failed"
	openedReattached = "reattached" // came back without a handshake (retirement.md R8)
)

// Served returns next with the requests of clients measured, traced and, at debug, logged: the server's side of the conventions.
// It belongs directly behind the fronts.
func (s *Signals) Served(next exchange.Handler) exchange.Handler { return &served{s, next} }

type served struct {
	s    *Signals
	next exchange.Handler
}

// Open opens the conversation. That of a session is an operation of its own, initialize; that of a stateless client is part of the
// request that comes with it, and seen only if it fails.
func (h *served) Open(ctx context.Context, c exchange.Client) (exchange.Session, error) {
	l := h.s.server.leg(c.Transport, c.Revision)
	if c.Session == "" {
		begun := time.Now()
		sess, err := h.next.Open(ctx, c)
		if err != nil {
			l.record(ctx, operation{method: other}.refusedOpen(ctx, err), time.Since(begun))
			return nil, err
		}
		return &servedSession{Session: sess, s: h.s, leg: l}, nil
	}
	op := operation{method: "initialize"}
	ctx = h.s.numbered(ctx)
	begun := time.Now()
	ctx, span := h.s.startServed(ctx, op, l, nil, c.Session)
	sess, err := h.next.Open(ctx, c)
	took := time.Since(begun)
	op.outcome = outcomeOK
	if err != nil {
		op = op.refusedOpen(ctx, err)
	}
	if !c.Reopened {
		l.record(ctx, op, took)
	}
	endSpan(span, op)
	h.s.opened(ctx, l, &c, op.outcome)
	if err != nil {
		return nil, err
	}
	h.s.events.active.Add(ctx, 1, l.session)
	return &servedSession{Session: sess, s: h.s, leg: l, id: c.Session, begun: begun}, nil
}

// opened counts and logs the begin of a session, or that it came to nothing.
func (s *Signals) opened(ctx context.Context, l *leg, c *exchange.Client, outcome string) {
	result := openedFailed
	switch {
	case outcome == outcomeCancelled:
		return // the client went away
	case outcome == outcomeOK && c.Reopened:
		result = openedReattached
	case outcome == outcomeOK:
		result = openedAccepted
	case outcome == outcomeError:
		result = openedRefused
	}
	name, _, _ := readInfo(c.Info)
	s.events.opened.Add(ctx, 1, with(labelTransport.String(l.transport), labelRevision.String(l.revision),
		labelClient.String(s.names.has(name)), labelOutcome.String(result)))
	if c.Transport != exchange.HTTPSSE {
		return
	}
	s.logOpened(ctx, l, c, name, result)
	if outcome != outcomeOK {
		return
	}
	s.surface.use(c.Revision)
	switch {
	case c.Reopened:
		s.evidence(ctx, SignReattached, c)
	case after20241105(c.Requested):
		s.evidence(ctx, SignRequested, c)
	}
}

// evidence counts and logs a sign that a client gives by beginning a legacy session.
func (s *Signals) evidence(ctx context.Context, sign string, c *exchange.Client) {
	s.events.evidence.Add(ctx, 1, with(labelKind.String(sign)))
	s.logEvidence(ctx, sign, c)
}

// after20241105 reports whether a revision as sent shows that the client's library knows more than HTTP+SSE (retirement.md 2.1).
func after20241105(requested string) bool {
	label := revisionLabel(requested)
	return label != unstated && label != other && label != "2024-11-05"
}

// A servedSession is a client's conversation.
type servedSession struct {
	exchange.Session

	s      *Signals
	leg    *leg
	id     string // of the front; empty: stateless
	begun  time.Time
	calls  atomic.Int64
	closed atomic.Bool
}

// Call measures the call.
func (c *servedSession) Call(ctx context.Context, req exchange.Request, back exchange.Peer) (exchange.Response, error) {
	op := operation{method: methodLabel(req.Method), subject: c.s.subjectOf(&req)}
	c.calls.Add(1)
	ctx = c.s.numbered(ctx)
	begun := c.s.clock()
	ctx, span := c.s.startServed(ctx, op, c.leg, req.Params, c.id)
	resp, err := c.Session.Call(ctx, req, back)
	took := c.s.clock() - begun
	op = op.ended(ctx, resp, err)
	c.leg.record(ctx, op, took)
	endSpan(span, op)
	c.s.logCall(ctx, c, op, took)
	return resp, err
}

// Notify measures the notification.
func (c *servedSession) Notify(ctx context.Context, note exchange.Request) error {
	begun := time.Now()
	err := c.Session.Notify(ctx, note)
	c.leg.record(ctx, operation{method: methodLabel(note.Method)}.ended(ctx, exchange.Response{}, err), time.Since(begun))
	return err
}

// Close ends the conversation; the first time it is the end of the session.
func (c *servedSession) Close() error {
	err := c.Session.Close()
	if c.id == "" || c.closed.Swap(true) {
		return err
	}
	ctx := context.Background()
	c.s.events.active.Add(ctx, -1, c.leg.session)
	fault := endOf(c.Session)
	c.s.events.serverSession.Record(ctx, time.Since(c.begun).Seconds(), sessionAttributes(c.leg, fault))
	c.s.logClosed(ctx, c, fault)
	return err
}

// endOf returns upstream_lost if the server's side of a session ended by itself, else "".
func endOf(sess exchange.Session) string {
	select {
	case <-sess.Done():
		return exchange.ReasonLost
	default: // a nil channel never is ready
		return ""
	}
}

// sessionAttributes are those of the duration of a session.
func sessionAttributes(l *leg, fault string) metric.MeasurementOption {
	a := append([]attribute.KeyValue(nil), l.attrs...)
	if fault != "" {
		a = append(a, keyErrorType.String(fault))
	}
	return with(a...)
}
