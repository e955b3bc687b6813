package legacy

import (
	"context"
	"errors"
	"net/http"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
	core "github.com/mcp-dualstack/bridge/internal/session"
)

// In pass-through mode (Options.Authorization) the server checks the client's credentials (translation.md 13). It does so when the
// conversation is opened, so the POST of initialize waits for it: its status can be the server's, with its challenge. A client
// that opened its stream without credentials and got them after that challenge goes on with the same stream.

// A credited is the server as one session opens it: with the client's credentials.
type credited struct {
	s    *session
	next exchange.Handler
}

// Open opens the conversation for who has the session.
func (h *credited) Open(ctx context.Context, c exchange.Client) (exchange.Session, error) {
	s := h.s
	s.front.mu.Lock()
	s.opened = true
	if s.adopted != nil {
		c.Principal, c.Authorization = s.adopted.principal, s.adopted.authorization
	}
	s.front.mu.Unlock()
	up, err := h.next.Open(ctx, c)
	if err != nil {
		s.front.mu.Lock()
		defer s.front.mu.Unlock()
		s.opened = false
		s.challenge, _ = challengeOf(err)
	}
	return up, err
}

// credentials are those of who took a session over that nobody's were known of.
type credentials struct{ principal, authorization string }

// adopt gives a session that was opened without credentials, and has no conversation yet, to the sender of r, who knows its id. The
// caller holds mu.
func (f *Front) adopt(s *session, r *http.Request, principal string) bool {
	if f.o.Authorization == nil || s.principal != "" || principal == "" || s.opened || s.adopted != nil && s.adopted.principal == principal {
		return false
	}
	s.adopted = &credentials{principal, f.o.Authorization(r)}
	s.trace.principal = principal // nobody else comes back to it
	return true
}

// owner names who may use s. The caller holds mu.
func (s *session) owner() string {
	if s.adopted != nil {
		return s.adopted.principal
	}
	return s.principal
}

// handler returns the server as s opens it.
func (s *session) handler() exchange.Handler {
	if s.front.o.Authorization == nil {
		return s.front.handler
	}
	return &credited{s, s.front.handler}
}

// failed ends a session that can have no conversation, unless its client may get better credentials.
func (s *session) failed(err error) {
	if _, ok := challengeOf(err); ok {
		return
	}
	s.end(err)
}

// challengeOf returns the failure by which the server asks for credentials.
func challengeOf(err error) (*exchange.Failure, bool) {
	f, ok := errors.AsType[*exchange.Failure](err)
	if !ok || f.Challenge == "" {
		return nil, false
	}
	return f, true
}

// open hands initialize over. In pass-through mode it waits for the outcome and returns the server's challenge as the refusal of the POST.
func (s *session) open(m *jsonrpc.Message, r *http.Request, reply core.Reply) *refusal {
	if s.front.o.Authorization == nil {
		s.core.Handle(m, reply)
		return nil
	}
	w := &awaited{Reply: reply, s: s, id: m.ID, outcome: make(chan *refusal, 1)}
	s.core.Handle(m, w)
	select {
	case x := <-w.outcome:
		return x
	case <-r.Context().Done():
	case <-s.ctx.Done():
	}
	return nil
}

// An awaited is the outlet of an initialize whose POST waits for the answer.
type awaited struct {
	core.Reply
	s       *session
	id      []byte
	outcome chan *refusal // capacity 1: nil when the answer is on the stream
}

// Finish puts the answer on the stream, unless it is a challenge.
func (w *awaited) Finish(msg []byte) {
	f := w.s.front
	f.mu.Lock()
	challenge := w.s.challenge
	w.s.challenge = nil
	f.mu.Unlock()
	if challenge == nil {
		w.Reply.Finish(msg)
		w.outcome <- nil
		return
	}
	f.called()
	w.outcome <- &refusal{status: challenge.Status, id: w.id, err: exchange.PublicError(challenge),
		header: [2]string{"Www-Authenticate", challenge.Challenge}}
}

// Knows reports whether that principal has a session of that id.
func (f *Front) Knows(id, principal string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.sessions[id]
	return s != nil && !s.retired && (s.owner() == principal || f.o.Authorization != nil && s.principal == "" && !s.opened)
}

func (f *Front) authorization(r *http.Request) string {
	if f.o.Authorization == nil {
		return ""
	}
	return f.o.Authorization(r)
}
