package translate_test

import (
	"context"
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

// A tower is the listens of a modern server: who listens for what, and how it answers.
type tower struct {
	honour func(filter []byte) (honoured string, ok bool) // ok false: no acknowledgement, the call ends with refuse
	refuse exchange.Response

	mu    sync.Mutex
	open  []*ear // in the order they began
	begun []string
}

type ear struct {
	filter string
	back   exchange.Peer
	end    chan exchange.Response
	over   bool
}

// serve answers a listen; other methods go elsewhere.
func (w *tower) serve(ctx context.Context, req exchange.Request, back exchange.Peer) (exchange.Response, error) {
	if req.Method != "subscriptions/listen" {
		return elsewhere(ctx, req)
	}
	filter := jsonrpc.Get(req.Params, "notifications")
	e := &ear{filter: string(filter), back: back, end: make(chan exchange.Response, 1)}
	w.mu.Lock()
	w.open = append(w.open, e)
	w.begun = append(w.begun, fmt.Sprintf("%v %s", time.Since(epoch), filter))
	w.mu.Unlock()
	honoured, ok := string(filter), true
	if w.honour != nil {
		honoured, ok = w.honour(filter)
	}
	if !ok {
		return w.refuse, nil
	}
	_ = back.Notify(ctx, exchange.Request{Method: "notifications/subscriptions/acknowledged",
		Params: []byte(`{"_meta":{"io.modelcontextprotocol/subscriptionId":7},"notifications":` + honoured + `}`)})
	defer func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		e.over = true
	}()
	select {
	case resp := <-e.end:
		return resp, nil
	case <-ctx.Done():
		return exchange.Response{}, context.Cause(ctx)
	}
}

// overHTTP is a server whose listens each have a stream of their own.
func overHTTP(s *script) exchange.Handler {
	return translate.Handler(s, &translate.Options{UpstreamHTTP: true})
}

// epoch is when time begins in a synctest bubble.
var epoch = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// listening returns the filters of the listens that are open.
func (w *tower) listening() (out []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range w.open {
		if !e.over {
			out = append(out, e.filter)
		}
	}
	return out
}

// tell says something on the listens it concerns, when nothing else is going on.
func (w *tower) tell(ctx context.Context, method, params string) {
	synctest.Wait()
	w.mu.Lock()
	open := slices.DeleteFunc(slices.Clone(w.open), func(e *ear) bool { return e.over })
	w.mu.Unlock()
	for _, e := range open {
		if (method == "notifications/resources/updated") == strings.Contains(e.filter, "resourceSubscriptions") {
			_ = e.back.Notify(ctx, exchange.Request{Method: method, Params: []byte(params)})
		}
	}
}

// end ends every listen as a server does that shuts down.
func (w *tower) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range w.open {
		if !e.over {
			e.end <- exchange.Response{Result: []byte(`{"resultType":"complete","_meta":{"io.modelcontextprotocol/subscriptionId":7}}`)}
		}
	}
}

const (
	lists = `{"toolsListChanged":true,"resourcesListChanged":true}`
	subID = `"_meta":{"io.modelcontextprotocol/subscriptionId":7}`
)

// TestListChangesGoToEverySession: one listen for all, without the subscription id, and only what the server promised
// (translation.md 8.2).
func TestListChangesGoToEverySession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &tower{}
		s := newScript(t, w.serve)
		h := overHTTP(s)
		a, b := newUser(t, h, l0, "{}", agreeable), newUser(t, h, l3, "{}", agreeable)
		synctest.Wait()
		equal(t, "listens", strings.Join(w.listening(), " "), lists)
		w.tell(t.Context(), "notifications/tools/list_changed", `{`+subID+`,"x":1.0}`)
		w.tell(t.Context(), "notifications/message", `{"level":"info","data":1}`)
		for _, u := range []*user{a, b} {
			equal(t, "told", strings.Join(told(&u.standing), " "), `notifications/tools/list_changed {"x":1.0}`)
		}
		_ = a.session.Close()
		equal(t, "listens with one session left", len(w.listening()), 1)
		_ = b.session.Close()
		equal(t, "listens after the last", len(w.listening()), 0)

		again := newUser(t, h, l1, "{}", agreeable)
		synctest.Wait()
		equal(t, "listens of the next session", len(w.listening()), 1)
		_ = again.session.Close()
	})
}

func updated(uri string) string { return `{"uri":"` + uri + `",` + subID + `}` }

// TestSubscriptions: one listen for the union, replaced when it changes, and each session hears of its own.
func TestSubscriptions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &tower{}
		s := newScript(t, w.serve)
		h := overHTTP(s)
		a, b := newUser(t, h, l0, "{}", agreeable), newUser(t, h, l3, "{}", agreeable)
		start := time.Now()
		equal(t, "answer", a.must("resources/subscribe", `{"uri":"db://a"}`), `{}`)
		equal(t, "time", time.Since(start), 50*time.Millisecond)
		equal(t, "the same again", b.must("resources/subscribe", `{"uri":"db://a"}`), `{}`)
		equal(t, "time", time.Since(start), 50*time.Millisecond)
		b.must("resources/subscribe", `{"uri":"db://b"}`)
		synctest.Wait()
		equal(t, "listens", strings.Join(w.listening(), " "), lists+` {"resourceSubscriptions":["db://a","db://b"]}`)

		w.tell(t.Context(), "notifications/resources/updated", updated("db://a"))
		w.tell(t.Context(), "notifications/resources/updated", updated("db://b/row/1"))
		w.tell(t.Context(), "notifications/resources/updated", updated("db://bc"))
		equal(t, "a hears", strings.Join(told(&a.standing), " "), `notifications/resources/updated {"uri":"db://a"}`)
		equal(t, "b hears", strings.Join(told(&b.standing), " "),
			`notifications/resources/updated {"uri":"db://a"} notifications/resources/updated {"uri":"db://b/row/1"}`)

		equal(t, "unsubscribe", b.must("resources/unsubscribe", `{"uri":"db://b"}`), `{}`)
		equal(t, "what was never subscribed", b.must("resources/unsubscribe", `{"uri":"db://z"}`), `{}`)
		time.Sleep(time.Second)
		equal(t, "listens", strings.Join(w.listening(), " "), lists+` {"resourceSubscriptions":["db://a"]}`)
		_ = a.session.Close()
		_ = b.session.Close()
		equal(t, "listens at the end", len(w.listening()), 0)
		equal(t, "sessions below", s.closed, len(s.opened))
	})
}

// TestSubscriptionWantedAgain: a resource that the last session let go of and another wants within the debounce is
// answered for, although the union did not change.
func TestSubscriptionWantedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &tower{}
		h := modern(newScript(t, w.serve))
		a, b := newUser(t, h, l0, "{}", agreeable), newUser(t, h, l3, "{}", agreeable)
		a.must("resources/subscribe", `{"uri":"db://a"}`)
		a.must("resources/unsubscribe", `{"uri":"db://a"}`)
		equal(t, "answer", b.must("resources/subscribe", `{"uri":"db://a"}`), `{}`)
		w.tell(t.Context(), "notifications/resources/updated", updated("db://a"))
		equal(t, "b hears", len(told(&b.standing)), 1)
		equal(t, "a hears", len(told(&a.standing)), 0)
		_ = a.session.Close()
		_ = b.session.Close()
	})
}

// TestSubscriptionsAtOnceShareAListen: changes within the debounce make one listen, and there is no moment without one.
func TestSubscriptionsAtOnceShareAListen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &tower{}
		s := newScript(t, w.serve)
		u := newUser(t, overHTTP(s), l3, "{}", agreeable)
		var wg sync.WaitGroup
		for i := range 5 {
			wg.Go(func() { u.must("resources/subscribe", fmt.Sprintf(`{"uri":"db://%d"}`, i)) })
		}
		wg.Wait()
		want := []string{`0s ` + lists, `50ms {"resourceSubscriptions":["db://0","db://1","db://2","db://3","db://4"]}`}
		if !slices.Equal(w.begun, want) {
			t.Errorf("got %q, want %q", w.begun, want)
		}
		_ = u.session.Close()
	})
}

// TestSubscriptionRefused: what the server does not acknowledge is -32601, and the others stay.
func TestSubscriptionRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &tower{honour: func(filter []byte) (string, bool) {
			return strings.Replace(strings.Replace(string(filter), `,"db://no"`, ``, 1), `"db://no"`, ``, 1), true
		}}
		s := newScript(t, w.serve)
		u := newUser(t, overHTTP(s), l3, "{}", agreeable)
		u.must("resources/subscribe", `{"uri":"db://a"}`)
		resp, err := u.ask("resources/subscribe", `{"uri":"db://no"}`)
		equal(t, "outcome", outcome(resp, err), `-32601 {"bridge":{"reason":"unknown_method"}}`)
		w.tell(t.Context(), "notifications/resources/updated", updated("db://no"))
		w.tell(t.Context(), "notifications/resources/updated", updated("db://a"))
		equal(t, "told", strings.Join(told(&u.standing), " "), `notifications/resources/updated {"uri":"db://a"}`)
		begun := len(w.begun)
		time.Sleep(time.Hour)
		equal(t, "listens since", len(w.begun)-begun, 0)

		resp, err = u.ask("resources/subscribe", `{"uri":7}`)
		equal(t, "no URI", outcome(resp, err), `-32602 {"bridge":{"reason":"malformed_request"}}`)
		_ = u.session.Close()

		synctest.Wait()
		s.server.Capabilities = []byte(`{"resources":{}}`)
		u = newUser(t, overHTTP(s), l3, "{}", agreeable)
		resp, err = u.ask("resources/subscribe", `{"uri":"db://a"}`)
		equal(t, "not declared", outcome(resp, err), `-32601 {"bridge":{"reason":"unknown_method"}}`)
		_ = u.session.Close()
	})
}

// TestServerWithoutListen: it is not asked again and again, and a subscription is refused.
func TestServerWithoutListen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &tower{honour: func([]byte) (string, bool) { return "", false },
			refuse: exchange.Response{Error: jsonrpc.Errorf(jsonrpc.CodeMethodNotFound, "no such method")}}
		s := newScript(t, w.serve)
		u := newUser(t, overHTTP(s), l3, "{}", agreeable)
		resp, err := u.ask("resources/subscribe", `{"uri":"db://a"}`)
		equal(t, "outcome", outcome(resp, err), `-32601 {"bridge":{"reason":"unknown_method"}}`)
		time.Sleep(time.Hour)
		equal(t, "listens", len(w.begun), 2)
		_ = u.session.Close()
	})
}

// TestSilentListen: without an acknowledgement there is no subscription.
func TestSilentListen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScript(t, elsewhereOnly) // holds the listen and says nothing
		u := newUser(t, overHTTP(s), l3, "{}", agreeable)
		start := time.Now()
		resp, err := u.ask("resources/subscribe", `{"uri":"db://a"}`)
		equal(t, "outcome", outcome(resp, err), exchange.ReasonTimeout)
		equal(t, "time", time.Since(start), 10*time.Second+50*time.Millisecond)
		_ = u.session.Close()
	})
}

// TestListenThatEnds is opened again after a pause that grows, and the gap is made good: what changed in it is unknown.
func TestListenThatEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &tower{}
		s := newScript(t, w.serve)
		u := newUser(t, overHTTP(s), l3, "{}", agreeable)
		u.must("resources/subscribe", `{"uri":"db://a"}`)
		w.end()
		time.Sleep(5 * time.Second)
		equal(t, "told", strings.Join(slices.Sorted(slices.Values(told(&u.standing))), " "),
			`notifications/resources/list_changed  notifications/resources/updated {"uri":"db://a"} notifications/tools/list_changed `)
		w.end()
		time.Sleep(1500 * time.Millisecond)
		equal(t, "listens after a second end", len(w.listening()), 0)
		time.Sleep(time.Second)
		equal(t, "listens after the longer pause", len(w.listening()), 2)
		time.Sleep(2 * time.Minute)
		w.end()
		time.Sleep(1100 * time.Millisecond)
		equal(t, "listens after a long life", len(w.listening()), 2)
		_ = u.session.Close()
	})
}

func TestSubscriptionThatIsCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &tower{}
		s := newScript(t, w.serve)
		u := newUser(t, overHTTP(s), l3, "{}", agreeable)
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if _, err := u.askCtx(ctx, "resources/subscribe", `{"uri":"db://a"}`); err == nil {
			t.Error("got an answer")
		}
		time.Sleep(time.Second)
		equal(t, "listens", strings.Join(w.listening(), " "), lists)
		_ = u.session.Close()
	})
}

func TestSubscriptionsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &tower{}
		h := translate.Handler(newScript(t, w.serve), &translate.Options{UpstreamHTTP: true, MaxSubscriptions: 2, MaxListenURIs: 3})
		a, b := newUser(t, h, l3, "{}", agreeable), newUser(t, h, l3, "{}", agreeable)
		for _, step := range []struct {
			u    *user
			uri  string
			want string
		}{
			{a, "a:1", `{}`}, {a, "a:2", `{}`}, {a, "a:3", `-32603 {"bridge":{"reason":"too_many_subscriptions"}}`},
			{a, "a:2", `{}`}, {b, "a:1", `{}`}, {b, "a:4", `{}`},
		} {
			resp, err := step.u.ask("resources/subscribe", `{"uri":"`+step.uri+`"}`)
			equal(t, step.uri, outcome(resp, err), step.want)
		}
		c := newUser(t, h, l3, "{}", agreeable)
		resp, err := c.ask("resources/subscribe", `{"uri":"a:5"}`)
		equal(t, "the fourth of all", outcome(resp, err), `-32603 {"bridge":{"reason":"too_many_subscriptions"}}`)
		b.must("resources/unsubscribe", `{"uri":"a:4"}`)
		c.must("resources/subscribe", `{"uri":"a:5"}`)
		for _, u := range []*user{a, b, c} {
			_ = u.session.Close()
		}
	})
}

// TestWhoIsListenedFor: the bridge listens as itself, in the era of the server, and with the credential of the client.
func TestWhoIsListenedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &tower{}
		s := newScript(t, w.serve)
		h := overHTTP(s)
		var open []exchange.Session
		for _, token := range []string{"Bearer a", "Bearer b", "Bearer a"} {
			sess, err := h.Open(t.Context(), exchange.Client{Revision: l3, Authorization: token, Back: &exchangetest.Peer{}})
			if err != nil {
				t.Fatal(err)
			}
			open = append(open, sess)
		}
		synctest.Wait()
		equal(t, "listens", len(w.listening()), 2)
		var as []string
		for _, c := range s.opened {
			if c.Revision == m {
				as = append(as, c.Authorization+" "+string(c.Info)+" "+string(c.Capabilities))
			}
		}
		slices.Sort(as)
		const bridge = ` {"name":"mcp-dualstack-bridge","version":"0"} {}`
		equal(t, "as", strings.Join(as, "|"), "Bearer a"+bridge+"|Bearer b"+bridge)
		for _, sess := range open {
			_ = sess.Close()
		}
		equal(t, "at the end", len(w.listening()), 0)
	})
}
