package upstream

import (
	"errors"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
)

// The outcome of the first GET for the standing stream.
type standingState uint8

const (
	standingOpen    standingState = iota + 1
	standingRefused               // for now: it is asked for again when the server knows that the client is ready
	standingNone                  // the server has no such stream
)

const (
	standingWait  = time.Second     // how long Open waits for the header of the standing stream
	steadyStream  = 5 * time.Second // a stream that lasted so long was no failure
	reconnectOnce = time.Second
)

// stand keeps the standing stream open for as long as the session lasts and the server has one. first is told
// the outcome of the first attempt.
func (s *streamSession) stand(first func(standingState)) {
	var ev events
	had := false
	for fails := 0; ; fails++ {
		began, before := time.Now(), ev.count
		resp, err := s.l.do(s.ctx, s.standing(ev.lastID))
		switch {
		case err != nil:
			first(standingRefused)
		case isStream(resp):
			had = true
			s.hear(true)
			first(standingOpen)
			// Its end is no event of the session's: the stream is asked for again.
			_ = ev.read(resp.Body, s.o.MaxMessageBytes, s.heard)
			_ = resp.Body.Close()
			s.hear(false)
			if ev.lastID == "" {
				s.missed()
			}
			if ev.count > before || time.Since(began) >= steadyStream {
				fails = 0
			}
		default:
			drain(resp)
			gone := resp.StatusCode == http.StatusNotFound
			switch {
			case resp.StatusCode == http.StatusMethodNotAllowed || gone && !s.hasID():
				s.missed()
				first(standingNone)
				return
			case gone && had:
				s.lose()
				return
			case gone && fails > 0:
				s.missed()
				return // there is no such route; the session itself may be well
			case refusesID(resp.StatusCode) && ev.lastID != "": // it has forgotten the event; from now on is better than never
				s.missed()
				ev.lastID = ""
			}
			first(standingRefused)
		}
		if fails == maxResumes {
			s.missed()
		}
		if !s.standAgain(had, fails, &ev) {
			return
		}
	}
}

// refusesID reports whether a server that refuses a stream with that status may have something against the event that the stream
// was to begin after, and not against who asks or how often.
func refusesID(status int) bool {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusTooManyRequests:
		return false
	}
	return status/100 == 4
}

// missed fails the calls whose answers were to come on the standing stream: it cannot be resumed.
func (s *streamSession) missed() {
	s.mu.Lock()
	var lost []*post
	for _, p := range s.calls {
		if p.elsewhere {
			lost = append(lost, p)
		}
	}
	s.mu.Unlock()
	for _, p := range lost {
		s.fail(p, exchange.Fail(exchange.ReasonStreamLost, errStandingLost))
	}
}

var errStandingLost = errors.New("the standing stream, on which the answer was to come, has ended")

// standAgain waits until the stream is to be asked for again. It returns false when the session has ended.
func (s *streamSession) standAgain(had bool, fails int, ev *events) bool {
	if !had && fails == 0 {
		select {
		case <-s.greeted:
			return true
		case <-s.ctx.Done():
			return false
		}
	}
	delay := ev.delay()
	if fails > 0 {
		delay = min(max(delay, reconnectOnce)<<min(fails, 10), max(delay, maxReconnect))
		delay += rand.N(delay / 4) // #nosec G404 -- many sessions lose their server at once
	}
	return pauseFor(s.ctx, delay) == nil
}

// heard deals with an event of the standing stream.
func (s *streamSession) heard(data []byte) bool {
	if data == nil {
		s.noise.report("message skipped: "+errOversize.Error(), nil)
		return true
	}
	s.text(data, nil)
	return true
}

func (s *streamSession) hear(open bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.listening = open
	if !open && s.deaf != nil {
		close(s.deaf)
		s.deaf = nil
	}
}

// withoutStanding returns ServerCapabilities without what needs a standing stream to be true (translation.md 4).
func withoutStanding(capabilities []byte) []byte {
	for _, path := range [][]string{{"tools", "listChanged"}, {"prompts", "listChanged"}, {"resources", "listChanged"}, {"resources", "subscribe"}} {
		if jsonrpc.Get(capabilities, path...) != nil {
			capabilities = jsonrpc.Delete(capabilities, path...)
		}
	}
	return capabilities
}
