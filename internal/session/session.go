// Package session keeps one handshake-era client's conversation, whatever transport carries it: the
// handshake, the calls in flight, the order they start in, and the questions put to the client.
//
// A front makes one Session per client and hands it every message; what goes back to the client
// leaves through the front's outlets.
package session

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
	"github.com/mcp-dualstack/bridge/negotiate"
)

// An Outlet takes messages for the client. Its methods may be called concurrently, keep the bytes
// without changing them, and do not wait for a slow reader.
type Outlet interface {
	// Notify queues a notification. method is the notification's.
	Notify(method string, msg []byte) error
	// Ask queues a request of the server's. It may wait for a stream to open until ctx ends.
	Ask(ctx context.Context, msg []byte) error
}

// A Reply is the outlet of one request.
type Reply interface {
	Outlet
	// Finish gives the response, as the last message. It is called exactly once, with nil when the call was
	// cancelled and nothing more is to be said.
	Finish(msg []byte)
}

// Options configure a Session. Handler and Standing are required.
type Options struct {
	Handler  exchange.Handler
	Standing Outlet          // for what belongs to no call
	Client   exchange.Client // the fields that are only for the record, and Principal

	Enabled    negotiate.Set // revisions that may be negotiated; zero: all legacy ones
	BridgeInfo []byte        // raw Implementation object for conversations without initialize
	MaxCalls   int           // calls in flight, and messages that wait to be handed over; zero: 256
	Quota      *Quota        // of the calls in flight of many sessions; nil: none
	AskTimeout time.Duration // for a question to the client; zero: 10 minutes

	Observe func(exchange.Observation) // nil: nobody listens
	Ended   func()                     // called once when the server's side ended by itself; nil: nobody cares
	Ends    *Ends                      // of sessions that may have one server; nil: of this one alone
	Failed  func(error)                // called when there can be no conversation, unless the server itself refused (an *exchange.Error). It must not wait for the session. nil: nobody cares
	Logger  *slog.Logger               // nil: silent
}

const (
	defaultMaxCalls   = 256
	defaultAskTimeout = 10 * time.Minute
)

type phase uint8

const (
	fresh phase = iota // nothing opened yet
	opening
	open
	failed // the handshake was refused: the client may try again
	closed
)

// A Session is one client's conversation. Methods may be called concurrently.
type Session struct {
	o      Options
	ctx    context.Context // ends with the session; its cause says why
	cancel context.CancelCauseFunc
	wg     sync.WaitGroup // every goroutine the session started

	mu       sync.Mutex
	phase    phase
	revision negotiate.Revision
	caps     capabilities
	up       exchange.Session
	gone     <-chan struct{}    // closed when up has ended by itself; nil: it is not waited for
	openErr  error              // why up is nil after a handshake
	calls    map[string][]*call // by callKey, oldest first
	inFlight []*call            // oldest first
	asked    map[string]*question
	lastID   int64
	tail     chan struct{} // closed when the newest ordered message has been handed over
	waiting  int           // ordered messages not handed over
}

// New returns a session for which nothing has been opened yet.
func New(o Options) *Session {
	if o.Enabled == 0 {
		o.Enabled = negotiate.Legacy
	}
	if o.MaxCalls == 0 {
		o.MaxCalls = defaultMaxCalls
	}
	if o.AskTimeout == 0 {
		o.AskTimeout = defaultAskTimeout
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Ends == nil {
		o.Ends = new(Ends)
	}
	s := &Session{o: o}
	s.ctx, s.cancel = context.WithCancelCause(context.Background())
	return s
}

// Fresh reports whether no handshake has been begun, or the last one was begun by Reopen and failed.
func (s *Session) Fresh() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.phase == fresh
}

// Begun reports whether there is a conversation, or one is being opened.
func (s *Session) Begun() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.phase == open || s.phase == opening
}

// Logs reports whether the conversation is open with a server that declared the capability logging.
func (s *Session) Logs() bool {
	s.mu.Lock()
	up, phase := s.up, s.phase
	s.mu.Unlock()
	if phase != open || up == nil {
		return false
	}
	server := up.Server()
	if server.Initialize != nil {
		return jsonrpc.IsObject(jsonrpc.Get(server.Initialize, "capabilities", "logging"))
	}
	return jsonrpc.IsObject(jsonrpc.Get(server.Capabilities, "logging"))
}

// Revision returns the negotiated revision, None before the handshake.
func (s *Session) Revision() negotiate.Revision {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.revision
}

// Done is closed when the session has been closed.
func (s *Session) Done() <-chan struct{} { return s.ctx.Done() }

// Busy reports how many calls are in flight. A handshake counts as one.
func (s *Session) Busy() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.phase == opening {
		return len(s.inFlight) + 1
	}
	return len(s.inFlight)
}

// errClosed is the cause of a session that its client ended.
var errClosed = &exchange.CancelError{Reason: "the session ended"}

// Close ends the session and waits until its calls have returned. cause nil means that the client
// ended it: calls in flight end without a response. Otherwise each gets the cause as its error.
func (s *Session) Close(cause error) {
	if cause == nil {
		cause = errClosed
	}
	s.mu.Lock()
	s.phase = closed
	up, gone := s.up, s.gone
	s.gone = nil
	s.mu.Unlock()
	if gone != nil {
		s.o.Ends.forget(gone, s)
	}
	s.cancel(cause)
	s.wg.Wait()
	if up != nil {
		s.closeUpstream(up)
	}
}

func (s *Session) closeUpstream(up exchange.Session) {
	if err := up.Close(); err != nil {
		s.o.Logger.Debug("close upstream session", "session", s.short(), "err", err)
	}
}

// Handle takes one message from the client. For a request reply is where everything about it goes;
// for other messages it is nil. Handle does not wait for the server.
func (s *Session) Handle(m *jsonrpc.Message, reply Reply) {
	switch m.Kind {
	case jsonrpc.Request:
		s.request(m, reply)
	case jsonrpc.Notification:
		s.notification(m)
	case jsonrpc.Response:
		s.answer(m)
	}
}

// spawn runs f in a goroutine that ends with the session at the latest and that Close waits for. It does
// nothing and returns false when the session has been closed.
func (s *Session) spawn(f func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.phase == closed {
		return false
	}
	s.wg.Go(f)
	return true
}

func (s *Session) observe(o exchange.Observation) {
	if s.o.Observe == nil {
		return
	}
	o.Transport, o.Session = s.o.Client.Transport, s.o.Client.Session
	o.Principal, o.Addr, o.UserAgent = s.o.Client.Principal, s.o.Client.Addr, s.o.Client.UserAgent
	s.o.Observe(o)
}

// cancelled reports whether err is the other end's own wish, so that nothing more is to be said.
func cancelled(err error) bool {
	_, ok := errors.AsType[*exchange.CancelError](err)
	return ok
}

// Client returns what Options say about the client.
func (s *Session) Client() exchange.Client { return s.o.Client }

// Describe names the session for a log: client transport and shortened id.
func (s *Session) Describe() string { return strings.TrimSpace(s.o.Client.Transport + " " + s.short()) }

// short returns as much of the session id as a log may show: who knows it all can use the session.
func (s *Session) short() string {
	id := s.o.Client.Session
	return id[:min(len(id), 8)]
}
