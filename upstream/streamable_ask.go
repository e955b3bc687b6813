package upstream

import (
	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
)

// request deals with a request of the server's: ping is answered here, the rest goes to the client.
func (s *streamSession) request(m *jsonrpc.Message, p *post) {
	if m.Method == "ping" {
		s.reply(jsonrpc.AppendResult(nil, m.ID, nil))
		return
	}
	if !s.admit(m, p) {
		s.reply(jsonrpc.AppendError(nil, m.ID, tooManyQuestions()))
	}
}

// admit enters a question and puts it, unless too many wait already. One on the stream of a call is that call's, also if
// the call is over.
func (s *streamSession) admit(m *jsonrpc.Message, p *post) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended != nil {
		return true
	}
	if s.questions.count >= s.o.MaxQuestions {
		return false
	}
	if p == nil {
		p = s.only()
	}
	var cl *call
	if p != nil {
		cl = p.call
	}
	q := newQuestion(s.ctx, m, s.back, cl)
	if q.call != nil && s.calls[q.call.id] != p {
		q.cancel(errCallOver)
	}
	s.questions.add(q)
	s.wg.Go(func() { s.ask(q) }) // ends with q.ctx at the latest
	return true
}

// only returns the call in flight if there is exactly one and no cancelled one can be speaking: what comes on the
// standing stream is then taken for its. The caller holds mu.
func (s *streamSession) only() *post {
	if !s.ghosts.none() {
		return nil
	}
	var found *post
	for _, p := range s.calls {
		if p.internal {
			continue
		}
		if found != nil {
			return nil
		}
		found = p
	}
	return found
}

// ask puts the question and posts the answer.
func (s *streamSession) ask(q *question) {
	defer q.cancel(nil)
	resp, err := q.put(s.ctx.Done())
	s.mu.Lock()
	withdrawn := s.questions.forget(q)
	s.mu.Unlock()
	if !withdrawn {
		s.answer(appendAnswer([]byte(q.id), q.method, resp, err))
	}
}

// reply answers a request of the server's while others are read. Of too many at once, some get no answer.
func (s *streamSession) reply(msg []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended != nil || s.replies >= s.o.MaxQuestions {
		return
	}
	s.replies++
	s.wg.Go(func() { // bounded by ResponseTimeout
		s.answer(msg)
		s.mu.Lock()
		s.replies--
		s.mu.Unlock()
	})
}

func (s *streamSession) answer(msg []byte) {
	if err := s.say(s.ctx, msg); err != nil && s.ctx.Err() == nil {
		s.log.Warn("upstream did not take an answer", "err", err)
	}
}
