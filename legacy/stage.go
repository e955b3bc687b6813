package legacy

import (
	"bytes"
	"net/http"
	"time"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
	"github.com/mcp-dualstack/bridge/negotiate"
)

// A Stage is what the retirement of these routes does to clients (retirement.md 6). A function that is nil does nothing.
// They are called concurrently and for every message: they must not wait.
type Stage struct {
	// Refuse returns the refusal of a request, nil if it is served. It is asked at every request but ping, with the POST that carried it.
	Refuse func(*http.Request, Question) *Refusal
	// Greet returns how the result of an initialize that is served is to be changed, nil if it is not. What it returns is given
	// the raw InitializeResult.
	Greet func(*http.Request) func(result []byte) []byte
	// Notice returns the raw params of the notifications/message by which a client is told, at level warning, nil if it is not to be. It is
	// asked at messages of a conversation whose server declared logging, until it has returned one.
	Notice func(*http.Request, exchange.Client) []byte
	// Lost answers a message for which there is no session and reports true, or reports false: the answer is 404.
	Lost func(http.ResponseWriter, *http.Request) bool
	// Stays reports whether a session does not end by WindDown. It is asked when one is about to.
	Stays func(exchange.Client) bool
}

// A Question is a request that may be refused.
type Question struct {
	Method string
	Client exchange.Client // the fields for the record, Principal, and Info if it is known
	// Requested is the revision that an initialize names, as sent.
	Requested string
	Fresh     bool // there is no conversation
	Tombstone bool // the stream was opened as a tombstone
}

// A Refusal is how a request is refused.
type Refusal struct {
	Error *exchange.Error
	End   time.Duration // the stream ends that much later; zero: it stays
}

// An Opening is how a stream begins.
type Opening struct {
	// Tombstone opens the stream as one on which everything is refused: no session is given back, nothing is opened
	// behind it, and it is counted by MaxTombstones. It becomes an ordinary one when a request on it is not refused.
	Tombstone bool
	Retry     time.Duration // told to the client: how long it is to wait before it opens another stream; zero: not said
	Full      http.Handler  // answers when there are MaxTombstones; nil: 503
}

// errNoPlot is for when there are too many tombstones.
var errNoPlot = &refusal{status: http.StatusServiceUnavailable, header: [2]string{"Retry-After", retryAfter}, bound: "max_tombstones",
	err: negotiate.Refused(jsonrpc.CodeInternal, negotiate.ReasonTooManySessions, "too many sessions; try again later")}

// errTooLate is for what comes too late to be answered.
var errTooLate = &refusal{status: http.StatusNotFound, err: negotiate.Refused(jsonrpc.CodeInvalidRequest, negotiate.ReasonUnknownSession, "the stream has ended")}

// bury takes in a stream with s, a tombstone. The caller holds mu.
func (f *Front) bury(st *stream, s *session) (_ *session, back bool, refused *refusal) {
	switch {
	case f.isDraining():
		return nil, false, unavailable(errDraining)
	case f.tombstones >= f.o.MaxTombstones:
		return nil, false, errNoPlot
	}
	f.sessions[s.id] = s
	f.tombstones++
	f.active++
	f.carry(s, st)
	return s, false, nil
}

// raise makes a tombstone an ordinary session, if there is room for one.
func (f *Front) raise(s *session) *refusal {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case s.retired:
		return errTooLate // its stream ended while the message was on its way
	case !s.tombstone.Load():
		return nil
	case f.count >= f.o.MaxSessions:
		return tooManySessions()
	case s.principal != "" && f.principals[s.principal] >= f.o.MaxSessionsPerPrincipal:
		return tooManyOfOne()
	}
	f.vacate(s)
	s.tombstone.Store(false)
	f.occupy(s)
	return nil
}

// refused refuses m if the stage wants that, and reports whether it did. info is the clientInfo of m, nil if it has none.
func (s *session) refused(m *jsonrpc.Message, r *http.Request, info []byte) bool {
	f := s.front
	if f.o.Stage.Refuse == nil {
		return false
	}
	q := Question{Method: m.Method, Client: s.client(), Fresh: !s.core.Begun(), Tombstone: s.tombstone.Load()}
	if info != nil {
		q.Client.Info = info
	}
	if m.Method == "initialize" {
		q.Requested, _ = jsonrpc.String(jsonrpc.Get(m.Params, "protocolVersion"))
	}
	if x := f.o.Stage.Refuse(r, q); x != nil {
		s.Finish(jsonrpc.AppendError(nil, m.ID, x.Error))
		if st := s.stream.Load(); st != nil && x.End > 0 {
			st.endAt(time.Now().Add(x.End))
		}
		return true
	}
	s.spare()
	if !q.Tombstone {
		return false
	}
	if x := f.raise(s); x != nil {
		f.seeBound(r, x)
		s.Finish(jsonrpc.AppendError(nil, m.ID, x.err))
		return true
	}
	s.observe(exchange.SeenTombstoneEnd, "")
	return false
}

// spare takes back that the stream is to end because of a refusal: the stage is another, or the client said who it is.
func (s *session) spare() {
	if st := s.stream.Load(); st != nil && st.doom.Load() != 0 {
		st.doom.Store(0)
		st.look()
	}
}

// client is who has the session, with the name it gave.
func (s *session) client() exchange.Client {
	c := s.core.Client()
	if info := s.info.Load(); info != nil {
		c.Info = *info
	}
	return c
}

// maxInfoBytes is the largest clientInfo that is kept for the questions of a stage.
const maxInfoBytes = 4 << 10

// initialize hands an initialize over, unless it is refused.
func (s *session) initialize(m *jsonrpc.Message, r *http.Request) *refusal {
	info := jsonrpc.Get(m.Params, "clientInfo")
	if !jsonrpc.IsObject(info) {
		info = nil
	}
	if s.refused(m, r, info) {
		return nil
	}
	if info != nil && len(info) <= maxInfoBytes && !s.core.Begun() {
		kept := bytes.Clone(info) // the rest of the body need not be kept
		s.info.Store(&kept)
	}
	if greet := s.front.o.Stage.Greet; greet != nil {
		if change := greet(r); change != nil {
			return s.open(m, r, &greeted{s, change})
		}
	}
	return s.open(m, r, s)
}

// greeted is the outlet of an initialize whose result is changed.
type greeted struct {
	*session
	change func([]byte) []byte
}

// Finish queues the answer.
func (g *greeted) Finish(msg []byte) {
	if result := jsonrpc.Get(msg, "result"); msg != nil && result != nil {
		msg = jsonrpc.Set(msg, g.change(result), "result")
	}
	g.session.Finish(msg)
}

// notice tells the client of the retirement, once, if it may be told.
func (s *session) notice(r *http.Request) {
	notice := s.front.o.Stage.Notice
	if notice == nil || s.noticed.Load() || s.quiet.Load() || !s.core.Logs() {
		return
	}
	params := notice(r, s.client())
	if params == nil || s.noticed.Swap(true) {
		return
	}
	if s.push(jsonrpc.AppendNotification(nil, "notifications/message", params), false) == nil {
		s.observe(exchange.SeenNotice, "")
	}
}

// setLevel remembers whether the client wants log messages of level warning (2025-11-25 server/utilities/logging).
func (s *session) setLevel(m *jsonrpc.Message) {
	switch level, _ := jsonrpc.String(jsonrpc.Get(m.Params, "level")); level {
	case "debug", "info", "notice", "warning":
		s.quiet.Store(false)
	case "error", "critical", "alert", "emergency":
		s.quiet.Store(true)
	}
}
