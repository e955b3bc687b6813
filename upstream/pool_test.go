package upstream_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/exchange/exchangetest"
	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
	"github.com/mcp-dualstack/bridge/negotiate"
	"github.com/mcp-dualstack/bridge/upstream"
)

// A pooling is an upstream of the handshake era whose modern clients use the pool.
type pooling struct {
	*testing.T
	up   *upstream.Upstream
	made atomic.Int32 // connections so far
	open atomic.Int32 // connections now
}

// inPool runs f in fake time. The server is exchangetest's.
func inPool(t *testing.T, o upstream.Options, f func(*pooling)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p := &pooling{T: t}
		dial, wait := dialer(func(rw io.ReadWriter) error {
			p.open.Add(1)
			defer p.open.Add(-1)
			return exchangetest.Serve(rw, negotiate.Legacy)
		})
		if o.Sharing == "" {
		}
		o.Era = "legacy" // so that each connection is a session
		p.up = upstream.Pipe(func(ctx context.Context) (io.ReadWriteCloser, error) {
			p.made.Add(1)
			return dial(ctx)
		}, &o)
		defer func() { _ = p.up.Close(); wait() }()
		f(p)
	})
}

// client opens a session of a modern client, or of a watching one if back is given.
func (p *pooling) client(principal, capabilities string, back exchange.Peer) exchange.Session {
	p.Helper()
	s, err := p.up.Open(p.Context(), exchange.Client{
		Revision: negotiate.Rev20260728, Principal: principal, Capabilities: []byte(capabilities), Back: back,
	})
	if err != nil {
		p.Fatalf("Open: %v", err)
	}
	p.Cleanup(func() { _ = s.Close() })
	return s
}

// tool starts a call of a tool of the server.
func tool(s exchange.Session, name, arguments string, peer *exchangetest.Peer) *pending {
	return call(s, "tools/call", fmt.Sprintf(`{"name":%q,"arguments":%s}`, name, arguments), peer)
}

// waiting starts a call that lasts, and returns when the server has it.
func (p *pooling) waiting(s exchange.Session, peer *exchangetest.Peer) *pending {
	p.Helper()
	call := call(s, "tools/call", `{"name":"wait","arguments":{"announce":true},"_meta":{"progressToken":1}}`, peer)
	if len(peer.Wait(p.Context(), 1)) == 0 {
		p.Fatal("the call did not start")
	}
	return call
}

func (p *pooling) count(what string, want int32) {
	p.Helper()
	synctest.Wait()
	equal(p.T, what+": connections", p.open.Load(), want)
}

// accepting answers what it is asked.
func accepting() *exchangetest.Peer {
	return &exchangetest.Peer{Answer: func(context.Context, exchange.Request) (exchange.Response, error) {
		return exchange.Response{Result: []byte(`{"action":"accept"}`)}, nil
	}}
}

func (p *pooling) must(call *pending) string {
	p.Helper()
	got, err := call.wait()
	if err != nil {
		p.Fatalf("call: %v", err)
	}
	return got
}

const (
	elicits  = `{"elicitation":{}}`
	elicitIt = `{"method":"elicitation/create","params":{}}`
)

// Opening a session costs nothing once the server is known, and shows what the handshake of the pool showed.
func TestPoolSnapshot(t *testing.T) {
	inPool(t, upstream.Options{}, func(p *pooling) {
		for range 3 {
			server := p.client("", `{}`, nil).Server()
			equal(t, "revision", server.Revision, negotiate.Rev20251125)
			equal(t, "served", server.Served, negotiate.All)
			equal(t, "instructions", string(server.Instructions), `"ask \u0041"`)
			equal(t, "version of the result", string(jsonrpc.Get(server.Initialize, "protocolVersion")), `"2025-11-25"`)
		}
		p.client("somebody", elicits, nil)
		p.count("opened only", 1)
	})
}

// Clients that can be asked nothing share a session, one per principal (translation.md 12).
func TestPoolSharesPerPrincipal(t *testing.T) {
	inPool(t, upstream.Options{}, func(p *pooling) {
		var calls []*pending
		for i := range 20 {
			s := p.client(fmt.Sprint("p", i%2), `{"experimental":{}}`, nil)
			calls = append(calls, p.waiting(s, &exchangetest.Peer{}))
		}
		p.count("two principals", 2)
		for _, c := range calls {
			c.cancel(context.Canceled)
			<-c.done
		}
		p.count("cancelled calls spoil no shared session", 2)
		want := `{"params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"mcp-dualstack-bridge","version":"0"}},"initialized":1,"early":false}`
		equal(t, "client", p.must(tool(p.client("p0", `{}`, nil), "client", `{}`, nil)), want)
	})
}

// The server is told exactly what the client declared, and only calls with the same declaration use a session.
func TestLeaseKey(t *testing.T) {
	inPool(t, upstream.Options{}, func(p *pooling) {
		for i, test := range []struct {
			principal, capabilities, declared string
			connections                       int32
		}{
			{"a", `{"elicitation":{}}`, `{"elicitation":{"form":{}}}`, 1},
			{"a", `{"elicitation":{"form":{"x":1}},"experimental":{"y":{}}}`, `{"elicitation":{"form":{}}}`, 1},
			{"a", `{"elicitation":{"url":{}}}`, `{"elicitation":{"url":{}}}`, 2},
			{"a", `{"sampling":{"tools":{}},"roots":{}}`, `{"roots":{"listChanged":true},"sampling":{"tools":{}}}`, 3},
			{"b", `{"elicitation":{}}`, `{"elicitation":{"form":{}}}`, 4},
			{"b", `{"extensions":{"com.example/x":{"n":1.0},"io.modelcontextprotocol/tasks":{}}}`, `{"extensions":{"com.example/x":{"n":1.0}}}`, 5},
			{"b", `{"extensions":{"com.example/x":{"n":2.0}}}`, `{"extensions":{"com.example/x":{"n":2.0}}}`, 6},
		} {
			client := p.must(tool(p.client(test.principal, test.capabilities, nil), "client", `{}`, nil))
			equal(t, fmt.Sprint(i, " declared"), string(jsonrpc.Get([]byte(client), "params", "capabilities")), test.declared)
			p.count(fmt.Sprint(i), test.connections)
		}
	})
}

// A lease lasts as long as its call. Questions go to that call's client although other calls are in flight.
func TestLeaseIsExclusive(t *testing.T) {
	inPool(t, upstream.Options{}, func(p *pooling) {
		s := p.client("", elicits, nil)
		questions := make(chan exchange.Response)
		first := tool(s, "ask", elicitIt, asker(questions))
		synctest.Wait()
		equal(t, "beside it", p.must(tool(s, "ask", elicitIt, accepting())), `{"answer":{"action":"accept"}}`)
		p.count("a session for each", 2)
		questions <- exchange.Response{Result: []byte(`{"action":"decline"}`)}
		equal(t, "the one that waited", p.must(first), `{"answer":{"action":"decline"}}`)
		for range 5 {
			p.must(tool(s, "echo", `{}`, nil))
		}
		p.count("used again", 2)
	})
}

// The bound of sessions per key: the next call waits for a lease, 5 s at most.
func TestLeaseWait(t *testing.T) {
	var reached []string
	inPool(t, upstream.Options{MaxLeases: 2, Bound: func(b string) { reached = append(reached, b) }}, func(p *pooling) {
		s := p.client("", elicits, nil)
		calls := []chan exchange.Response{make(chan exchange.Response), make(chan exchange.Response)}
		for _, answers := range calls {
			tool(s, "ask", elicitIt, asker(answers))
			synctest.Wait()
		}
		start := time.Now()
		_, err := tool(s, "echo", `{}`, nil).wait()
		equal(t, "no lease", reason(err), exchange.ReasonBusy)
		f, _ := errors.AsType[*exchange.Failure](err)
		equal(t, "when to come again", f.RetryAfter > 0, true)
		equal(t, "waited", since(start), 5*time.Second)
		equal(t, "reached", strings.Join(reached, ","), upstream.BoundLeases+","+upstream.BoundLeaseWait)

		next := tool(s, "echo", `{"n":1}`, nil)
		time.Sleep(4 * time.Second)
		calls[0] <- exchange.Response{Result: []byte(`{}`)}
		equal(t, "handed over", string(jsonrpc.Get([]byte(p.must(next)), "echo", "arguments")), `{"n":1}`)
		p.count("no third", 2)
		calls[1] <- exchange.Response{Result: []byte(`{}`)}
	})
}

// Sessions of the pool that nobody uses end after their idle life, those in use do not.
func TestIdleLife(t *testing.T) {
	inPool(t, upstream.Options{}, func(p *pooling) {
		lasting := p.waiting(p.client("", elicits, nil), &exchangetest.Peer{})
		p.must(tool(p.client("", elicits, nil), "echo", `{}`, nil))
		p.must(tool(p.client("", `{}`, nil), "echo", `{}`, nil))
		p.count("at work", 3)
		time.Sleep(4 * time.Minute)
		p.count("idle", 3)
		time.Sleep(2 * time.Minute)
		p.count("after their life", 1)
		lasting.cancel(context.Canceled)
		<-lasting.done
	})
}

// MaxSessions bounds what the pool and dedicated sessions have together. What is idle makes room, the longest idle
// first; what is in use does not.
func TestIdleSessionsMakeRoom(t *testing.T) {
	for _, test := range []struct {
		name string
		next func(p *pooling) error
	}{
		{"for the pool", func(p *pooling) error {
			_, err := tool(p.client("c", elicits, nil), "echo", `{}`, nil).wait()
			return err
		}},
		{"for a dedicated session", func(p *pooling) error {
			_, err := p.up.Open(p.Context(), legacyClient(negotiate.Rev20250618, nil))
			return err
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			inPool(t, upstream.Options{MaxSessions: 2}, func(p *pooling) {
				p.must(tool(p.client("a", elicits, nil), "echo", `{}`, nil))
				lasting := p.waiting(p.client("b", elicits, nil), &exchangetest.Peer{})
				start := time.Now()
				equal(t, "there is room", reason(test.next(p)), "")
				equal(t, "took", since(start), 0)
				equal(t, "connections made", p.made.Load(), 3)
				if test.name == "for the pool" {
					p.must(tool(p.client("d", elicits, nil), "echo", `{}`, nil))
				}
				_, err := p.up.Open(p.Context(), legacyClient(negotiate.Rev20250618, nil))
				if test.name != "for the pool" {
					equal(t, "no room", reason(err), exchange.ReasonBusy)
					_, err = tool(p.client("d", elicits, nil), "echo", `{}`, nil).wait()
					equal(t, "none for the pool either", reason(err), exchange.ReasonBusy)
				}
				lasting.cancel(context.Canceled)
				<-lasting.done
			})
		})
	}
}

// A session of the pool that dies takes the calls on it along, and the next call has another.
func TestPoolAfterACrash(t *testing.T) {
	for _, capabilities := range []string{`{}`, elicits} {
		inPool(t, upstream.Options{}, func(p *pooling) {
			s := p.client("a", capabilities, nil)
			beside := p.waiting(p.client("b", capabilities, nil), &exchangetest.Peer{})
			for range 3 {
				_, err := tool(s, "exit", `{}`, nil).wait()
				equal(t, "error", reason(err), exchange.ReasonLost)
				p.must(tool(s, "echo", `{}`, nil))
			}
			p.count("living", 2)
			beside.cancel(context.Canceled)
			<-beside.done
		})
	}
}

// Close of a client's session ends its calls, those that wait for a lease too, and no others.
func TestPooledClose(t *testing.T) {
	inPool(t, upstream.Options{MaxLeases: 1}, func(p *pooling) {
		s, other := p.client("", elicits, nil), p.client("", elicits, nil)
		others := p.waiting(other, &exchangetest.Peer{})
		mine := tool(s, "echo", `{}`, nil)
		synctest.Wait()
		_ = s.Close()
		_, err := mine.wait()
		equal(t, "waiting", reason(err), exchange.ReasonClosed)
		_, err = tool(s, "echo", `{}`, nil).wait()
		equal(t, "after Close", reason(err), exchange.ReasonClosed)
		_ = p.up.Close()
		_, err = others.wait()
		equal(t, "of the upstream", reason(err), exchange.ReasonClosed)
	})
}

// Under load every question and answer belongs to its call, and the bounds hold.
func TestPoolUnderLoad(t *testing.T) {
	inPool(t, upstream.Options{MaxLeases: 4, MaxSessions: 8, LeaseWait: time.Hour}, func(p *pooling) {
		var calls []*pending
		for i := range 400 {
			id := fmt.Sprint(i)
			s := p.client(fmt.Sprint("p", i%3), elicits, nil)
			peer := &exchangetest.Peer{Answer: func(_ context.Context, req exchange.Request) (exchange.Response, error) {
				if got := string(jsonrpc.Get(req.Params, "n")); got != id {
					p.Errorf("client %s was asked the question of %s", id, got)
				}
				time.Sleep(time.Duration(i%7) * time.Second)
				return exchange.Response{Result: []byte(id)}, nil
			}}
			c := tool(s, "ask", `{"method":"elicitation/create","params":{"n":`+id+`}}`, peer)
			if i%5 == 0 {
				time.AfterFunc(time.Duration(i%11)*time.Second, func() { c.cancel(context.Canceled) })
			}
			calls = append(calls, c)
		}
		for i, c := range calls {
			got, err := c.wait()
			if err == nil {
				equal(t, "answer", got, fmt.Sprintf(`{"answer":%d}`, i))
			} else if i%5 != 0 {
				t.Errorf("call %d: %v", i, err)
			}
			if n := p.open.Load(); n > 8 {
				t.Fatalf("%d connections at once", n)
			}
		}
	})
}
