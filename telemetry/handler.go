package telemetry

import (
	"context"
	"errors"
	"sync/atomic"

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
	r, k := h.ledger.clients.row(&c)
	u := h.ledger.users.pin(&c, r, k)
	now := h.ledger.now()
	r.touch(now)
	u.touch(now)
	u.user.speakAs(r, k, now)
	sess, err := h.next.Open(ctx, c)
	switch {
	case err == nil && c.Reopened:
		r.count(&r.reopened)
		u.reopened.Add(1)
	case err == nil && c.Session == "":
		r.count(&r.uses)
		u.uses.Add(1)
	case err == nil:
		r.count(&r.sessions)
		u.sessions.Add(1)
	case refused(err):
		r.count(&r.refusals)
		u.refusals.Add(1)
	case !cancelled(ctx, err):
		r.count(&r.failures)
		u.failures.Add(1)
	}
	r.settle()
	if err != nil {
		u.open.Add(-1)
		return nil, err
	}
	h.ledger.opened(&c, u, now)
	return &session{Session: sess, row: r, use: u, id: c.Session}, nil
}

// opened notes what the beginning of a conversation says about its client.
func (l *Ledger) opened(c *exchange.Client, u *use, now int64) {
	if c.Transport == exchange.HTTPSSE {
		l.talks.opened(c, u.user, now)
		return
	}
	u.good.Add(1)
	l.talks.connected(c, now)
}

// session is a conversation whose calls are counted.
type session struct {
	exchange.Session

	row    *row
	use    *use
	id     string // the front's, empty for a stateless client
	closed atomic.Bool
}

// Call counts the call and passes it on.
func (s *session) Call(ctx context.Context, req exchange.Request, back exchange.Peer) (exchange.Response, error) {
	s.touch()
	s.row.count(&s.row.calls)
	s.use.calls.Add(1)
	resp, err := s.Session.Call(ctx, req, back)
	switch {
	case resp.Error != nil || err != nil && !cancelled(ctx, err):
		s.row.count(&s.row.errors)
		s.use.errors.Add(1)
	case err == nil:
		s.use.good.Add(1)
	}
	s.use.bytes.Add(int64(len(req.Params) + len(resp.Result)))
	return resp, err
}

// Notify notes that the client is there and passes the note on.
func (s *session) Notify(ctx context.Context, note exchange.Request) error {
	s.touch()
	s.row.ledger.mark()
	return s.Session.Notify(ctx, note)
}

// Close ends the conversation: the client is there no longer.
func (s *session) Close() error {
	if !s.closed.Swap(true) {
		if s.id != "" { // else the one request was it
			s.touch()
			s.row.ledger.mark()
		}
		if s.id != "" && s.use.transport == exchange.HTTPSSE {
			s.row.ledger.talks.closed(s.id)
		}
		s.use.open.Add(-1)
	}
	return s.Session.Close()
}

func (s *session) touch() {
	now := s.row.ledger.now()
	s.row.touch(now)
	s.use.touch(now)
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
