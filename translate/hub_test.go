package translate_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/exchange/exchangetest"
)

// A listener is a modern client's subscriptions/listen.
type listener struct {
	peer exchangetest.Peer
	stop context.CancelFunc
	done chan struct{}
	end  string
}

// subscribe begins a listen for the filter and waits until nothing more happens.
func subscribe(t *testing.T, h exchange.Handler, filter string) *listener {
	t.Helper()
	s, err := h.Open(t.Context(), exchange.Client{Revision: m})
	if err != nil {
		t.Fatal(err)
	}
	l := &listener{done: make(chan struct{})}
	ctx, cancel := context.WithCancel(t.Context())
	l.stop = func() { cancel(); <-l.done }
	go func() {
		defer close(l.done)
		defer s.Close()
		resp, err := s.Call(ctx, exchange.Request{Method: "subscriptions/listen", Params: []byte(`{"notifications":` + filter + `,"_meta":{` + envelope("{}") + `}}`)}, &l.peer)
		l.end = outcome(resp, err)
	}()
	synctest.Wait()
	return l
}

const (
	ackd        = "notifications/subscriptions/acknowledged "
	toolsChange = `notifications/tools/list_changed {"x":1.0}`
)

// TestListensOnOneConnectionAreShared: clients of both eras come and go, and no listen with the server ends before the
// last of them has gone. A go-sdk v1.8.0 server on stdio forgets all of a connection's when one ends.
func TestListensOnOneConnectionAreShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &tower{}
		s := newScript(t, w.serve)
		h := modern(s)
		old := newUser(t, h, l3, "{}", agreeable)
		a := subscribe(t, h, `{"toolsListChanged":true,"promptsListChanged":true}`)
		b := subscribe(t, h, `{"toolsListChanged":true,"resourceSubscriptions":["db://a"]}`)
		old.must("resources/subscribe", `{"uri":"db://b"}`)
		equal(t, "listens", strings.Join(w.listening(), " "), lists+` {"resourceSubscriptions":["db://a"]} {"resourceSubscriptions":["db://b"]}`)
		old.must("resources/unsubscribe", `{"uri":"db://b"}`)
		time.Sleep(time.Second)
		b.stop()
		w.tell(t.Context(), "notifications/tools/list_changed", `{`+subID+`,"x":1.0}`)
		w.tell(t.Context(), "notifications/resources/updated", updated("db://a"))
		equal(t, "a hears", strings.Join(told(&a.peer), "|"), ackd+`{"notifications":{"toolsListChanged":true}}|`+toolsChange)
		equal(t, "b heard", strings.Join(told(&b.peer), "|"), ackd+`{"notifications":{"toolsListChanged":true,"resourceSubscriptions":["db://a"]}}`)
		equal(t, "the old client hears", strings.Join(told(&old.standing), "|"), toolsChange)
		equal(t, "listens", len(w.listening()), 3)
		a.stop()
		_ = old.session.Close()
		equal(t, "listens at the end", len(w.listening()), 0)
		equal(t, "begun", len(w.begun), 3)
	})
}

func TestSharedListenThatEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &tower{}
		s := newScript(t, w.serve)
		h := modern(s)
		a := subscribe(t, h, `{"toolsListChanged":true}`)
		b := subscribe(t, h, `{"resourceSubscriptions":["db://a"]}`)
		w.open[0].end <- exchange.Response{Result: []byte(`{"resultType":"complete"}`)}
		synctest.Wait()
		equal(t, "a ends", a.end, `{"resultType":"complete"}`)
		equal(t, "b ends", b.end, `{"resultType":"complete"}`)
		again := subscribe(t, h, `{"toolsListChanged":true}`)
		equal(t, "listens", strings.Join(w.listening(), " "), lists)
		again.stop()
		equal(t, "again ends", again.end, "context canceled")
	})
}

// TestSharedListenRefused: those who need it are told, the others go on.
func TestSharedListenRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &tower{refuse: exchange.Response{Error: fault(-32603, `{"x":1.0}`)},
			honour: func(filter []byte) (string, bool) {
				return string(filter), !strings.Contains(string(filter), "db://no")
			}}
		h := modern(newScript(t, w.serve))
		a := subscribe(t, h, `{"toolsListChanged":true}`)
		b := subscribe(t, h, `{"toolsListChanged":true,"resourceSubscriptions":["db://no"]}`)
		equal(t, "b ends", b.end, `-32603 {"x":1.0}`)
		equal(t, "b heard", len(told(&b.peer)), 0)
		w.tell(t.Context(), "notifications/tools/list_changed", `{`+subID+`,"x":1.0}`)
		equal(t, "a hears", strings.Join(told(&a.peer), "|"), ackd+`{"notifications":{"toolsListChanged":true}}|`+toolsChange)
		a.stop()
	})
}

// TestListenForNothing is acknowledged and stays open; what the hub cannot tell apart goes to the server as it is.
func TestListenForNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &tower{}
		s := newScript(t, w.serve)
		h := modern(s)
		a := subscribe(t, h, `{"promptsListChanged":true}`)
		equal(t, "told", strings.Join(told(&a.peer), "|"), ackd+`{"notifications":{}}`)
		equal(t, "ended", a.end, "")
		s.schemas = nil // taskIds are the extension's
		b := subscribe(t, h, `{"taskIds":["1"]}`)
		equal(t, "listens", strings.Join(w.listening(), " "), lists+` {"taskIds":["1"]}`)
		a.stop()
		b.stop()
	})
}

// TestFeedsAreBounded: at the bound the hub ends like a listen that the server ends.
func TestFeedsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &tower{}
		h := modern(newScript(t, w.serve))
		first := subscribe(t, h, `{"toolsListChanged":true}`)
		var others []*listener
		for i := range 256 {
			others = append(others, subscribe(t, h, fmt.Sprintf(`{"resourceSubscriptions":["db://%d"]}`, i)))
		}
		equal(t, "the first ends", first.end, `{"resultType":"complete"}`)
		equal(t, "the last ends", others[255].end, `{"resultType":"complete"}`)
		equal(t, "listens", len(w.listening()), 0)
	})
}

// TestChangeBehindTheAcknowledgement: a server may report a change in the same breath as its acknowledgement; it is told after the
// client's own acknowledgement, if that names it.
func TestChangeBehindTheAcknowledgement(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScript(t, func(ctx context.Context, req exchange.Request, back exchange.Peer) (exchange.Response, error) {
			if req.Method != "subscriptions/listen" {
				return elsewhere(ctx, req)
			}
			for _, note := range [][2]string{
				{"notifications/subscriptions/acknowledged", `{` + subID + `,"notifications":{"resourceSubscriptions":["db://a"]}}`},
				{"notifications/resources/updated", updated("db://a")},
				{"notifications/resources/updated", updated("db://refused")},
			} {
				_ = back.Notify(ctx, exchange.Request{Method: note[0], Params: []byte(note[1])})
			}
			<-ctx.Done()
			return exchange.Response{}, context.Cause(ctx)
		})
		l := subscribe(t, modern(s), `{"resourceSubscriptions":["db://a","db://refused"]}`)
		equal(t, "told", strings.Join(told(&l.peer), "\n"),
			ackd+`{"notifications":{"resourceSubscriptions":["db://a"]}}`+"\n"+`notifications/resources/updated {"uri":"db://a"}`)
		l.stop()
	})
}

// TestRefusedURIIsAskedForAgain: what a server did not know once may come into being, as long as anybody listens to anything; it is
// not asked for at each listen.
func TestRefusedURIIsAskedForAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		known := false
		w := &tower{honour: func(filter []byte) (string, bool) {
			if !known && strings.Contains(string(filter), "db://new") {
				return `{}`, true
			}
			return string(filter), true
		}}
		h := modern(newScript(t, w.serve))
		first := subscribe(t, h, `{"resourceSubscriptions":["db://new"]}`)
		known = true
		soon := subscribe(t, h, `{"resourceSubscriptions":["db://new"]}`)
		time.Sleep(time.Minute)
		later := subscribe(t, h, `{"resourceSubscriptions":["db://new"]}`)
		for i, l := range []*listener{first, soon, later} {
			want := ackd + `{"notifications":{}}`
			if i == 2 {
				want = ackd + `{"notifications":{"resourceSubscriptions":["db://new"]}}`
			}
			equal(t, fmt.Sprint("listen ", i), strings.Join(told(&l.peer), "\n"), want)
		}
		for _, l := range []*listener{first, soon, later} {
			l.stop()
		}
	})
}
