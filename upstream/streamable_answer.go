package upstream

import (
	"errors"
	"net/http"
	"strings"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
)

// single reads a response that is one JSON text. Whatever the status, a response with the call's id is the answer.
func (s *streamSession) single(p *post, resp *http.Response) error {
	text, err := readBody(resp, s.o.MaxMessageBytes)
	if errors.Is(err, errOversize) {
		return exchange.Fail(exchange.ReasonInvalid, err)
	}
	if err != nil {
		return err
	}
	var loose, broken *exchange.Error
	each(text, s.batches(), func(m *jsonrpc.Message) bool {
		id, ok := ownID(m.ID)
		switch {
		case m.Kind == jsonrpc.Response && ok && id == p.id:
			if !s.sessionGone(resp.StatusCode, m.Error) {
				s.message(m, p)
			}
		case m.Kind == jsonrpc.Response && m.ID == nil:
			loose = m.Error
		case resp.StatusCode/100 == 2:
			s.message(m, p)
		}
		return true
	}, func(_ *jsonrpc.Message, err *jsonrpc.Error) { broken = err })
	switch {
	case !s.pending(p):
		return nil
	case s.hasID() && (resp.StatusCode == http.StatusNotFound || s.sessionGone(resp.StatusCode, loose)):
		s.lose() // first: whoever makes the call again must not find this session
		s.settle(p.id, outcome{err: exchange.Fail(exchange.ReasonSessionLost, errForgotten)})
		return nil
	case resp.StatusCode == http.StatusAccepted && s.awaitElsewhere(p):
		return nil
	}
	failure := s.l.statusFailure(resp)
	if loose != nil && failure.Reason != exchange.ReasonAuth && failure.Reason != exchange.ReasonBusy {
		s.settle(p.id, outcome{resp: exchange.Response{Error: loose}})
		return nil
	}
	if resp.StatusCode/100 == 2 && broken != nil {
		failure.Err = broken
	}
	return failure
}

// sessionGone reports whether an error says that the server does not know the session: with status 404 an error of the
// transport's, and with 400 the wording of the TypeScript SDK's examples, which many servers copied.
func (s *streamSession) sessionGone(status int, e *exchange.Error) bool {
	if e == nil || !s.hasID() || e.Code > -32000 || e.Code < -32019 && e.Code != jsonrpc.CodeInvalidRequest {
		return false
	}
	return status == http.StatusNotFound || status == http.StatusBadRequest && strings.Contains(strings.ToLower(e.Message), "session")
}

func (s *streamSession) hasID() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.id != ""
}

// awaitElsewhere lets a call wait for its answer on the standing stream, as some servers have it. It reports false if there is none.
func (s *streamSession) awaitElsewhere(p *post) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	p.elsewhere = s.listening
	return s.listening
}

// pending reports whether a call has no outcome yet.
func (s *streamSession) pending(p *post) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls[p.id] == p
}
