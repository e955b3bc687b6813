package telemetry

import (
	"context"
	"errors"

	"github.com/mcp-dualstack/bridge/exchange"
)

// Handler returns next with its conversations counted in l.
//
// An Open that succeeds is a session, a use when the client is stateless, or a reopening when it came
// back without a handshake. An Open that fails is a refusal when the server or the bridge said no, a
// failure when there was nobody to say anything, and neither when the client went away. A Call counts
// as it begins; it is an error too if its answer is one or if there was no answer for another reason
// than cancellation. A tool's own isError is a result.
func (l *Ledger) Handler(next exchange.Handler) exchange.Handler {
	return &counted{ledger: l, next: next}
}

type counted struct {
	ledger *Ledger
	next   exchange.Handler
}

// Open opens the conversation and binds it to its row.
func (h *counted) Open(ctx context.Context, c exchange.Client) (exchange.Session, error) {
	r := h.ledger.clients.row(&c)
	r.touch()
	sess, err := h.next.Open(ctx, c)
	switch {
	case err == nil && c.Reopened:
		r.count(&r.reopened)
	case err == nil && c.Session == "":
		r.count(&r.uses)
	case err == nil:
		r.count(&r.sessions)
	case refused(err):
		r.count(&r.refusals)
	case !cancelled(ctx, err):
		r.count(&r.failures)
	}
	r.settle()
	if err != nil {
		return nil, err
	}
	return &session{Session: sess, row: r}, nil
}

// session is a conversation whose calls are counted.
type session struct {
	exchange.Session

	row *row
}

// Call counts the call and passes it on.
func (s *session) Call(ctx context.Context, req exchange.Request, back exchange.Peer) (exchange.Response, error) {
	s.row.touch()
	s.row.count(&s.row.calls)
	resp, err := s.Session.Call(ctx, req, back)
	if resp.Error != nil || err != nil && !cancelled(ctx, err) {
		s.row.count(&s.row.errors)
	}
	return resp, err
}

// Notify notes that the client is there and passes the note on.
func (s *session) Notify(ctx context.Context, note exchange.Request) error {
	s.row.touch()
	s.row.ledger.mark()
	return s.Session.Notify(ctx, note)
}

// cancelled reports whether err comes from the caller's own change of mind. A deadline is not that.
func cancelled(ctx context.Context, err error) bool {
	if errors.Is(ctx.Err(), context.Canceled) || errors.Is(err, context.Canceled) {
		return true
	}
	_, ok := errors.AsType[*exchange.CancelError](err)
	return ok
}

// refused reports whether an error of Open is a decision, of the server or of the bridge, and no breakdown.
func refused(err error) bool {
	if _, ok := errors.AsType[*exchange.Error](err); ok {
		return true
	}
	f, ok := errors.AsType[*exchange.Failure](err)
	return ok && (f.Reason == exchange.ReasonEra || f.Status != 0)
}
