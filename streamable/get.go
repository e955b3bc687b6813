package streamable

import (
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/negotiate"
)

// get opens the standing stream of a session, or goes on with one of its streams that was cut off
// (translation.md 3, row 2, and 14.4).
func (f *Front) get(c *carrier, r *http.Request) {
	id := r.Header.Get(negotiate.HeaderSession)
	if id == "" {
		f.o.Observe(f.observation(r, exchange.SeenRefused, negotiate.ReasonMissingSession))
		c.methodNotAllowed()
		return
	}
	s, x := f.sessionOf(r)
	if x != nil {
		c.refuse(r, nil, x)
		return
	}
	defer s.release()
	if _, stream := accepted(r.Header); !stream {
		c.refuse(r, nil, refusedAcceptStream)
		return
	}
	if f.isDraining() {
		c.refuse(r, nil, refusedShutdown)
		return
	}
	if x := f.openStream(s); x != nil {
		c.refuse(r, nil, x)
		return
	}
	defer f.closeStream(s)
	st, after, x := s.resume(c, r.Header.Get(negotiate.HeaderLastEventID))
	if x != nil {
		c.refuse(r, nil, x)
		return
	}
	if st == s.standing.stream {
		f.onDrain(c, func() { c.release(time.Now()) })
		if age := f.o.MaxStreamAge; age > 0 && s.core.Revision().Has(negotiate.PrimingEvent) {
			c.release(time.Now().Add(age - rand.N(age/10+1))) // #nosec G404 -- jitter, not a secret
		}
	}
	c.startLong()
	// Some clients forget the id they came with, and would not find back to a call that goes on after another disconnect.
	if st.number != 0 && !st.isOver() && !s.prime(c, st, after) {
		return
	}
	s.write(c, st)
}

// resume attaches c to the stream of the event with that id, and returns the stream and the event's number. The standing stream is what any other id,
// or none, stands for; it is also opened afresh when what followed the event is gone. For a POST
// stream that is a refusal: its messages cannot be had from anywhere else.
func (s *session) resume(c *carrier, lastEventID string) (*stream, uint64, *refusal) {
	number, event, ok := s.parseEventID(lastEventID)
	if !ok || number == 0 {
		s.standing.attach(c, event, ok)
		return s.standing.stream, event, nil
	}
	st := s.stream(number)
	if st == nil || !st.attachAfter(c, event) {
		return nil, 0, refusedGap
	}
	return st, event, nil
}

// delete ends a session.
func (f *Front) delete(c *carrier, r *http.Request) {
	s, x := f.sessionOf(r)
	if x != nil {
		c.refuse(r, nil, x)
		return
	}
	defer s.release()
	f.o.Logger.Info("session ended by its client", "session", s.core.Describe())
	s.end(nil)
	c.w.WriteHeader(http.StatusNoContent)
}

func (f *Front) isDraining() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.draining
}
