package legacy

import (
	"errors"
	"net/http"
	"os"
	"time"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
	"github.com/mcp-dualstack/bridge/negotiate"
)

// Messages returns the handler of the POST route.
func (f *Front) Messages() http.Handler { return http.HandlerFunc(f.serveMessage) }

func (f *Front) serveMessage(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		f.refuse(w, r, notAllowed(http.MethodPost))
		return
	}
	s, refused := f.sessionOf(r)
	if refused == nil && s == nil {
		if lost := f.o.Stage.Lost; lost != nil && lost(w, r) {
			return
		}
		refused = f.unknownSession()
	}
	if refused == nil {
		s.seeVersion(r)
		refused = f.take(w, r, s)
	}
	if refused != nil {
		f.refuse(w, r, refused)
		return
	}
	w.WriteHeader(http.StatusAccepted)
}

// sessionOf finds the session that the query names, nil if there is none. Somebody else's is as unknown as one that never was.
func (f *Front) sessionOf(r *http.Request) (*session, *refusal) {
	ids := r.URL.Query()[sessionParam]
	if len(ids) > 1 {
		return nil, badRequest(negotiate.Refused(jsonrpc.CodeInvalidRequest, negotiate.ReasonMalformedRequest,
			"the query has %s more than once; post to the URL of the endpoint event as it is", sessionParam), nil)
	}
	if len(ids) == 0 || ids[0] == "" {
		return nil, badRequest(negotiate.Refused(jsonrpc.CodeInvalidRequest, negotiate.ReasonMissingSession,
			"the query has no %s: open the stream with GET %s and post to the URL of its endpoint event", sessionParam, f.o.SSEPath), nil)
	}
	return f.find(r, ids[0]), nil
}

// Client returns who has the session that a POST names, and whether there is one.
func (f *Front) Client(r *http.Request) (exchange.Client, bool) {
	s := f.find(r, r.URL.Query().Get(sessionParam))
	if s == nil {
		return exchange.Client{}, false
	}
	return s.client(), true
}

func (f *Front) unknownSession() *refusal {
	return &refusal{status: http.StatusNotFound, err: negotiate.Refused(jsonrpc.CodeInvalidRequest, negotiate.ReasonUnknownSession,
		"there is no such session: it ends with its stream; open a new one with GET %s and initialize", f.o.SSEPath)}
}

// take reads the body and hands over what is in it. All of it is refused or none.
func (f *Front) take(w http.ResponseWriter, r *http.Request, s *session) *refusal {
	if !isJSON(r.Header) {
		return &refusal{status: http.StatusUnsupportedMediaType, err: negotiate.Refused(jsonrpc.CodeInvalidRequest, negotiate.ReasonMediaType,
			"Content-Type must be application/json in UTF-8")}
	}
	if isEncoded(r.Header) {
		return &refusal{status: http.StatusUnsupportedMediaType, header: [2]string{"Accept-Encoding", "identity"},
			err: negotiate.Refused(jsonrpc.CodeInvalidRequest, negotiate.ReasonMediaType, "send the body as it is, without Content-Encoding")}
	}
	body, err := f.readBody(w, r)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return &refusal{status: http.StatusRequestTimeout, header: [2]string{"Connection", "close"}, err: negotiate.Refused(jsonrpc.CodeInvalidRequest,
			negotiate.ReasonBodySlow, "the body did not arrive in time")}
	}
	if tooLarge, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return &refusal{status: http.StatusRequestEntityTooLarge, err: negotiate.Refused(jsonrpc.CodeParse, negotiate.ReasonBodyTooLarge,
			"the body is larger than %d bytes", tooLarge.Limit)}
	}
	if full, ok := errors.AsType[*exchange.Failure](err); ok { // who guards this front has no room for the rest
		return &refusal{status: http.StatusServiceUnavailable, header: [2]string{"Retry-After", retryAfter}, err: exchange.PublicError(full)}
	}
	if err != nil {
		return badRequest(negotiate.Refused(jsonrpc.CodeParse, negotiate.ReasonMalformedRequest, "the body could not be read to its end"), nil)
	}
	var messages []jsonrpc.Message
	var faults [][]byte // of a batch: what is to be said of malformed elements
	var refused *refusal
	if jsonrpc.IsArray(body) {
		messages, faults, refused = s.scanBatch(body)
	} else {
		messages, refused = scanOne(body)
	}
	if refused != nil {
		return refused
	}
	if f.isDraining() && hasRequest(messages) { // answers to questions still pass: calls in flight wait for them
		refused = unavailable(errDraining)
		if len(messages) == 1 {
			refused.id = messages[0].ID
		}
		return refused
	}
	if !s.tombstone.Load() { // those who come back to a tombstone stay there
		s = f.home(s, messages)
	}
	s.spoke.Store(true)
	s.last.Store(time.Now().UnixNano())
	for _, fault := range faults {
		s.Finish(fault)
	}
	for i := range messages {
		if refused := s.dispatch(&messages[i], r); refused != nil {
			return refused
		}
	}
	return nil
}

// readBody reads the body within BodyTimeout. The error is an *http.MaxBytesError when it is too large, and
// os.ErrDeadlineExceeded when it did not come in time.
func (f *Front) readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	rc := http.NewResponseController(w)
	_ = rc.SetReadDeadline(time.Now().Add(f.o.BodyTimeout)) // a reader without deadlines has none to keep
	text, err := jsonrpc.ReadText(http.MaxBytesReader(w, r.Body, f.o.MaxBodyBytes), r.ContentLength)
	if err == nil {
		_ = rc.SetReadDeadline(time.Time{})
	}
	return text, err
}

func hasRequest(messages []jsonrpc.Message) bool {
	for i := range messages {
		if messages[i].Kind == jsonrpc.Request {
			return true
		}
	}
	return false
}

func scanOne(body []byte) ([]jsonrpc.Message, *refusal) {
	m, e := jsonrpc.Scan(body)
	if e != nil {
		return nil, badRequest(malformed(e), m.ID)
	}
	return []jsonrpc.Message{m}, nil
}

// scanBatch reads an array, the elements of which are independent of each other (translation.md 2). A malformed one is answered by
// an error of its own where its id can be read; nobody could tell whose an error without one is on the stream. If none is well
// formed the whole is refused.
func (s *session) scanBatch(body []byte) (messages []jsonrpc.Message, faults [][]byte, refused *refusal) {
	if !s.core.Revision().Has(negotiate.Batching) {
		return nil, nil, badRequest(negotiate.Refused(jsonrpc.CodeInvalidRequest, negotiate.ReasonBatch,
			"batches are for sessions that negotiated 2024-11-05 or 2025-03-26; send the messages one by one"), nil)
	}
	elems, e := jsonrpc.Split(body)
	if e != nil {
		return nil, nil, badRequest(malformed(e), nil)
	}
	var first *refusal
	for _, elem := range elems {
		m, e := jsonrpc.Scan(elem)
		switch {
		case m.Method == "initialize" || negotiate.LegacyClaim(&m):
			return nil, nil, badRequest(negotiate.Refused(jsonrpc.CodeInvalidRequest, negotiate.ReasonBatch,
				"initialize and messages of 2026-07-28 cannot be part of a batch"), nil)
		case e == nil:
			messages = append(messages, m)
			continue
		case m.ID != nil:
			faults = append(faults, jsonrpc.AppendError(nil, m.ID, malformed(e)))
		}
		if first == nil {
			first = badRequest(malformed(e), nil)
		}
	}
	if len(messages) == 0 {
		return nil, nil, first
	}
	return messages, faults, nil
}

// malformed gives an error of the envelope its reason.
func malformed(e *jsonrpc.Error) *jsonrpc.Error {
	return negotiate.Refused(e.Code, negotiate.ReasonMalformedRequest, "%s", e.Message)
}

// dispatch hands one message over by translation.md 3, row 1. A refusal is the server's challenge, in pass-through mode.
func (s *session) dispatch(m *jsonrpc.Message, r *http.Request) *refusal {
	switch {
	case m.Kind == jsonrpc.Response:
		s.core.Handle(m, nil)
	case negotiate.LegacyClaim(m):
		s.claimed(m, r)
	case m.Kind == jsonrpc.Notification:
		s.core.Handle(m, nil)
		s.notice(r)
	default:
		return s.request(m, r)
	}
	return nil
}

// claimed answers a message of 2026-07-28. It is never served: one client family takes any result for leave
// to go on like that (clients.md 5), and none waits well for silence.
func (s *session) claimed(m *jsonrpc.Message, r *http.Request) {
	claim := negotiate.ReadClaim(m.Meta)
	s.discovered(claim)
	if m.Kind == jsonrpc.Notification || s.refused(m, r, claim.Info) {
		return
	}
	s.Finish(jsonrpc.AppendError(nil, m.ID, negotiate.UnsupportedVersion(s.front.o.Enabled, claim.Version)))
}

func (s *session) discovered(claim negotiate.Claim) {
	o := s.observation(exchange.SeenDiscover)
	o.Version, _ = jsonrpc.String(claim.Version)
	o.Info = claim.Info
	s.front.o.Observe(o)
}

func (s *session) request(m *jsonrpc.Message, r *http.Request) *refusal {
	switch m.Method {
	case "ping":
		s.core.Handle(m, s)
		return nil
	case "initialize":
		s.asked.Store(true)
		return s.initialize(m, r)
	case "server/discover":
		s.discovered(negotiate.ReadClaim(m.Meta))
	}
	if s.refused(m, r, nil) {
		return nil
	}
	s.notice(r)
	switch {
	case m.Method == "server/discover", m.Method == "subscriptions/listen":
	case m.Method == "logging/setLevel":
		s.setLevel(m)
	case !s.asked.Load() && s.core.Fresh():
		s.core.Reopen(s.cameBackWith(r), m, s)
		return nil
	}
	s.core.Handle(m, s)
	return nil
}

// cameBackWith returns the revision of a client that opened a new stream and goes on without an initialize (retirement.md R8):
// what its version header names, or what a client without one speaks.
func (s *session) cameBackWith(r *http.Request) negotiate.Revision {
	enabled := s.front.o.Enabled
	if named, _ := negotiate.Parse(r.Header.Get(negotiate.HeaderVersion)); enabled.Has(named) {
		return named
	}
	in, e := negotiate.ReadInitialize(nil, enabled)
	if e != nil {
		return enabled.Newest()
	}
	return in.Answer
}
