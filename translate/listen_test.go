package translate_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/exchange/exchangetest"
	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
	"github.com/mcp-dualstack/bridge/translate"
)

// A publisher is a legacy server that can be watched: each session with a Back is one, and ends by itself when end is called.
type publisher struct {
	*script
	mu      sync.Mutex
	watches []*publisherSession
	log     []string                 // subscribe and unsubscribe, with the number of the session
	refuses string                   // URI
	hangs   map[string]chan struct{} // by method: answered when it is closed
	eager   bool                     // a subscription is answered by an update first
	opens   func(n int) error
}

type publisherSession struct {
	exchange.Session
	p    *publisher
	n    int
	back exchange.Peer
	done chan struct{}
}

func newPublisher(t *testing.T) *publisher {
	return &publisher{script: newLegacy(t, elsewhereOnly)}
}

func (p *publisher) Open(ctx context.Context, c exchange.Client) (exchange.Session, error) {
	s, err := p.script.Open(ctx, c)
	if err != nil || c.Back == nil {
		return s, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	n := len(p.watches) + 1
	if p.opens != nil {
		if err := p.opens(n); err != nil {
			return nil, err
		}
	}
	w := &publisherSession{Session: s, p: p, n: n, back: c.Back, done: make(chan struct{})}
	p.watches = append(p.watches, w)
	return w, nil
}

func (s *publisherSession) Done() <-chan struct{} { return s.done }

func (s *publisherSession) Call(ctx context.Context, req exchange.Request, back exchange.Peer) (exchange.Response, error) {
	uri, _ := jsonrpc.String(jsonrpc.Get(req.Params, "uri"))
	s.p.mu.Lock()
	s.p.log = append(s.p.log, fmt.Sprintf("%d %s %s", s.n, strings.TrimPrefix(req.Method, "resources/"), uri))
	refused, hangs, eager := uri == s.p.refuses, s.p.hangs[req.Method], s.p.eager
	s.p.mu.Unlock()
	if hangs != nil {
		<-hangs
	}
	if eager && req.Method == "resources/subscribe" {
		s.p.say("notifications/resources/updated", string(req.Params))
	}
	if refused {
		return exchange.Response{Error: jsonrpc.Errorf(-32602, "no")}, nil
	}
	return s.Session.Call(ctx, req, back)
}

// newest returns the last session that watches.
func (p *publisher) newest() *publisherSession {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.watches[len(p.watches)-1]
}

func (p *publisher) say(method, params string) {
	_ = p.newest().back.Notify(context.Background(), exchange.Request{Method: method, Params: []byte(params)})
}

func (p *publisher) logged() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.log, ", ")
}

// A listening client.
type subscriber struct {
	back   exchangetest.Peer
	cancel context.CancelCauseFunc
	ended  chan string
}

// listen starts a listen with that filter and waits for the acknowledgement.
func listen(t *testing.T, h exchange.Handler, principal, filter string) *subscriber {
	t.Helper()
	d := newDesk(t, h)
	d.principal = principal
	s := &subscriber{ended: make(chan string, 1)}
	d.back = &s.back
	ctx, cancel := context.WithCancelCause(t.Context())
	s.cancel = cancel
	d.schemas = nil // the front completes the result with the subscription id
	go func() { s.ended <- shown(d.ask(ctx, "subscriptions/listen", `{"notifications":`+filter+`}`)) }()
	synctest.Wait()
	return s
}

func (s *subscriber) leave() { s.cancel(&exchange.CancelError{Reason: "closed"}) }

// heard returns what came after the acknowledgement.
func (s *subscriber) heard() string {
	synctest.Wait()
	return strings.Join(told(&s.back)[1:], "\n")
}

const ack = "notifications/subscriptions/acknowledged "

func TestHonouredFilter(t *testing.T) {
	for _, tc := range []struct{ name, caps, filter, want string }{
		{"all", legacyCapabilities, `{"toolsListChanged":true,"resourcesListChanged":true,"resourceSubscriptions":["a:1","a:1","a:2"]}`,
			`{"notifications":{"toolsListChanged":true,"resourcesListChanged":true,"resourceSubscriptions":["a:1","a:2"]}}`},
		{"type without the capability", legacyCapabilities, `{"promptsListChanged":true}`, `{"notifications":{}}`},
		{"type that is not wanted", legacyCapabilities, `{"toolsListChanged":false}`, `{"notifications":{}}`},
		{"no subscriptions", `{"tools":{"listChanged":true},"resources":{}}`, `{"toolsListChanged":true,"resourceSubscriptions":["a:1"]}`, `{"notifications":{"toolsListChanged":true}}`},
		{"URI that is refused", legacyCapabilities, `{"resourceSubscriptions":["bad:","a:1"]}`, `{"notifications":{"resourceSubscriptions":["a:1"]}}`},
		{"too many", legacyCapabilities, `{"resourceSubscriptions":["a:1","a:2","a:3","a:4"]}`, `{"notifications":{"resourceSubscriptions":["a:1","a:2","a:3"]}}`},
		{"empty", legacyCapabilities, `{}`, `{"notifications":{}}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newPublisher(t)
				p.refuses = "bad:"
				p.server.Capabilities = []byte(tc.caps)
				h := legacyHandler(t, p, &translate.Options{Suspend: translate.SuspendOptions{MaxListenURIs: 3}})
				s := listen(t, h, "", tc.filter)
				equal(t, "told", strings.Join(told(&s.back), " "), ack+tc.want)
				time.Sleep(time.Hour)
				equal(t, "ended", len(s.ended), 0)
				s.leave()
				equal(t, "end", <-s.ended, "failed: cancelled by the caller: closed")
			})
		})
	}
}

func TestListenWithoutAFilter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, legacyHandler(t, newPublisher(t), nil))
		equal(t, "answer", d.show("subscriptions/listen", `{"notifications":[]}`), "error -32602 malformed_request")
	})
}

func TestChangesReachThoseTheyConcern(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPublisher(t)
		h := legacyHandler(t, p, nil)
		lists := listen(t, h, "", `{"toolsListChanged":true}`)
		uris := listen(t, h, "", `{"resourceSubscriptions":["file:///a","db://x/"]}`)
		equal(t, "watch sessions", len(p.watches), 1)
		p.say("notifications/tools/list_changed", `{"_meta":{"io.modelcontextprotocol/x":1,"y":2}}`)
		p.say("notifications/resources/list_changed", ``)
		for _, uri := range []string{"file:///a", "file:///a/b", "file:///ab", "db://x/1", "db://x"} {
			p.say("notifications/resources/updated", `{"uri":"`+uri+`","title":"t"}`)
		}
		p.say("notifications/message", `{"level":"error","data":1}`)
		time.Sleep(time.Second)
		equal(t, "lists", lists.heard(), `notifications/tools/list_changed {"_meta":{"y":2}}`)
		const updated = "notifications/resources/updated "
		equal(t, "uris", uris.heard(), updated+`{"uri":"file:///a","title":"t"}`+"\n"+updated+`{"uri":"file:///a/b","title":"t"}`+"\n"+updated+`{"uri":"db://x/1","title":"t"}`)
		lists.leave()
		uris.leave()
	})
}

func TestCopiesAreMerged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPublisher(t)
		s := listen(t, legacyHandler(t, p, nil), "", `{"toolsListChanged":true,"resourceSubscriptions":["a:1"]}`)
		for range 5 {
			p.say("notifications/tools/list_changed", ``)
			p.say("notifications/resources/updated", `{"uri":"a:1"}`)
			time.Sleep(9 * time.Millisecond)
		}
		time.Sleep(time.Second)
		once := "notifications/tools/list_changed \nnotifications/resources/updated {\"uri\":\"a:1\"}"
		equal(t, "told", s.heard(), once)
		p.say("notifications/tools/list_changed", ``)
		time.Sleep(51 * time.Millisecond)
		equal(t, "a later one", s.heard(), once+"\nnotifications/tools/list_changed ")
		s.leave()
	})
}

// What a leased session hears during a call counts too.
func TestChangeHeardDuringACall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPublisher(t)
		h := legacyHandler(t, p, nil)
		ann, bob := listen(t, h, "ann", `{"toolsListChanged":true}`), listen(t, h, "bob", `{"toolsListChanged":true}`)
		p.answer = func(ctx context.Context, _ exchange.Request, back exchange.Peer) (exchange.Response, error) {
			_ = back.Notify(ctx, exchange.Request{Method: "notifications/tools/list_changed"})
			return text("ok")
		}
		d := newDesk(t, h)
		d.principal = "ann"
		d.show("tools/call", deploy)
		time.Sleep(time.Second)
		equal(t, "on the call's stream", len(d.back.Notes()), 0)
		equal(t, "same principal", ann.heard(), "notifications/tools/list_changed ")
		equal(t, "another", bob.heard(), "")
		ann.leave()
		bob.leave()
	})
}

func TestSubscriptionsAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPublisher(t)
		h := legacyHandler(t, p, nil)
		a := listen(t, h, "", `{"resourceSubscriptions":["a:1","a:2"]}`)
		b := listen(t, h, "", `{"resourceSubscriptions":["a:2"]}`)
		equal(t, "subscribed", p.logged(), "1 subscribe a:1, 1 subscribe a:2")
		a.leave()
		synctest.Wait()
		equal(t, "one left", p.logged(), "1 subscribe a:1, 1 subscribe a:2, 1 unsubscribe a:1")
		b.leave()
		synctest.Wait()
		equal(t, "none left", p.logged(), "1 subscribe a:1, 1 subscribe a:2, 1 unsubscribe a:1, 1 unsubscribe a:2")
		equal(t, "closed", p.closes() > 0, true)
		listen(t, h, "", `{}`).leave()
		equal(t, "watch sessions", len(p.watches), 2)
	})
}

func TestUpstreamRestarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPublisher(t)
		p.opens = func(n int) error {
			if n == 2 && !slices.Contains(p.log, "failed") {
				p.log = append(p.log, "failed")
				return exchange.Fail(exchange.ReasonUnavailable, nil)
			}
			return nil
		}
		s := listen(t, legacyHandler(t, p, nil), "", `{"toolsListChanged":true,"resourceSubscriptions":["a:1"]}`)
		close(p.newest().done)
		time.Sleep(2 * time.Second)
		equal(t, "log", p.logged(), "1 subscribe a:1, failed, 2 subscribe a:1")
		equal(t, "told", s.heard(), "notifications/tools/list_changed \nnotifications/resources/updated {\"uri\":\"a:1\"}")
		p.say("notifications/tools/list_changed", ``)
		time.Sleep(time.Second)
		equal(t, "on the new session", strings.Count(s.heard(), "list_changed"), 2)
		s.leave()
	})
}

func TestListenEndsWithTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPublisher(t)
		p.opens = func(n int) error {
			if n > 1 {
				return exchange.Fail(exchange.ReasonClosed, nil)
			}
			return nil
		}
		s := listen(t, legacyHandler(t, p, nil), "", `{}`)
		close(p.newest().done)
		equal(t, "end", <-s.ended, `{"resultType":"complete"}`)
	})
}

func TestListenEndsWithTheHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPublisher(t)
		h := legacyHandler(t, p, nil)
		s := listen(t, h, "", `{"resourceSubscriptions":["a:1"]}`)
		closeHandler(t, h)
		equal(t, "end", <-s.ended, `{"resultType":"complete"}`)
		d := newDesk(t, h)
		equal(t, "later", d.show("subscriptions/listen", `{"notifications":{}}`), "failed: session_closed")
	})
}

func TestListensAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := translate.SuspendOptions{MaxListens: 2, MaxListenURIs: 1}
		reached := bounds(&o)
		h := legacyHandler(t, newPublisher(t), &translate.Options{Suspend: o})
		a, b := listen(t, h, "", `{}`), listen(t, h, "x", `{}`)
		d := newDesk(t, h)
		equal(t, "third", d.show("subscriptions/listen", `{"notifications":{}}`), "failed: too_many_listens")
		equal(t, "bounds reached", reached(), "map[listens:1]")
		a.leave()
		<-a.ended
		c := listen(t, h, "y", `{"resourceSubscriptions":["a:1","a:2"]}`)
		equal(t, "after one has left", len(c.back.Notes()), 1)
		equal(t, "bounds reached", reached(), "map[listen_uris:1 listens:1]")
		b.leave()
		c.leave()
	})
}

func TestServerThatCannotBeWatched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPublisher(t)
		down := true
		p.opens = func(int) error {
			if down {
				return exchange.Fail(exchange.ReasonUnavailable, errors.New("no such program"))
			}
			return nil
		}
		h := legacyHandler(t, p, nil)
		equal(t, "answer", newDesk(t, h).show("subscriptions/listen", `{"notifications":{}}`), "failed: upstream_unavailable: no such program")
		down = false
		s := listen(t, h, "", `{}`)
		equal(t, "when it is back", len(s.back.Notes()), 1)
		s.leave()
	})
}

// Roots that are asked for without a request are the operator's, if there are any (translation.md 7.3.10).
func TestUnsolicitedRoots(t *testing.T) {
	for _, c := range []struct{ name, roots, method, want string }{
		{"set", `[{"uri":"file:///srv"}]`, "roots/list", `{"roots":[{"uri":"file:///srv"}]}`},
		{"set to none", `[]`, "roots/list", `{"roots":[]}`},
		{"not set", ``, "roots/list", `error -32602 no_call_to_ask_for`},
		{"another question", `[]`, "sampling/createMessage", `error -32602 no_call_to_ask_for`},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newPublisher(t)
				o := &translate.Options{}
				if c.roots != "" {
					o.Roots = []byte(c.roots)
				}
				h := legacyHandler(t, p, o)
				s := listen(t, h, "", `{"toolsListChanged":true}`)
				equal(t, "answer", shown(p.newest().back.Call(t.Context(), exchange.Request{Method: c.method})), c.want)
				s.leave()
				synctest.Wait()
			})
		})
	}
}

// TestSubscribeBehindUnsubscribe: who asks for a URI while the server is being told that nobody wants it any more is subscribed
// after that.
func TestSubscribeBehindUnsubscribe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		told := make(chan struct{})
		p := newPublisher(t)
		p.hangs = map[string]chan struct{}{"resources/unsubscribe": told}
		h := legacyHandler(t, p, nil)
		keeps := listen(t, h, "alice", `{"resourceSubscriptions":["db://b"]}`) // the watch stays
		first := listen(t, h, "alice", `{"resourceSubscriptions":["db://a"]}`)
		first.leave()
		synctest.Wait()
		next := listen(t, h, "alice", `{"resourceSubscriptions":["db://a"]}`)
		equal(t, "while it hangs", p.logged(), "1 subscribe db://b, 1 subscribe db://a, 1 unsubscribe db://a")
		equal(t, "acknowledged", len(next.back.Notes()), 0)
		gone := listen(t, h, "alice", `{"resourceSubscriptions":["db://a"]}`) // who does not wait for its turn takes nothing away
		gone.leave()
		close(told)
		synctest.Wait()
		equal(t, "after it", p.logged(), "1 subscribe db://b, 1 subscribe db://a, 1 unsubscribe db://a, 1 subscribe db://a")
		p.say("notifications/resources/updated", `{"uri":"db://a"}`)
		time.Sleep(time.Second)
		equal(t, "heard", next.heard(), `notifications/resources/updated {"uri":"db://a"}`)
		next.leave()
		keeps.leave()
		synctest.Wait()
		equal(t, "in the end", strings.Count(p.logged(), "unsubscribe"), 3)
	})
}

// TestEagerServer: a server may report a resource as soon as it is subscribed to.
func TestEagerServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPublisher(t)
		p.eager, p.refuses = true, "db://no"
		s := listen(t, legacyHandler(t, p, nil), "alice", `{"resourceSubscriptions":["db://a","db://no"]}`)
		time.Sleep(time.Second)
		equal(t, "heard", s.heard(), `notifications/resources/updated {"uri":"db://a"}`)
		s.leave()
	})
}
