package session_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
	"github.com/mcp-dualstack/bridge/internal/session"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A script is a Handler and the only Session it opens. Nil functions do the obvious.
type script struct {
	open   func(context.Context, exchange.Client) error
	call   func(context.Context, exchange.Request, exchange.Peer) (exchange.Response, error)
	notify func(exchange.Request) error
	server exchange.Server
	done   chan struct{}

	mu     sync.Mutex
	opened []exchange.Client
	closed int
}

func (s *script) Open(ctx context.Context, c exchange.Client) (exchange.Session, error) {
	s.mu.Lock()
	s.opened = append(s.opened, c)
	s.mu.Unlock()
	if s.open != nil {
		if err := s.open(ctx, c); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func (s *script) Server() exchange.Server { return s.server }

func (s *script) Call(ctx context.Context, req exchange.Request, back exchange.Peer) (exchange.Response, error) {
	if s.call != nil {
		return s.call(ctx, req, back)
	}
	req.Sent()
	return exchange.Response{Result: []byte(`{"method":"` + req.Method + `"}`)}, nil
}

func (s *script) Notify(_ context.Context, note exchange.Request) error {
	if s.notify != nil {
		return s.notify(note)
	}
	return nil
}

func (s *script) Done() <-chan struct{} { return s.done }

func (s *script) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed++
	return nil
}

func (s *script) client(t *testing.T, n int) exchange.Client {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.opened) != n {
		t.Fatalf("opened %d times, want %d", len(s.opened), n)
	}
	return s.opened[n-1]
}

// An outlet keeps what goes to the client; cancelled calls are "-".
type outlet struct {
	mu  sync.Mutex
	got []string
	err error // of Notify and Ask
}

func (o *outlet) add(msg string) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.got = append(o.got, msg)
	return o.err
}

func (o *outlet) Notify(_ string, msg []byte) error       { return o.add(string(msg)) }
func (o *outlet) Ask(_ context.Context, msg []byte) error { return o.add(string(msg)) }
func (o *outlet) Finish(msg []byte) {
	if msg == nil {
		msg = []byte("-")
	}
	_ = o.add(string(msg))
}

// take returns what came since the last take.
func (o *outlet) take() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	got := o.got
	o.got = nil
	return got
}

func (o *outlet) want(t *testing.T, want ...string) {
	t.Helper()
	if got := o.take(); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func message(t testing.TB, text string) *jsonrpc.Message {
	t.Helper()
	m, err := jsonrpc.Scan([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return &m
}

// start returns a session of h, closed at the end of the test; change may alter its options.
func start(t testing.TB, h exchange.Handler, change func(*session.Options)) (*session.Session, *outlet) {
	t.Helper()
	standing := &outlet{}
	o := session.Options{Handler: h, Standing: standing, BridgeInfo: []byte(`{"name":"bridge"}`)}
	if change != nil {
		change(&o)
	}
	s := session.New(o)
	t.Cleanup(func() { s.Close(nil) })
	return s, standing
}

const initialize = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18",` +
	`"capabilities":{"roots":{},"sampling":{},"elicitation":{}},"clientInfo":{"name":"c","version":"1"}}}`

// begun is start with the handshake done.
func begun(t testing.TB, h exchange.Handler, change func(*session.Options)) (*session.Session, *outlet) {
	t.Helper()
	s, standing := start(t, h, change)
	if response, ok := s.Initialize(t.Context(), message(t, initialize)); !ok {
		t.Fatalf("initialize: %s", response)
	}
	return s, standing
}

func reasonOf(t *testing.T, response string) string {
	t.Helper()
	reason, _ := jsonrpc.String(jsonrpc.Get([]byte(response), "error", "data", "bridge", "reason"))
	return reason
}

var errCrash = errors.New("crash")

var unavailable = exchange.Fail(exchange.ReasonUnavailable, errCrash)
