package retire

import (
	"net/http"
	"slices"
	"time"
)

// A Point is where a request stands when it is asked about.
type Point string

// The points (retirement.md 7, legacy_refusals_total).
const (
	AtGet        Point = "get"        // GET of the stream
	AtInitialize Point = "initialize" // initialize or server/discover on a stream
	AtRequest    Point = "request"    // any other request on a stream but ping, which is never asked about
	AtMessage    Point = "message"    // POST of the message route, before it is read
)

// An Ask is one question to Decide.
type Ask struct {
	Point Point
	IDs   []string  // identities of the ledger that may be meant, the surest first; empty: nobody known yet
	Fresh bool      // at AtRequest: no conversation has begun on the stream; this would begin or take up one (retirement.md R8)
	Now   time.Time // the moment of the request
}

// A Decision says what the current stage does to a request. The zero value of every field but Stage and Unknown: nothing.
type Decision struct {
	Stage       Stage
	Mode        Mode   // of the active brownout window, else empty
	Window      string // its ID
	Refuse      bool
	WouldRefuse bool      // from warn on: the request is served, and would not be at closed or drain (counted)
	Exempt      bool      // an exemption kept it from being refused
	Code        int       // of the JSON-RPC error where Refuse or Tombstone: 410 or 503
	Status      int       // of the HTTP answer where the point has one of its own (405 or 410 at gone, 503 hard), else zero
	Unknown     int       // HTTP status of a message for a session that is not there: 404, from drain on 410
	RetryAt     time.Time // end of the window
	Tombstone   bool      // GET: accept the stream, and ask again about what is requested on it; nothing upstream is started
}

// Decide says what s does with the request. It is pure: it depends on its arguments only, and allocates nothing.
//
// At gone the status of GET is 405, which is right where POST on the same path is served; where it is not, the caller
// answers 410 instead (retirement.md 0.3).
func (s *State) Decide(a Ask) Decision {
	d := s.strict(a)
	if !d.Refuse && !d.WouldRefuse && !d.Tombstone || !s.exempt(a.IDs, a.Now) {
		return d
	}
	return Decision{Stage: d.Stage, Mode: d.Mode, Window: d.Window, Unknown: d.Unknown, Exempt: d.Refuse || d.Tombstone}
}

// strict decides as if nobody was exempt.
func (s *State) strict(a Ask) Decision {
	d := Decision{Stage: s.Stage, Unknown: http.StatusNotFound}
	if s.Stage.Reached(Drain) {
		d.Unknown = http.StatusGone
	}
	switch s.Stage {
	case Warn:
		d.WouldRefuse = a.Point == AtInitialize || a.Point == AtRequest
	case Brownout:
		return s.brownout(d, a)
	case Closed:
		d.close(a.Point, a.Fresh)
	case Drain:
		d.close(a.Point, true)
	case Gone:
		if s.Tombstone {
			d.close(a.Point, true)
			return d
		}
		d.Refuse, d.Code = true, http.StatusGone
		switch a.Point {
		case AtGet:
			d.Status = http.StatusMethodNotAllowed
		case AtMessage:
			d.Status = http.StatusGone
		}
	}
	return d
}

// close is what closed and drain do: streams are accepted so that the refusal can be read on them (retirement.md 0.1).
func (d *Decision) close(p Point, requests bool) {
	switch {
	case p == AtGet:
		d.Tombstone, d.Code = true, http.StatusGone
	case p == AtInitialize, p == AtRequest && requests:
		d.Refuse, d.Code = true, http.StatusGone
	case p == AtRequest:
		d.WouldRefuse = true
	}
}

// brownout is what a window does; between windows it is as at warn.
func (s *State) brownout(d Decision, a Ask) Decision {
	served := d
	served.WouldRefuse = a.Point == AtInitialize || a.Point == AtRequest
	w := s.Active(a.Now)
	if w == nil {
		return served
	}
	served.Mode, served.Window = w.Mode, w.ID
	if !w.meets(a.IDs) {
		return served
	}
	d.Mode, d.Window = w.Mode, w.ID
	switch {
	case w.Mode == ModeInitialize && a.Point != AtInitialize,
		w.Mode == ModeCalls && a.Point != AtInitialize && a.Point != AtRequest:
		return served
	case w.Mode == ModeHard && (a.Point == AtGet || a.Point == AtMessage):
		d.Status = http.StatusServiceUnavailable
	}
	d.Refuse, d.Code, d.RetryAt = true, http.StatusServiceUnavailable, w.Until
	return d
}

// exempt reports whether an exemption covers one of ids now.
func (s *State) exempt(ids []string, now time.Time) bool {
	if len(ids) == 0 {
		return false
	}
	for i := range s.Exemptions {
		e := &s.Exemptions[i]
		if (e.Until.IsZero() || now.Before(e.Until)) && slices.Contains(ids, e.ID) {
			return true
		}
	}
	return false
}
