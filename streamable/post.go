package streamable

import (
	"errors"
	"net/http"
	"os"
	"time"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
	"github.com/mcp-dualstack/bridge/negotiate"
)

// A form is what the client accepts as the answer to a POST.
type form struct{ json, stream bool }

// post serves a POST: what the message is decides where it goes (translation.md 3, rows 3 to 9). A request of 2026-07-28 is
// returned to be served, nil for anything else.
func (f *Front) post(c *carrier, r *http.Request) *stateless {
	var in form
	in.json, in.stream = accepted(r.Header)
	if !in.json && !in.stream {
		c.refuse(r, nil, refusedAccept)
		return nil
	}
	if !isJSON(r.Header) {
		c.refuse(r, nil, refusedContentType)
		return nil
	}
	if isEncoded(r.Header) {
		c.w.Header()["Accept-Encoding"] = []string{"identity"} // RFC 9110, section 15.5.16
		c.refuse(r, nil, refusedEncoding)
		return nil
	}
	text, x := f.readBody(c, r)
	if x != nil && x.status == http.StatusServiceUnavailable && f.namesUnknown(r) {
		x = refusedUnknown // nothing may hide that the session is gone (R05)
	}
	if x != nil {
		c.refuse(r, nil, x)
		return nil
	}
	if jsonrpc.IsArray(text) {
		f.batch(c, r, text, in)
		return nil
	}
	m, err := jsonrpc.Scan(text)
	if err != nil {
		c.refuse(r, m.ID, malformed(err))
		return nil
	}
	class, no := negotiate.Classify(r.Header, &m)
	switch class {
	case negotiate.ClassRefused:
		c.refuse(r, m.ID, &refusal{status: no.Status, err: no.Err})
	case negotiate.ClassInitialize:
		f.initialize(c, r, &m, in)
	case negotiate.ClassModern:
		return f.statelessOf(c, r, &m, in)
	case negotiate.ClassModernNotification:
		c.accepted()
	default:
		f.message(c, r, &m, in)
	}
	return nil
}

func malformed(e *jsonrpc.Error) *refusal {
	return refused(http.StatusBadRequest, e.Code, negotiate.ReasonMalformedRequest, "%s", e.Message)
}

// readBody reads the body to its end: only then does the server see that a client has gone.
func (f *Front) readBody(c *carrier, r *http.Request) ([]byte, *refusal) {
	tooLarge := func() *refusal {
		return refused(http.StatusRequestEntityTooLarge, jsonrpc.CodeParse, negotiate.ReasonBodyTooLarge,
			"the body is larger than the %d bytes that are taken here", f.o.MaxBodyBytes)
	}
	if r.ContentLength > f.o.MaxBodyBytes {
		return nil, tooLarge()
	}
	c.reading()
	text, err := jsonrpc.ReadText(http.MaxBytesReader(c.w, r.Body, f.o.MaxBodyBytes), r.ContentLength)
	if c.hasRead() || errors.Is(err, os.ErrDeadlineExceeded) {
		return nil, c.tooSlow()
	}
	if full, ok := errors.AsType[*exchange.Failure](err); ok { // who guards this front has no room for the rest
		return nil, &refusal{status: http.StatusServiceUnavailable, retryAfter: max(full.RetryAfter, time.Second), err: exchange.PublicError(full)}
	}
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return nil, tooLarge()
	}
	if err != nil {
		return nil, refused(http.StatusBadRequest, jsonrpc.CodeParse, negotiate.ReasonMalformedRequest, "the body ended before its time")
	}
	return text, nil
}

// namesUnknown reports whether r names a session that is none of its sender's.
func (f *Front) namesUnknown(r *http.Request) bool {
	id := r.Header.Get(negotiate.HeaderSession)
	return id != "" && !f.Knows(id, f.o.Principal(r))
}

// reading begins the reading of a body, for which there is Options.BodyTimeout and up to a twentieth more: deadlines of the connection, set
// and taken back for each request, cost several times as much as an alarm.
func (c *carrier) reading() {
	c.mu.Lock()
	c.body = true
	c.mu.Unlock()
	if c.f.deaf.Load() {
		c.interrupt()
	}
	c.f.bodies.AddFunc(&c.slow, time.Now().Add(c.f.o.BodyTimeout), c.interrupt)
}

// hasRead ends it and reports whether it was interrupted. Then even a body whose last byte came is too late: the
// server, which reads on to learn that a client has gone, takes the deadline for just that.
func (c *carrier) hasRead() (interrupted bool) {
	c.slow.Remove()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.body = false
	return c.interrupted
}

// interrupt ends the reading of a body: it takes too long, or nobody will carry out what it says.
func (c *carrier) interrupt() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.body && !c.over {
		c.interrupted = true
		_ = c.rc.SetReadDeadline(time.Unix(1, 0)) // a reader without deadlines has none to keep
	}
}

// tooSlow returns the refusal of a body that was not there in time. The connection cannot be used again: the rest of the
// body would be taken for a request.
func (c *carrier) tooSlow() *refusal {
	c.w.Header()["Connection"] = []string{"close"}
	if c.f.isDraining() {
		return refusedShutdown
	}
	return refusedSlow
}

// sessionOf returns the session that r names, to be released, or why it cannot be used (translation.md 3.2).
func (f *Front) sessionOf(r *http.Request) (*session, *refusal) {
	id := r.Header.Get(negotiate.HeaderSession)
	if id == "" {
		return nil, refusedNoID
	}
	if len(r.Header[negotiate.HeaderSession]) > 1 {
		return nil, refusedTwoIDs // a proxy that replaces and one that appends disagree about whose session it is
	}
	s := f.lookup(r, id)
	if s == nil {
		return nil, refusedUnknown
	}
	mismatch, no := negotiate.CheckSessionVersion(r.Header, s.core.Revision(), f.o.Enabled)
	if no != nil {
		s.release()
		return nil, &refusal{status: no.Status, err: no.Err}
	}
	if mismatch {
		f.o.Observe(f.observation(r, exchange.SeenMismatch, ""))
	}
	return s, nil
}

// message serves one message of a session.
func (f *Front) message(c *carrier, r *http.Request, m *jsonrpc.Message, in form) {
	s, x := f.sessionOf(r)
	if x != nil {
		c.refuse(r, requestID(m), x)
		return
	}
	defer s.release()
	if m.Kind != jsonrpc.Request {
		s.core.Handle(m, nil)
		c.accepted()
		return
	}
	if s.core.Busy() >= f.o.MaxCalls {
		c.refuse(r, m.ID, refusedOwnCalls)
		return
	}
	stream := in.stream && !(f.o.JSONResponses && in.json)
	if stream {
		if x := f.openStream(s); x != nil {
			c.refuse(r, m.ID, x)
			return
		}
		defer f.closeStream(s)
	}
	if x := f.begin(); x != nil {
		c.refuse(r, m.ID, x)
		return
	}
	if stream {
		s.callStream(c, m)
		return
	}
	s.callJSON(c, m)
}

// requestID returns the id of a request. That of a response is not for a refusal to carry.
func requestID(m *jsonrpc.Message) []byte {
	if m.Kind == jsonrpc.Request {
		return m.ID
	}
	return nil
}
