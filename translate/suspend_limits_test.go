package translate_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
	"github.com/mcp-dualstack/bridge/translate"
)

func limited(t *testing.T, o translate.SuspendOptions, want string, f func(t *testing.T, up *script, d *desk)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		up := newLegacy(t, func(ctx context.Context, _ exchange.Request, back exchange.Peer) (exchange.Response, error) {
			for {
				elicits(ctx, back, "more?")
				if ctx.Err() != nil {
					return exchange.Response{}, context.Cause(ctx)
				}
			}
		})
		reached := bounds(&o)
		f(t, up, newDesk(t, legacyHandler(t, up, &translate.Options{Suspend: o})))
		equal(t, "bounds reached", reached(), want)
	})
}

// bounds returns what tells which bounds have been reached, and how often.
func bounds(o *translate.SuspendOptions) func() string {
	var mu sync.Mutex
	reached := make(map[string]int)
	o.Bound = func(name string) {
		mu.Lock()
		defer mu.Unlock()
		reached[name]++
	}
	return func() string {
		mu.Lock()
		defer mu.Unlock()
		return fmt.Sprint(reached)
	}
}

// retryAfter returns what a client is told to wait.
func retryAfter(err error) time.Duration {
	if f, ok := errors.AsType[*exchange.Failure](err); ok {
		return f.RetryAfter
	}
	return 0
}

func TestLimitPerPrincipal(t *testing.T) {
	limited(t, translate.SuspendOptions{MaxPerPrincipal: 2}, "map[suspended_calls:3]", func(t *testing.T, up *script, d *desk) {
		d.principal = "ann"
		first := d.round("tools/call", deploy)
		time.Sleep(time.Second)
		d.round("tools/call", deploy)
		_, err := d.ask(t.Context(), "tools/call", deploy)
		equal(t, "third", fmt.Sprint(err), "too_many_suspended")
		equal(t, "retry after", retryAfter(err) > 0, true)
		equal(t, "calls of the server", len(up.params("tools/call")), 2)

		d.principal = "bob"
		d.round("tools/call", deploy)

		d.principal = "ann"
		time.Sleep(29 * time.Second) // the first has waited 30 s
		d.round("tools/call", deploy)
		equal(t, "the oldest", d.show("tools/call", first.retry(deploy, "")), "error -32602 state_expired")
		_, err = d.ask(t.Context(), "tools/call", deploy)
		equal(t, "fourth", fmt.Sprint(err), "too_many_suspended")
	})
}

func TestLimitInTotal(t *testing.T) {
	limited(t, translate.SuspendOptions{MaxTotal: 2}, "map[suspended_calls:2]", func(t *testing.T, up *script, d *desk) {
		for _, d.principal = range []string{"ann", "bob"} {
			d.round("tools/call", deploy)
		}
		time.Sleep(time.Minute)
		d.principal = "eve"
		_, err := d.ask(t.Context(), "tools/call", deploy)
		equal(t, "somebody else's are not ended", fmt.Sprint(err), "too_many_suspended")
		d.caps = `{}`
		equal(t, "who cannot be asked", d.show("tools/call", deploy), "error -32021")
		d.principal, d.caps = "bob", `{"elicitation":{}}`
		d.round("tools/call", deploy)
	})
}

// Calls that were admitted together may find that there is no room for all.
func TestLimitIsReachedByThoseUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up := newLegacy(t, asksFor("one"))
		d := newDesk(t, legacyHandler(t, up, &translate.Options{Suspend: translate.SuspendOptions{MaxPerPrincipal: 1}}))
		got := make(chan string, 3)
		for range cap(got) {
			go func() { got <- d.show("tools/call", deploy) }()
		}
		asked, refused := 0, 0
		for range cap(got) {
			switch answer := <-got; answer {
			case "error -32603 too_many_suspended":
				refused++
			default:
				asked++
			}
		}
		equal(t, "asked and refused", fmt.Sprint(asked, refused), "1 2")
	})
}

func TestRoundsOfACall(t *testing.T) {
	limited(t, translate.SuspendOptions{MaxRounds: 3}, "map[rounds:1]", func(t *testing.T, _ *script, d *desk) {
		r := d.round("tools/call", deploy)
		for n := 2; n <= 3; n++ {
			r = d.round("tools/call", r.retry(deploy, fmt.Sprintf(`{"%d.1":%s}`, n-1, accepted)))
			equal(t, "keys", keys(r.requests), fmt.Sprintf("%d.1", n))
		}
		equal(t, "fourth", d.show("tools/call", r.retry(deploy, `{"3.1":`+accepted+`}`)), "error -32603 too_many_rounds")
		equal(t, "later", d.show("tools/call", r.retry(deploy, "")), "error -32602 state_expired")
	})
}

func TestLifetimeOfACall(t *testing.T) {
	limited(t, translate.SuspendOptions{}, "map[]", func(t *testing.T, _ *script, d *desk) {
		r := d.round("tools/call", deploy)
		for range 3 {
			time.Sleep(9 * time.Minute)
			r = d.round("tools/call", r.retry(deploy, ""))
		}
		time.Sleep(3*time.Minute + time.Second) // of 10 minutes, but half an hour after the beginning
		equal(t, "after 30 minutes", d.show("tools/call", r.retry(deploy, "")), "error -32602 state_expired")
	})
}

func TestQuestionsAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up := newLegacy(t, asksFor("a", "b", "c"))
		o := translate.SuspendOptions{MaxQuestions: 2}
		reached := bounds(&o)
		d := newDesk(t, legacyHandler(t, up, &translate.Options{Suspend: o}))
		r := d.round("tools/call", deploy)
		equal(t, "keys", keys(r.requests), "1.1 1.2")
		got := d.show("tools/call", r.retry(deploy, `{"1.1":`+accepted+`,"1.2":`+accepted+`}`))
		equal(t, "text", textOf(got), accepted+"|"+accepted+"|error -32603")
		equal(t, "bounds reached", reached(), "map[questions:1]")
	})
}

// A full pool takes the oldest suspended call's place if that has waited.
func TestFullPool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		busy := 0
		up := newLegacy(t, nil)
		up.answer = func(ctx context.Context, req exchange.Request, back exchange.Peer) (exchange.Response, error) {
			if busy > 0 {
				busy--
				return exchange.Response{}, &exchange.Failure{Reason: exchange.ReasonBusy, RetryAfter: time.Second}
			}
			if req.Method == "prompts/list" {
				return exchange.Response{Result: []byte(`{"prompts":[]}`)}, nil
			}
			elicits(ctx, back, "go?")
			return text("ok")
		}
		d := newDesk(t, legacyHandler(t, up, nil))
		first := d.round("tools/call", deploy)
		busy = 1
		equal(t, "too early", d.show("tools/call", deploy), "failed: upstream_busy")
		time.Sleep(30 * time.Second)
		busy = 2
		second := d.round("tools/call", deploy)
		equal(t, "the oldest", d.show("tools/call", first.retry(deploy, "")), "error -32602 state_expired")
		time.Sleep(30 * time.Second)
		busy = 1
		equal(t, "a list", strings.HasPrefix(d.show("prompts/list", "{}"), `{"prompts":[]`), true)
		equal(t, "the next", d.show("tools/call", second.retry(deploy, "")), "error -32602 state_expired")
		busy = 1
		equal(t, "nothing is suspended", d.show("tools/call", deploy), "failed: upstream_busy")
	})
}

// A server that says itself that it is busy may have carried the call out: it is not made again, and nobody makes room.
func TestBusyServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		busy := false
		up := newLegacy(t, func(ctx context.Context, _ exchange.Request, back exchange.Peer) (exchange.Response, error) {
			if busy {
				return exchange.Response{}, &exchange.Failure{Reason: exchange.ReasonBusy, Answered: true}
			}
			elicits(ctx, back, "go?")
			return text("ok")
		})
		d := newDesk(t, legacyHandler(t, up, nil))
		first := d.round("tools/call", deploy)
		time.Sleep(time.Minute)
		busy = true
		equal(t, "busy", d.show("tools/call", deploy), "failed: upstream_busy")
		equal(t, "calls", len(up.params("tools/call")), 2)
		equal(t, "the one that waited", textOf(d.show("tools/call", first.retry(deploy, `{"1.1":{"action":"accept"}}`))), "ok")
	})
}

// The clock of an earlier round does not end a later one.
func TestEachRoundHasItsTime(t *testing.T) {
	limited(t, translate.SuspendOptions{}, "map[]", func(t *testing.T, _ *script, d *desk) {
		r := d.round("tools/call", deploy)
		time.Sleep(599 * time.Second)
		r = d.round("tools/call", r.retry(deploy, ""))
		time.Sleep(599 * time.Second)
		d.round("tools/call", r.retry(deploy, ""))
	})
}

func TestLargeStateIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up := newLegacy(t, asksFor("one", "two"))
		o := translate.SuspendOptions{Journal: []string{"deploy"}}
		reached := bounds(&o)
		d := newDesk(t, legacyHandler(t, up, &translate.Options{Suspend: o}))
		r := d.round("tools/call", deploy)
		large := jsonrpc.Set([]byte(accepted), jsonrpc.Quote(string(make([]byte, 65<<10))), "content", "branch")
		equal(t, "answer", d.show("tools/call", r.retry(deploy, `{"1.1":`+string(large)+`}`)), "error -32603 state_too_large")
		equal(t, "bounds reached", reached(), "map[request_state:1]")
	})
}
