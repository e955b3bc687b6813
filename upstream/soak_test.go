package upstream_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/exchange/exchangetest"
	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
	"github.com/mcp-dualstack/bridge/negotiate"
	"github.com/mcp-dualstack/bridge/upstream"
)

// Whatever clients do and servers suffer, every call ends in a way that is allowed, no answer is
// another's, the bounds hold, and in the end all room is free again.
func TestPoolSoak(t *testing.T) {
	for seed := range uint64(20) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			const room = 6
			inPool(t, upstream.Options{MaxLeases: 3, MaxSessions: room}, func(p *pooling) {
				random := rand.New(rand.NewPCG(seed, 0))
				var calls []*soaked
				for i := range 300 {
					time.Sleep(time.Duration(random.IntN(500)) * time.Millisecond)
					calls = append(calls, p.soak(i, random))
					if n := p.open.Load(); n > room {
						p.Fatalf("%d connections at once", n)
					}
				}
				for _, c := range calls {
					c.check(p.T)
				}
				time.Sleep(10 * time.Minute)
				p.count("after everybody has gone", 0)
				for range room {
					if _, err := p.up.Open(p.Context(), legacyClient(negotiate.Rev20250618, nil)); err != nil {
						p.Errorf("no room is left: %v", err)
					}
				}
			})
		})
	}
}

// A soaked is one call of the soak test.
type soaked struct {
	*pending
	tool string
	id   int
}

// soak starts a random call of a random client.
func (p *pooling) soak(i int, random *rand.Rand) *soaked {
	capabilities := []string{`{}`, elicits, `{"roots":{}}`, `{"sampling":{},"roots":{}}`}[random.IntN(4)]
	principal := []string{"", "a", "b"}[random.IntN(3)]
	c := &soaked{tool: []string{"echo", "ask", "ask", "wait", "exit"}[random.IntN(5)], id: i}
	arguments := fmt.Sprintf(`{"n":%d}`, i)
	if c.tool == "ask" {
		arguments = fmt.Sprintf(`{"method":"elicitation/create","params":{"n":%d}}`, i)
	}
	thinks := time.Duration(random.IntN(3000)) * time.Millisecond
	peer := &exchangetest.Peer{Answer: func(ctx context.Context, req exchange.Request) (exchange.Response, error) {
		if n := string(jsonrpc.Get(req.Params, "n")); n != fmt.Sprint(i) {
			p.Errorf("call %d was asked the question of %s", i, n)
		}
		select {
		case <-time.After(thinks):
			return exchange.Response{Result: fmt.Appendf(nil, `{"n":%d}`, i)}, nil
		case <-ctx.Done():
			return exchange.Response{}, context.Cause(ctx)
		}
	}}
	s, err := p.up.Open(p.Context(), exchange.Client{Revision: negotiate.Rev20260728, Principal: principal, Capabilities: []byte(capabilities)})
	if err != nil { // only the first of all needs a session for it
		c.pending = &pending{done: make(chan struct{}), err: err}
		close(c.done)
		return c
	}
	c.pending = tool(s, c.tool, arguments, peer)
	switch {
	case c.tool == "wait" || random.IntN(4) == 0:
		time.AfterFunc(time.Duration(random.IntN(4000))*time.Millisecond, func() { c.cancel(&exchange.CancelError{}) })
	case random.IntN(6) == 0:
		time.AfterFunc(time.Duration(random.IntN(4000))*time.Millisecond, func() { _ = s.Close() })
	}
	synctest.Wait()
	return c
}

func (c *soaked) check(t *testing.T) {
	t.Helper()
	got, err := c.wait()
	if err != nil {
		_, cancelled := errors.AsType[*exchange.CancelError](err)
		f, _ := errors.AsType[*exchange.Failure](err)
		switch {
		case cancelled:
		case f != nil && (f.Reason == exchange.ReasonBusy || f.Reason == exchange.ReasonLost || f.Reason == exchange.ReasonClosed):
		default:
			t.Errorf("call %d of %s: %v", c.id, c.tool, err)
		}
		return
	}
	path := map[string][]string{"echo": {"echo", "arguments", "n"}, "ask": {"answer", "n"}}[c.tool]
	if jsonrpc.Get([]byte(got), "error") != nil { // refused: several calls shared the session
		return
	}
	if n := string(jsonrpc.Get([]byte(got), path...)); n != fmt.Sprint(c.id) {
		t.Errorf("call %d of %s got %s", c.id, c.tool, got)
	}
}
