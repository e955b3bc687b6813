package legacy

import (
	"context"
	"crypto/rand"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/mcp-dualstack/bridge/exchange"
	core "github.com/mcp-dualstack/bridge/internal/session"
	"github.com/mcp-dualstack/bridge/negotiate"
)

// A session is one client's conversation. It ends with the stream that carries it or, where clients are re-attached,
// a minute after that (reattach.go). It is the core's outlet for everything.
type session struct {
	front     *Front
	id        string // 130 random bits
	principal string
	trace     trace
	core      *core.Session
	out       *outbox
	ctx       context.Context         // ends when the session is to end; its cause is what calls in flight get
	end       context.CancelCauseFunc // of ctx

	tombstone atomic.Bool            // everything is refused here and nothing opened; taken back under the front's mu, when a client need not be refused
	noticed   atomic.Bool            // it has been told of the retirement
	quiet     atomic.Bool            // its client wants no log messages of level warning
	spoke     atomic.Bool            // a message came
	asked     atomic.Bool            // an initialize came, so that this client knows how to begin
	versioned atomic.Bool            // a version header was observed
	last      atomic.Int64           // unix nanoseconds of the last message either way
	info      atomic.Pointer[[]byte] // raw clientInfo of the initialize; nil: not known

	stream atomic.Pointer[stream] // that carries it; nil: none. Changed under the front's mu only

	// Guarded by the front's mu.

	retired   bool              // no more messages are taken
	ids       []string          // by which messages are posted; its own first
	cursor    string            // id of the endpoint event; empty: it had none
	decided   bool              // a message has shown whether this client begins anew
	moved     *session          // that this client has come back to; nil: none
	opened    bool              // its conversation is open or being opened; pass-through only
	adopted   *credentials      // of who took it over; nil: nobody
	challenge *exchange.Failure // why opening it failed, if the server asks for credentials

	found chan struct{} // closed when a stream carries it again; nil unless it waits for one
}

func (f *Front) newSession(r *http.Request, principal string) *session {
	s := &session{front: f, id: rand.Text(), principal: principal, trace: f.traceOf(r, principal), out: newOutbox(f.o.StreamBytes)}
	s.ids = []string{s.id}
	s.ctx, s.end = context.WithCancelCause(context.Background())
	s.last.Store(time.Now().UnixNano())
	s.core = core.New(core.Options{
		Handler:  s.handler(),
		Standing: s,
		Client: exchange.Client{
			Principal: principal,
			Transport: exchange.HTTPSSE,
			Session:   s.id,
			Addr:      f.o.Addr(r),
			UserAgent: r.UserAgent(),

			Authorization: f.authorization(r),
		},
		Enabled:    f.o.Enabled,
		BridgeInfo: f.o.BridgeInfo,
		MaxCalls:   f.o.MaxCalls,
		Quota:      f.quota,
		AskTimeout: f.o.AskTimeout,
		Observe:    f.o.Observe,
		Ends:       &f.servers,
		Ended:      func() { s.end(exchange.Fail(exchange.ReasonLost, nil)) },
		Failed:     s.failed,
		Logger:     f.o.Logger,
	})
	return s
}

// Notify queues a notification. The error means that the session has ended, or was cut just now.
func (s *session) Notify(_ string, msg []byte) error { return s.push(msg, false) }

// Ask queues a question.
func (s *session) Ask(_ context.Context, msg []byte) error { return s.push(msg, false) }

// Finish queues an answer. An answer that finds no room cuts the stream, and so is not lost in silence.
func (s *session) Finish(msg []byte) {
	if msg != nil {
		_ = s.push(msg, true) // the stream has ended, which tells the client
	}
	s.front.called()
}

func (s *session) push(msg []byte, answer bool) error {
	err := s.out.push(msg, answer)
	if err == errCut {
		s.front.o.Logger.Warn("stream cut: the client reads too slowly", "session", s.short(), "bytes", s.front.o.StreamBytes)
		s.observe(exchange.SeenDropped, exchange.ReasonStreamCut)
		s.end(exchange.Fail(exchange.ReasonStreamCut, err))
		s.hurry(0)
	}
	if err != nil {
		return exchange.Fail(exchange.ReasonStreamCut, err)
	}
	return nil
}

// hurry makes what is being written, and each write after it, end within d.
func (s *session) hurry(d time.Duration) {
	if st := s.stream.Load(); st != nil {
		st.hurry(d)
	}
}

// close ends the conversation and waits for its calls; with a cause they get that as their error, which out writes,
// nil for nobody.
func (s *session) close(cause error, out *writer) {
	s.front.retire(s)
	s.core.Close(cause)
	for more := cause != nil && out != nil; more; { // nothing new comes any more
		wrote, err := out.queued(s) // who is not there any more does not read it
		more = wrote && err == nil
	}
	s.out.close()
	s.end(nil)
	s.front.forget(s)
	switch {
	case s.tombstone.Load():
		s.observe(exchange.SeenTombstoneEnd, "")
	case !s.spoke.Load():
		s.observe(exchange.SeenSilent, "")
	}
}

func (s *session) isIdle() bool {
	limit := s.front.o.IdleTimeout
	return limit > 0 && s.core.Busy() == 0 && time.Now().UnixNano()-s.last.Load() >= int64(limit)
}

// seeVersion reports the first version header of the session.
func (s *session) seeVersion(r *http.Request) {
	v := r.Header.Get(negotiate.HeaderVersion)
	if v == "" || s.versioned.Swap(true) {
		return
	}
	o := s.observation(exchange.SeenVersionHeader)
	o.Version = v
	s.front.o.Observe(o)
}

func (s *session) observe(kind, detail string) {
	o := s.observation(kind)
	o.Detail = detail
	s.front.o.Observe(o)
}

func (s *session) observation(kind string) exchange.Observation {
	c := s.core.Client()
	return exchange.Observation{Kind: kind, Transport: c.Transport, Session: c.Session, Principal: c.Principal, Addr: c.Addr, UserAgent: c.UserAgent}
}

// short returns as much of the session id as a log may show: who knows it all can write to the session.
func (s *session) short() string { return s.id[:8] }
