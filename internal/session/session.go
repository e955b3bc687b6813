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
	MaxCalls   int           // calls in flight; zero: 256
	AskTimeout time.Duration // for a question to the client; zero: 10 minutes

	Refuse  func(method string) *exchange.Error // asked at every request but ping; nil: never refuses
	Observe func(exchange.Observation)          // nil: nobody listens
	Ended   func()                              // called once when the server's side ended by itself; nil: nobody cares
	Logger  *slog.Logger                        // nil: silent
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
	calls    map[string][]*call // by raw id, oldest first
	inFlight []*call            // oldest first
	asked    map[string]*question
	lastID   int64
	tail     chan struct{} // closed when the newest ordered message has been handed over
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
	s := &Session{o: o}
	s.ctx, s.cancel = context.WithCancelCause(context.Background())
	return s
}

// Fresh reports whether no handshake has been begun.
func (s *Session) Fresh() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.phase == fresh
}

// Revision returns the negotiated revision, None before the handshake.
func (s *Session) Revision() negotiate.Revision {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.revision
}

// Done is closed when the session has been closed.
func (s *Session) Done() <-chan struct{} { return s.ctx.Done() }

// Busy reports how many calls are in flight.
func (s *Session) Busy() int {
	s.mu.Lock()
	defer s.mu.Unlock()
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
	up := s.up
	s.mu.Unlock()
	s.cancel(cause)
	s.wg.Wait()
	if up != nil {
		if err := up.Close(); err != nil {
			s.o.Logger.Debug("close upstream session", "session", s.o.Client.Session, "err", err)
		}
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

// Reopen opens the conversation of a client that came back without an initialize (retirement.md R8): with
// no capabilities and the bridge's own client info. It does nothing unless the session is fresh.
func (s *Session) Reopen(revision negotiate.Revision) {
	if !s.begin() {
		return
	}
	_, done := s.ticket()
	s.spawn(func() {
		defer done()
		c := s.o.Client
		c.Revision, c.Requested, c.Reopened = revision, revision.String(), true
		c.Info, c.Capabilities = s.o.BridgeInfo, []byte("{}")
		if _, err := s.openUpstream(s.ctx, c); err != nil {
			s.o.Logger.Warn("open upstream session for a client that came back", "session", c.Session, "err", err)
		}
	})
}

// begin moves a fresh session (or one whose handshake failed) to opening and reports whether it did.
func (s *Session) begin() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.phase != fresh && s.phase != failed {
		return false
	}
	s.phase = opening
	return true
}

// Initialize carries out the handshake and returns the response to the initialize request m, and whether the
// session is open now. A second initialize is refused with -32600 and leaves the session as it was
// (translation.md 3, rows 1 and 5).
func (s *Session) Initialize(ctx context.Context, m *jsonrpc.Message) (response []byte, opened bool) {
	result, err := s.initialize(ctx, m)
	if err != nil {
		return jsonrpc.AppendError(nil, m.ID, exchange.PublicError(err)), false
	}
	return jsonrpc.AppendResult(nil, m.ID, result), true
}

func (s *Session) initialize(ctx context.Context, m *jsonrpc.Message) ([]byte, error) {
	if s.o.Refuse != nil {
		if e := s.o.Refuse(m.Method); e != nil {
			return nil, e
		}
	}
	init, e := negotiate.ReadInitialize(m.Params, s.o.Enabled)
	if e != nil {
		return nil, e
	}
	if !s.begin() {
		return nil, negotiate.Refused(jsonrpc.CodeInvalidRequest, reasonInitialized,
			"this session has been initialized already; end it and open a new one to negotiate again")
	}
	_, done := s.ticket() // nothing but pings can be before it
	defer done()
	c := s.o.Client
	c.Revision, c.Requested = init.Answer, init.Requested
	c.Info, c.Capabilities = init.Info, init.Capabilities
	server, err := s.openUpstream(ctx, c)
	if err != nil {
		return nil, err
	}
	return initializeResult(server, init.Answer), nil
}

func (s *Session) openUpstream(ctx context.Context, c exchange.Client) (exchange.Server, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop := context.AfterFunc(s.ctx, func() { cancel(context.Cause(s.ctx)) })
	defer stop()

	s.mu.Lock()
	s.revision, s.caps = c.Revision, readCapabilities(c.Capabilities)
	s.mu.Unlock()
	c.Back = &peer{s: s, out: s.o.Standing}
	up, err := s.o.Handler.Open(ctx, c)

	s.mu.Lock()
	if err == nil && s.phase == closed {
		err = exchange.Fail(exchange.ReasonClosed, nil)
		defer up.Close()
		up = nil
	}
	if err != nil {
		if s.phase == opening {
			s.phase = failed
		}
		s.mu.Unlock()
		return exchange.Server{}, err
	}
	s.phase, s.up = open, up
	s.mu.Unlock()
	s.watch(up.Done())
	return up.Server(), nil
}

// watch tells the front when the server's side ends by itself.
func (s *Session) watch(done <-chan struct{}) {
	if done == nil || s.o.Ended == nil {
		return
	}
	s.spawn(func() {
		select {
		case <-done:
			// The front will close this session, which waits for this goroutine.
			go s.o.Ended()
		case <-s.ctx.Done():
		}
	})
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

// initializeResult is the server's own result with the revision the client is to be told
// (translation.md 4), or one made from what is known.
func initializeResult(server exchange.Server, answer negotiate.Revision) []byte {
	version := jsonrpc.Quote(answer.String())
	if server.Initialize != nil {
		return jsonrpc.Set(server.Initialize, version, "protocolVersion")
	}
	r := jsonrpc.Set(nil, version, "protocolVersion")
	caps := server.Capabilities
	if caps == nil {
		caps = []byte("{}")
	}
	r = jsonrpc.Set(r, caps, "capabilities")
	if server.Info != nil {
		r = jsonrpc.Set(r, server.Info, "serverInfo")
	}
	if server.Instructions != nil {
		r = jsonrpc.Set(r, server.Instructions, "instructions")
	}
	return r
}

// ticket takes the next place in the order in which messages are handed to the server
// (exchange contract, Order). wait is closed when the message before has been handed over; done says that this
// one has been and may be called more than once.
func (s *Session) ticket() (wait <-chan struct{}, done func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	wait = s.tail
	if wait == nil {
		wait = noWait
	}
	mine := make(chan struct{})
	s.tail = mine
	var once sync.Once
	return wait, func() { once.Do(func() { close(mine) }) }
}

var noWait = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

func (s *Session) observe(o exchange.Observation) {
	if s.o.Observe == nil {
		return
	}
	o.Transport, o.Session = s.o.Client.Transport, s.o.Client.Session
	o.Addr, o.UserAgent = s.o.Client.Addr, s.o.Client.UserAgent
	s.o.Observe(o)
}

// cancelled reports whether err is the other end's own wish, so that nothing more is to be said.
func cancelled(err error) bool {
	_, ok := errors.AsType[*exchange.CancelError](err)
	return ok
}
