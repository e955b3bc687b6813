package upstream

import (
	"context"
	"errors"
	"net/http"
	"syscall"
	"time"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/negotiate"
)

// follow reads the stream of a call until the answer has come. A stream that breaks is resumed where it can be
// (2025-11-25 transports, Resumability and Redelivery).
func (s *streamSession) follow(p *post, resp *http.Response) error {
	var ev events
	for idle := 0; ; idle++ {
		before := ev.count
		err := ev.read(resp.Body, s.o.MaxMessageBytes, func(data []byte) bool {
			if data == nil {
				s.settle(p.id, outcome{err: exchange.Fail(exchange.ReasonInvalid, errOversize)})
				return false
			}
			s.text(data, p)
			return s.awaited(p)
		})
		if err == nil || !s.pending(p) {
			drain(resp)
			return nil
		}
		_ = resp.Body.Close()
		if p.http.Err() != nil {
			return context.Cause(p.http)
		}
		if errors.Is(err, errEndless) {
			return err
		}
		if ev.count > before {
			idle = 0
		}
		if ev.lastID == "" || idle >= maxResumes {
			return err
		}
		if resp, err = s.resume(p, &ev); err != nil || resp == nil {
			return err
		}
	}
}

const (
	maxResumes   = 6                      // attempts without any event before a stream counts as lost
	resumeDelay  = 250 * time.Millisecond // where the server has not said
	maxReconnect = 30 * time.Second
)

// resume asks for what follows the last event. The response is nil when the session turned out to be lost. The error says
// that the stream is.
func (s *streamSession) resume(p *post, ev *events) (*http.Response, error) {
	delay := ev.delay()
	for tries := 0; ; tries++ {
		if err := pauseFor(p.http, min(delay<<tries, max(delay, maxReconnect))); err != nil {
			return nil, err
		}
		resp, err := s.l.begin(p.http, s.standing(ev.lastID))
		switch {
		case err != nil && p.http.Err() != nil:
			return nil, context.Cause(p.http)
		case errors.Is(err, syscall.ECONNREFUSED):
			return nil, &transportError{err: err} // the server is gone, and what it kept with it
		case err == nil && isStream(resp):
			return resp, nil
		case err == nil && resp.StatusCode == http.StatusNotFound && s.hasID():
			drain(resp)
			s.lose()
			return nil, nil
		case err == nil:
			drain(resp)
			err = &transportError{err: s.l.statusFailure(resp).Err}
			if resp.StatusCode/100 != 5 && resp.StatusCode != http.StatusTooManyRequests {
				return nil, err
			}
		}
		if tries+1 >= maxResumes {
			return nil, &transportError{err: err}
		}
	}
}

// delay returns how long to wait before a broken stream is asked for again.
func (e *events) delay() time.Duration {
	if e.retry > 0 {
		return e.retry
	}
	return resumeDelay
}

// standing returns a GET for events: those that follow the one of that id, or the standing stream.
func (s *streamSession) standing(lastID string) send {
	more := http.Header{headerAccept: {typeStream}}
	if lastID != "" {
		more[negotiate.HeaderLastEventID] = []string{lastID}
	}
	return send{method: http.MethodGet, header: s.header(more), authorization: s.authorize}
}
