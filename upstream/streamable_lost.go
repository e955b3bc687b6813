package upstream

import (
	"errors"
	"time"

	"github.com/mcp-dualstack/bridge/exchange"
)

// errForgotten is the cause of upstream_session_lost for a request that the server refused because it does not know the session, so
// that it has not run and may be sent again (translation.md 1.5, 11).
var errForgotten = errors.New("the server does not know the session of this request")

// lose ends a session that the server has forgotten. The client has to start over, because what the server
// kept for it is gone (translation.md 11). Calls that have no response yet are about to be refused the same way, each for itself,
// and are given a moment for it, also by Close.
func (s *streamSession) lose() {
	reason := exchange.Fail(exchange.ReasonSessionLost, nil)
	s.mu.Lock()
	if s.ended != nil {
		s.mu.Unlock()
		return
	}
	s.ended = exchange.Fail(exchange.ReasonSessionLost, errForgotten) // of what is never sent
	close(s.lost)                                                     // before anybody hears of it: a call that is made again is not made here
	var refused []*post
	for _, p := range s.calls {
		if !p.answered.Load() {
			refused = append(refused, p)
			continue
		}
		s.finish(p, outcome{err: reason})
		p.overNow()
	}
	s.wg.Go(func() { // bounded by refusalWait
		defer s.cancel(reason)
		s.awaitRefusals(refused)
	})
	s.mu.Unlock()
	s.log.Info("upstream has forgotten the session")
}

// awaitRefusals waits until the calls are over, refusalWait in all.
func (s *streamSession) awaitRefusals(calls []*post) {
	t := time.NewTimer(refusalWait)
	defer t.Stop()
	for _, p := range calls {
		select {
		case <-p.over:
		case <-t.C:
			return
		case <-s.ctx.Done():
			return
		}
	}
}

// refusalWait is how long calls on a session that the server has forgotten wait to be told so themselves.
const refusalWait = time.Second
