package upstream

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/exchange/exchangetest"
	"github.com/mcp-dualstack/bridge/negotiate"
)

// A linkedServer makes sessions on which what the server says because of a call comes with the call, as on HTTP.
type linkedServer struct {
	mu       sync.Mutex
	sessions []*linkedSession
}

func (s *linkedServer) open(_ context.Context, c exchange.Client) (exchange.Session, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sess := &linkedSession{client: c, done: make(chan struct{})}
	s.sessions = append(s.sessions, sess)
	return sess, nil
}

// A linkedSession asks during every call but a list.
type linkedSession struct {
	client exchange.Client
	done   chan struct{}

	mu     sync.Mutex
	said   []string
	closed bool
}

func (s *linkedSession) Server() exchange.Server {
	return exchange.Server{Revision: s.client.Revision, Capabilities: []byte(`{"logging":{}}`)}
}

func (s *linkedSession) Call(ctx context.Context, req exchange.Request, back exchange.Peer) (exchange.Response, error) {
	s.say(req.Method)
	if req.Method == methodSetLevel {
		return exchange.Response{Result: []byte("{}")}, nil
	}
	_ = back.Notify(ctx, exchange.Request{Method: "notifications/message", Params: []byte(`{"level":"info"}`)})
	return back.Call(ctx, exchange.Request{Method: "elicitation/create"})
}

func (s *linkedSession) Notify(_ context.Context, note exchange.Request) error {
	s.say(note.Method)
	return nil
}

func (s *linkedSession) say(method string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.said = append(s.said, method)
}

func (s *linkedSession) Done() <-chan struct{} { return s.done }

func (s *linkedSession) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	return nil
}

// Where what the server says comes with the call it belongs to, calls of a class share a session and
// each is asked its own questions; nobody's roots are kept all the same (translation.md 7.3.1, 12).
func TestLinkedPool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := (*Options)(nil).withDefaults()
		server := &linkedServer{}
		p := newPool(&o, server.open, true)
		defer p.close()
		open := func(principal, capabilities string) exchange.Session {
			s, err := p.session(t.Context(), exchange.Client{Revision: negotiate.Rev20260728, Principal: principal, Capabilities: []byte(capabilities)}, negotiate.All)
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
		release := make(chan struct{})
		var calls sync.WaitGroup
		for i := range 5 {
			calls.Go(func() {
				want := fmt.Sprintf(`{"n":%d}`, i)
				peer := &exchangetest.Peer{Answer: func(context.Context, exchange.Request) (exchange.Response, error) {
					<-release
					return exchange.Response{Result: []byte(want)}, nil
				}}
				req := exchange.Request{Method: "tools/call", Params: []byte(`{"_meta":{"io.modelcontextprotocol/logLevel":"info"}}`)}
				resp, err := open("a", `{"elicitation":{}}`).Call(t.Context(), req, peer)
				if err != nil || string(resp.Result) != want || len(peer.Notes()) != 1 {
					t.Errorf("got %s, %v and %d notes, want %s", resp.Result, err, len(peer.Notes()), want)
				}
			})
		}
		synctest.Wait()
		close(release)
		calls.Wait()
		if n := len(server.sessions); n != 1 {
			t.Errorf("%d sessions for one class", n)
		}

		accept := &exchangetest.Peer{Answer: func(context.Context, exchange.Request) (exchange.Response, error) {
			return exchange.Response{Result: []byte(`{}`)}, nil
		}}
		resp, err := open("a", `{"elicitation":{}}`).Call(t.Context(), exchange.Request{Method: "tools/list"}, accept)
		if err != nil || resp.Error == nil || resp.Error.Code != -32602 {
			t.Errorf("question during a list: got %v, %v", resp.Error, err)
		}
		for range 2 {
			_, _ = open("", `{"roots":{}}`).Call(t.Context(), exchange.Request{Method: "tools/call"}, accept)
		}
		if n := len(server.sessions); n != 3 {
			t.Fatalf("%d sessions, want one for the class and two of nobody's", n)
		}
		for _, s := range server.sessions[1:] {
			if !s.closed {
				t.Error("a session that had nobody's roots is kept")
			}
		}
	})
}

// Roots of a shared session may be another client's: each call is announced.
func TestLinkedRoots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := (*Options)(nil).withDefaults()
		server := &linkedServer{}
		p := newPool(&o, server.open, true)
		defer p.close()
		for range 2 {
			s, err := p.session(t.Context(), exchange.Client{Principal: "a", Capabilities: []byte(`{"roots":{}}`)}, negotiate.All)
			if err != nil {
				t.Fatal(err)
			}
			_, _ = s.Call(t.Context(), exchange.Request{Method: "tools/call"}, &exchangetest.Peer{})
		}
		if got, want := fmt.Sprint(server.sessions[0].said), "[tools/call notifications/roots/list_changed tools/call]"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	})
}

// So many may wait for a session of the pool; more are refused at once.
func TestMaxWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var reached []string
		o := (&Options{MaxLeases: 1, MaxWaiting: 2, Bound: func(b string) {
			mu.Lock()
			defer mu.Unlock()
			reached = append(reached, b)
		}}).withDefaults()
		p := newPool(&o, (&linkedServer{}).open, false)
		defer p.close()
		key := poolKey{principal: "a", class: capForm}
		m, err := p.acquire(t.Context(), key, 0, "")
		if err != nil {
			t.Fatal(err)
		}
		var waiting sync.WaitGroup
		for range 2 {
			waiting.Go(func() {
				m, err := p.acquire(t.Context(), key, 0, "")
				if err != nil {
					t.Error(err)
					return
				}
				p.put(m, true)
			})
		}
		synctest.Wait()
		if _, err := p.acquire(t.Context(), key, 0, ""); !isBusy(err) {
			t.Errorf("got %v, want %s", err, exchange.ReasonBusy)
		}
		mu.Lock()
		got := fmt.Sprint(reached)
		mu.Unlock()
		if got != "["+BoundLeases+" "+BoundLeases+" "+BoundWaiting+"]" {
			t.Errorf("reached %s", got)
		}
		p.put(m, true)
		waiting.Wait()
	})
}
