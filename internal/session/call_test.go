package session_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/internal/session"
	"github.com/mcp-dualstack/bridge/negotiate"
)

// A gate is a server that says what was handed to it and hands it on when told.
type gate struct {
	script
	seen  []string
	sent  map[string]chan struct{} // by method: closed when it counts as handed over
	reply map[string]chan struct{} // by method: closed when it is answered
}

func newGate(methods ...string) *gate {
	g := &gate{sent: map[string]chan struct{}{}, reply: map[string]chan struct{}{}}
	for _, m := range methods {
		g.sent[m], g.reply[m] = make(chan struct{}), make(chan struct{})
	}
	g.call = func(ctx context.Context, req exchange.Request, _ exchange.Peer) (exchange.Response, error) {
		g.note(req.Method)
		select {
		case <-g.sent[req.Method]:
			req.Sent()
		case <-ctx.Done():
			return exchange.Response{}, context.Cause(ctx)
		}
		select {
		case <-g.reply[req.Method]:
			return exchange.Response{Result: []byte(`{"method":"` + req.Method + `"}`)}, nil
		case <-ctx.Done():
			return exchange.Response{}, context.Cause(ctx)
		}
	}
	g.notify = func(n exchange.Request) error { g.note(n.Method); return nil }
	return g
}

func (g *gate) note(method string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.seen = append(g.seen, method)
}

func (g *gate) want(t *testing.T, want ...string) {
	t.Helper()
	synctest.Wait()
	g.mu.Lock()
	defer g.mu.Unlock()
	if !slices.Equal(g.seen, want) {
		t.Errorf("the server saw %q, want %q", g.seen, want)
	}
}

func request(t *testing.T, s *session.Session, id, method string, out session.Reply) {
	t.Helper()
	s.Handle(message(t, `{"jsonrpc":"2.0","id":`+id+`,"method":"`+method+`"}`), out)
}

func notify(t *testing.T, s *session.Session, method string) {
	t.Helper()
	s.Handle(message(t, `{"jsonrpc":"2.0","method":"`+method+`"}`), nil)
}

func cancelID(t *testing.T, s *session.Session, id string) {
	t.Helper()
	s.Handle(message(t, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":`+id+`,"reason":"enough"}}`), nil)
}

func TestOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate("a", "b", "d")
		s, _ := begun(t, g, nil)
		var out outlet
		request(t, s, "1", "a", &out)
		request(t, s, "2", "b", &out)
		notify(t, s, "c")
		request(t, s, "3", "d", &out)
		g.want(t, "a")
		close(g.sent["a"])
		g.want(t, "a", "b")
		close(g.sent["b"])
		g.want(t, "a", "b", "c", "d")
		close(g.reply["b"]) // between calls there is no order
		synctest.Wait()
		out.want(t, `{"jsonrpc":"2.0","id":2,"result":{"method":"b"}}`)
	})
}

// What comes after a call that was cancelled in the queue must not overtake what was before it.
func TestOrderPastACancelledCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate("a", "b")
		s, _ := begun(t, g, nil)
		var out outlet
		request(t, s, "1", "a", &out)
		request(t, s, "2", "b", &out)
		notify(t, s, "c")
		synctest.Wait()
		cancelID(t, s, "2")
		synctest.Wait()
		out.want(t, "-")
		g.want(t, "a")
		close(g.sent["a"])
		g.want(t, "a", "c")
	})
}

// Who is asked whether an outlet can be used has locks of its own, under which the session is asked elsewhere.
func TestSuspendableHoldsNoLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate("tools/call")
		s, _ := begun(t, g, nil)
		var out outlet
		request(t, s, "1", "tools/call", &out)
		g.want(t, "tools/call")
		asked := 0
		got := s.Suspendable(func(o session.Outlet) bool {
			asked++
			return s.Busy() == 1 && s.Revision() != negotiate.None
		})
		if asked != 1 || got != session.Outlet(&out) {
			t.Errorf("asked %d times, got %v", asked, got)
		}
		cancelID(t, s, "1")
		synctest.Wait()
	})
}

func TestCancelTakesTheNewestFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate("old", "new")
		close(g.sent["old"])
		close(g.sent["new"])
		var seen []exchange.Observation
		s, _ := begun(t, g, func(o *session.Options) { o.Observe = func(x exchange.Observation) { seen = append(seen, x) } })
		var old, newer, other outlet
		request(t, s, "1", "old", &old)
		request(t, s, "1", "new", &newer)
		request(t, s, `"1"`, "old", &other) // another id
		synctest.Wait()
		if len(seen) != 1 || seen[0].Kind != exchange.SeenDuplicateID {
			t.Errorf("observed %+v, want one duplicate", seen)
		}
		cancelID(t, s, "1")
		synctest.Wait()
		newer.want(t, "-")
		old.want(t)
		cancelID(t, s, "1")
		synctest.Wait()
		old.want(t, "-")
		cancelID(t, s, "1") // unknown by now
		other.want(t)
		if got := s.Busy(); got != 1 {
			t.Errorf("%d calls in flight, want 1", got)
		}
	})
}

func TestTwoCancelsAtOnceTakeBothTwins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate("a")
		s, _ := begun(t, g, nil)
		var one, two outlet
		request(t, s, "1", "a", &one)
		request(t, s, "1", "a", &two)
		cancelID(t, s, "1")
		cancelID(t, s, "1")
		synctest.Wait()
		one.want(t, "-")
		two.want(t, "-")
	})
}

func TestTheReasonOfACancellationIsTheCause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var cause error
		h := &script{call: func(ctx context.Context, req exchange.Request, back exchange.Peer) (exchange.Response, error) {
			req.Sent()
			<-ctx.Done()
			cause = context.Cause(ctx)
			_ = back.Notify(ctx, exchange.Request{Method: "notifications/progress"}) // too late
			return exchange.Response{Result: []byte(`{"late":true}`)}, nil
		}}
		s, _ := begun(t, h, nil)
		var out outlet
		request(t, s, "1", "tools/call", &out)
		synctest.Wait()
		cancelID(t, s, "1")
		synctest.Wait()
		out.want(t, "-") // neither the note nor the result
		if got, ok := cause.(*exchange.CancelError); !ok || got.Reason != "enough" {
			t.Errorf("cause is %v, want the client's reason", cause)
		}
	})
}

func TestInitializeIsNeverCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &script{open: func(context.Context, exchange.Client) error { time.Sleep(time.Second); return nil }}
		s, _ := start(t, h, nil)
		var out outlet
		s.Handle(message(t, initialize), &out)
		cancelID(t, s, "0")
		time.Sleep(2 * time.Second)
		if got := out.take(); len(got) != 1 || got[0] == "-" {
			t.Errorf("got %s, want the response", got)
		}
	})
}

func TestMaxCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate("a")
		close(g.sent["a"])
		s, _ := begun(t, g, func(o *session.Options) { o.MaxCalls = 3 })
		var out outlet
		for i := range 4 {
			request(t, s, strconv.Itoa(i), "a", &out)
		}
		synctest.Wait()
		got := out.take()
		if len(got) != 1 || reasonOf(t, got[0]) != exchange.ReasonTooManyCalls {
			t.Errorf("got %s, want %s", got, exchange.ReasonTooManyCalls)
		}
		close(g.reply["a"])
		synctest.Wait()
		out.take()
		request(t, s, "9", "a", &out)
		synctest.Wait()
		out.want(t, `{"jsonrpc":"2.0","id":9,"result":{"method":"a"}}`)
	})
}

// A server that takes nothing does not let a client pile up what waits for it.
func TestWhatWaitsIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate("stuck", "b")
		dropped := 0
		s, _ := begun(t, g, func(o *session.Options) {
			o.MaxCalls = 4
			o.Observe = func(x exchange.Observation) {
				if x.Kind == exchange.SeenRefused {
					dropped++
				}
			}
		})
		var out outlet
		request(t, s, "1", "stuck", &out)
		for i := range 100 { // cancelled calls keep their places
			id := fmt.Sprintf(`"b%d"`, i)
			request(t, s, id, "b", &out)
			cancelID(t, s, id)
			notify(t, s, "n")
			synctest.Wait() // they are out of flight
		}
		synctest.Wait()
		refused := 0
		for _, got := range out.take() {
			if reasonOf(t, got) == exchange.ReasonTooManyCalls {
				refused++
			}
		}
		if refused < 90 {
			t.Errorf("%d of 100 requests refused, want nearly all", refused)
		}
		if dropped < 90 {
			t.Errorf("%d of 100 notifications refused, want nearly all", dropped)
		}
		close(g.sent["stuck"])
		synctest.Wait()
		g.mu.Lock()
		got := len(g.seen)
		g.mu.Unlock()
		if got > 6 {
			t.Errorf("%d messages were waiting, want at most 6", got)
		}
		notify(t, s, "again")
		synctest.Wait()
		if last := g.seen[len(g.seen)-1]; last != "again" {
			t.Errorf("last seen is %s, want again", last)
		}
	})
}

func TestReservedMetaGoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got string
		h := &script{call: func(_ context.Context, req exchange.Request, _ exchange.Peer) (exchange.Response, error) {
			got = string(req.Params)
			return exchange.Response{}, nil
		}}
		s, _ := begun(t, h, nil)
		var out outlet
		s.Handle(message(t, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"_meta":{"io.modelcontextprotocol/logLevel":"debug","progressToken":7,"a/b":1},"n":1.0}}`), &out)
		synctest.Wait()
		if want := `{"_meta":{"progressToken":7,"a/b":1},"n":1.0}`; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		out.want(t, `{"jsonrpc":"2.0","id":1,"result":{}}`)
	})
}

// An id is the value that the text says (JSON-RPC 2.0, 4): encoders escape strings in different ways, even within one client.
func TestCancelComparesIDsByValue(t *testing.T) {
	for _, c := range []struct {
		name, id, cancel string
		want             bool
	}{
		{"the same text", `"ab"`, `"ab"`, true},
		{"escaped in the request", `"\u0061b"`, `"ab"`, true},
		{"escaped in the cancellation", `"a/b"`, `"a\/b"`, true},
		{"escaped in two ways", `"\u00e9\n"`, `"é\u000a"`, true},
		{"a pair of surrogates", `"\ud83d\ude00"`, `"😀"`, true},
		{"a number is no string", `"1"`, `1`, false},
		{"an escaped digit is no number", `1`, `"\u0031"`, false},
		{"other strings", `"a\"b"`, `"a\\b"`, false},
		{"lone surrogates are not one another", `"\ud800"`, `"\ud801"`, false},
		{"nor what they are written like", `"\ud800"`, `"\\ud800"`, false},
		{"but themselves", `"\ud800"`, `"\ud800"`, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newGate("a")
				s, _ := begun(t, g, nil)
				var out outlet
				request(t, s, c.id, "a", &out)
				synctest.Wait()
				cancelID(t, s, c.cancel)
				synctest.Wait()
				if got := len(out.take()) == 1; got != c.want {
					t.Errorf("cancelled: got %v, want %v", got, c.want)
				}
			})
		})
	}
}
