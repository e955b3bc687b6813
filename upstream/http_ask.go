package upstream

import (
	"context"
	"errors"
	"net/http"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
)

// A reply is what the HTTP response to one POSTed request says.
type reply struct {
	resp   *http.Response     // its body is spent
	answer *exchange.Response // with the request's id; nil if there is none
	loose  *exchange.Error    // without an id; nil if there is none
	broken error              // why there is no answer though the server sent something like one
}

// ask posts a request and reads until the response with its id. Other messages are given to other. The error is the cause
// of ctx or a *transportError; a stream that ended without an answer is one too.
func (l *leg) ask(ctx context.Context, s send, id int64, max int, other func(*jsonrpc.Message)) (reply, error) {
	resp, err := l.do(ctx, s)
	if err != nil {
		return reply{}, err
	}
	r := reply{resp: resp}
	take := func(data []byte) bool {
		if data == nil {
			r.broken = errOversize
			return false
		}
		each(data, false, func(m *jsonrpc.Message) bool {
			r.take(m, id, other)
			return true
		}, func(m *jsonrpc.Message, err *jsonrpc.Error) {
			if own, ok := ownID(jsonrpc.Get(m.Raw, "id")); ok && own == id || !isStream(resp) {
				r.broken = err
			}
		})
		return r.answer == nil && r.loose == nil && r.broken == nil
	}
	if !isStream(resp) {
		defer resp.Body.Close()
		text, err := readBody(resp, max)
		switch {
		case errors.Is(err, errOversize):
			r.broken = err
		case err != nil && ctx.Err() != nil:
			return r, context.Cause(ctx)
		case err != nil:
			return r, err
		default:
			take(text)
		}
		return r, nil
	}
	var ev events
	if err = ev.read(resp.Body, max, take); err != nil {
		_ = resp.Body.Close()
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return r, err
	}
	if !l.spawn(func() { drain(resp) }) { // bounded by drainFor
		_ = resp.Body.Close()
	}
	return r, nil
}

func (r *reply) take(m *jsonrpc.Message, id int64, other func(*jsonrpc.Message)) {
	if m.Kind != jsonrpc.Response {
		if r.resp.StatusCode/100 == 2 {
			other(m)
		}
		return
	}
	own, ok := ownID(m.ID)
	switch {
	case ok && own == id:
		out := outcomeOf(m)
		if out.err != nil {
			r.broken = out.err
			return
		}
		r.answer = &out.resp
	case m.ID == nil:
		r.loose = m.Error
	}
}

// outcome is the answer, or the failure that the reply amounts to: an error without an id is the answer unless the status
// says more (translation.md 2, 13).
func (l *leg) outcome(r reply) (exchange.Response, error) {
	if r.answer != nil {
		return *r.answer, nil
	}
	f := l.statusFailure(r.resp)
	if unreadable, ok := errors.AsType[*exchange.Failure](r.broken); ok {
		return exchange.Response{}, unreadable
	}
	if r.loose != nil && f.Reason != exchange.ReasonAuth && f.Reason != exchange.ReasonBusy {
		return exchange.Response{Error: r.loose}, nil
	}
	if r.broken != nil && r.resp.StatusCode/100 == 2 {
		f.Err = r.broken
	}
	return exchange.Response{}, f
}
