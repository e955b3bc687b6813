package translate

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
	"github.com/mcp-dualstack/bridge/negotiate"
)

// A capricious server asks now and then, takes questions back, dies, or answers.
type capricious struct {
	mu   sync.Mutex
	rand *rand.Rand
	open int // sessions
}

func (s *capricious) n(n int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rand.IntN(n)
}

func (s *capricious) Open(context.Context, exchange.Client) (exchange.Session, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open++
	return &capriciousSession{capricious: s}, nil
}

type capriciousSession struct {
	*capricious
	once sync.Once
}

func (s *capriciousSession) Server() exchange.Server {
	return exchange.Server{Revision: negotiate.Rev20251125}
}
func (s *capriciousSession) Notify(context.Context, exchange.Request) error { return nil }
func (s *capriciousSession) Done() <-chan struct{}                          { return nil }

func (s *capriciousSession) Close() error {
	s.once.Do(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.open--
	})
	return nil
}

func (s *capriciousSession) Call(ctx context.Context, _ exchange.Request, back exchange.Peer) (exchange.Response, error) {
	for ctx.Err() == nil {
		switch s.n(8) {
		case 0:
			return exchange.Response{}, exchange.Fail(exchange.ReasonLost, nil)
		case 1:
			return exchange.Response{Result: []byte(`{"content":[]}`)}, nil
		case 2:
			return exchange.Response{Error: &exchange.Error{Code: -32042, Data: []byte(`{"elicitations":[{"mode":"url","elicitationId":"e","url":"a:b","message":"m"}]}`)}}, nil
		default:
			asking, cancel := context.WithTimeout(ctx, time.Duration(s.n(1000))*time.Second)
			_, _ = back.Call(asking, exchange.Request{Method: methodElicit, Params: []byte(`{"message":"?","requestedSchema":{"type":"object","properties":{}}}`)})
			cancel()
		}
	}
	return exchange.Response{}, context.Cause(ctx)
}

// Whatever clients and servers do, nothing is left when they are done, and the counts are right at any time.
func TestNothingIsLeft(t *testing.T) {
	for seed := range uint64(8) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { crowd(t, seed) })
		})
	}
}

func crowd(t *testing.T, seed uint64) {
	up := &capricious{rand: rand.New(rand.NewPCG(seed, 7))}
	s, err := newSuspender(up, SuspendOptions{MaxPerPrincipal: 3, MaxTotal: 8, MaxRounds: 4}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	h := &handler{next: up, suspender: s, log: s.log}
	var wg sync.WaitGroup
	for client := range 12 {
		wg.Go(func() {
			for range 12 {
				wander(up, h, fmt.Sprint(client%4))
				s.mu.Lock()
				s.consistent(t)
				s.mu.Unlock()
			}
		})
	}
	wg.Wait()
	time.Sleep(time.Hour)
	synctest.Wait()
	s.mu.Lock()
	s.consistent(t)
	if len(s.calls) != 0 || s.waiting != 0 {
		t.Errorf("left: %d calls, %d of them waiting", len(s.calls), s.waiting)
	}
	s.mu.Unlock()
	s.close()
	synctest.Wait()
	if up.open != 0 {
		t.Errorf("left: %d sessions", up.open)
	}
}

// wander makes a call and comes back for it, or not, or in the wrong way.
func wander(up *capricious, h *handler, principal string) {
	params := []byte(`{"name":"t"}`)
	state := []byte(nil)
	for range 5 {
		req := params
		if state != nil {
			req = jsonrpc.Set(req, state, "requestState")
			req = jsonrpc.Set(req, []byte([]string{`{}`, `null`, `[]`, `{"1.1":{"action":"accept"},"2.1":{"action":"accept"},"3.1":{"action":"decline"}}`}[up.n(4)]), "inputResponses")
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Duration(1+up.n(600))*time.Second)
		c := exchange.Client{Revision: negotiate.Rev20260728, Principal: principal, Capabilities: []byte(`{"elicitation":{"form":{},"url":{}}}`)}
		below, _ := up.Open(ctx, c)
		sess, _ := newSuspend(h, c, below)
		resp, _ := sess.Call(ctx, exchange.Request{Method: "tools/call", Params: req}, nil)
		cancel()
		_ = sess.Close()
		if up.n(4) == 0 {
			time.Sleep(time.Duration(up.n(700)) * time.Second)
		}
		if state = jsonrpc.Get(resp.Result, "requestState"); state == nil || up.n(5) == 0 {
			return
		}
	}
}

// consistent compares the counts with the calls. The caller holds mu.
func (s *suspender) consistent(t *testing.T) {
	t.Helper()
	waiting, of := 0, make(map[principalHash]int)
	for _, c := range s.calls {
		if c.state == stateOver {
			t.Error("a call that is over is among the calls")
		}
		if c.waits() {
			waiting++
			of[c.principal]++
		}
	}
	if waiting != s.waiting || fmt.Sprint(of) != fmt.Sprint(s.waitingOf) {
		t.Errorf("counts: got %d and %v, want %d and %v", s.waiting, s.waitingOf, waiting, of)
	}
	if waiting > s.o.MaxTotal {
		t.Errorf("%d calls wait, more than %d", waiting, s.o.MaxTotal)
	}
	for p, n := range of {
		if n > s.o.MaxPerPrincipal {
			t.Errorf("%d calls of %x wait, more than %d", n, p[:2], s.o.MaxPerPrincipal)
		}
	}
}
