package upstream

import (
	"context"
	"errors"
	"time"

	"github.com/mcp-dualstack/bridge/exchange"
)

// settle ends the call of that id, which the server has done with. A late answer is dropped: the call has been cancelled.
func (s *streamSession) settle(id int64, a outcome) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ghosts.drop(id)
	if p := s.calls[id]; p != nil {
		s.finish(p, a)
		p.overNow()
	}
}

// settleElsewhere is settle for an answer that did not come with the response of its POST: that has nothing more to say.
func (s *streamSession) settleElsewhere(id int64, a outcome) {
	s.mu.Lock()
	p := s.calls[id]
	s.mu.Unlock()
	s.settle(id, a)
	if p != nil {
		time.AfterFunc(drainFor, func() { p.abandon(nil) }) // the server may end it by itself
	}
}

// fail ends a call that gets no answer. The server may not have done with one that was cancelled.
func (s *streamSession) fail(p *post, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.calls[p.id] == p {
		s.finish(p, outcome{err: err})
		p.overNow()
	}
}

// finish takes a call out. The caller holds mu and sees to p.overNow.
func (s *streamSession) finish(p *post, a outcome) {
	delete(s.calls, p.id)
	p.answer <- a
	cause := errCallOver
	if a.err != nil {
		cause = a.err
	}
	for _, q := range p.asked {
		q.cancel(cause)
	}
}

// takeBack cancels a call whose ctx has ended, unless the answer was faster. The response stream stays until the
// cancellation has been sent, because to lose it means nothing (2025-11-25 transports, Sending Messages to the Server), and
// a while after it: an answer on it says that the server has done with the call.
func (s *streamSession) takeBack(p *post) (exchange.Response, error) {
	cause := context.Cause(p.ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.calls[p.id] != p {
		a := <-p.answer
		return a.resp, a.err
	}
	s.finish(p, outcome{err: cause})
	s.ghosts.add(p.id)
	if !p.written.Load() {
		p.abandon(cause)
	}
	reason := ""
	if ce, ok := errors.AsType[*exchange.CancelError](cause); ok {
		reason = ce.Reason
	}
	s.wg.Go(func() { // bounded by ResponseTimeout and ghostLife
		defer p.abandon(cause)
		if err := s.say(s.ctx, cancelled(p.id, reason)); err != nil {
			s.log.Debug("cancel upstream call", "err", err)
		}
		p.overNow()
		s.linger(p)
	})
	return exchange.Response{}, cause
}

// linger lets the response of a cancelled call be read for as long as its answer is waited for. Of many at once, some are
// given up: each holds a connection.
func (s *streamSession) linger(p *post) {
	s.mu.Lock()
	if s.lingering >= maxLingering || s.l.o.MaxConns > 0 {
		s.mu.Unlock()
		return
	}
	s.lingering++
	s.mu.Unlock()
	_ = pauseFor(p.http, ghostLife) // p.http ends when the response does
	s.mu.Lock()
	s.lingering--
	s.mu.Unlock()
}

// maxLingering bounds the responses of cancelled calls that a session reads at once.
const maxLingering = 16

// awaited reports whether an answer to a call is of use: it has none yet, or was cancelled and the server may not have done
// with it.
func (s *streamSession) awaited(p *post) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls[p.id] == p || s.ghosts.has(p.id)
}

// settled waits until every cancelled call has been answered. It reports false when ctx ends or the session does before that.
func (s *streamSession) settled(ctx context.Context) bool {
	s.mu.Lock()
	over, peace := s.ended != nil, s.ghosts.peace()
	s.mu.Unlock()
	return !over && inPeace(ctx, s.ctx, peace)
}
