package upstream

import (
	"context"
	"errors"
	"net/http"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
)

// say posts a notification or an answer and waits until the server has taken it.
func (s *streamSession) say(ctx context.Context, msg []byte) error {
	s.mu.Lock()
	ended := s.ended
	s.mu.Unlock()
	if ended != nil {
		return ended
	}
	ctx, stop := s.within(ctx)
	defer stop()
	err := s.deliver(ctx, msg)
	if te, ok := errors.AsType[*transportError](err); ok && te.untouched && pauseFor(ctx, redialDelay) == nil {
		err = s.deliver(ctx, msg)
	}
	if err == nil {
		return nil
	}
	return s.l.sendFailure(err)
}

// within bounds ctx by ResponseTimeout and the life of the session.
func (s *streamSession) within(ctx context.Context) (context.Context, func()) {
	ctx, cancel := s.l.soon(ctx)
	ctx, end := context.WithCancelCause(ctx)
	stop := context.AfterFunc(s.ctx, func() { end(context.Cause(s.ctx)) })
	return ctx, func() { stop(); end(nil); cancel() }
}

// deliver posts a message that has no answer.
func (s *streamSession) deliver(ctx context.Context, msg []byte) error {
	resp, err := s.l.do(ctx, send{method: http.MethodPost, header: s.header(nil), body: msg, authorization: s.authorize})
	if err != nil {
		return err
	}
	defer drain(resp)
	if resp.StatusCode/100 == 2 {
		return nil
	}
	if s.hasID() && (resp.StatusCode == http.StatusNotFound || s.sessionGone(resp.StatusCode, looseError(resp))) {
		s.lose()
		return exchange.Fail(exchange.ReasonSessionLost, errForgotten)
	}
	return s.l.statusFailure(resp)
}

// looseError returns the error in a response to a message that has no answer, nil if there is none.
func looseError(resp *http.Response) *exchange.Error {
	text, err := readBody(resp, 64<<10)
	if err != nil {
		return nil
	}
	m, _ := jsonrpc.Scan(text)
	return m.Error
}
