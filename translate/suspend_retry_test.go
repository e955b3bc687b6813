package translate_test

import (
	"context"
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

// asksFor returns a server whose tool asks the questions at once and answers with the answers in order.
func asksFor(messages ...string) func(context.Context, exchange.Request, exchange.Peer) (exchange.Response, error) {
	return func(ctx context.Context, _ exchange.Request, back exchange.Peer) (exchange.Response, error) {
		answers := make([]string, len(messages))
		var wg sync.WaitGroup
		for i, m := range messages {
			wg.Go(func() {
				time.Sleep(time.Duration(i) * time.Millisecond)
				answers[i] = elicits(ctx, back, m)
			})
		}
		wg.Wait()
		if ctx.Err() != nil {
			return exchange.Response{}, context.Cause(ctx)
		}
		return text(strings.Join(answers, "|"))
	}
}

// The rows of the table of translation.md 7.3.4. Each plays in a bubble with a tool that asks two questions.
func TestRetry(t *testing.T) {
	const declined = `{"action":"decline"}`
	both := `{"1.1":` + accepted + `,"1.2":` + declined + `}`
	for _, tc := range []struct {
		name string
		play func(t *testing.T, d *desk, up *script, r round)
	}{
		{"round equals current", func(t *testing.T, d *desk, up *script, r round) {
			got := d.show("tools/call", r.retry(deploy, both))
			equal(t, "text", textOf(got), accepted+"|"+declined)
			equal(t, "calls of the server", len(up.params("tools/call")), 1)
		}},
		{"some keys missing", func(t *testing.T, d *desk, up *script, r round) {
			next := d.round("tools/call", r.retry(deploy, `{"1.1":`+accepted+`}`))
			equal(t, "asked again", keys(next.requests), "1.2")
			got := d.show("tools/call", next.retry(deploy, `{"1.2":`+declined+`}`))
			equal(t, "text", textOf(got), accepted+"|"+declined)
		}},
		{"no inputResponses", sameAgain("")},
		{"inputResponses null", sameAgain("null")},
		{"inputResponses empty", sameAgain("{}")},
		{"unknown keys only", sameAgain(`{"9.9":` + accepted + `}`)},
		{"inputResponses of another type", stays("[]", both)},
		{"unknown key beside the others", func(t *testing.T, d *desk, up *script, r round) {
			got := d.show("tools/call", r.retry(deploy, `{"1.1":`+accepted+`,"7.1":"x","1.2":`+declined+`}`))
			equal(t, "text", textOf(got), accepted+"|"+declined)
		}},
		{"answered key", func(t *testing.T, d *desk, up *script, r round) {
			next := d.round("tools/call", r.retry(deploy, `{"1.1":`+accepted+`}`))
			got := d.show("tools/call", next.retry(deploy, `{"1.1":`+declined+`,"1.2":`+declined+`}`))
			equal(t, "text", textOf(got), accepted+"|"+declined)
		}},
		{"wrong shape", stays(`{"1.1":`+accepted+`,"1.2":{"action":"perhaps"}}`, both)},
		{"value null", stays(`{"1.1":null,"1.2":`+declined+`}`, both)},
		{"round older than current", func(t *testing.T, d *desk, up *script, r round) {
			d.round("tools/call", r.retry(deploy, ""))
			equal(t, "answer", d.show("tools/call", r.retry(deploy, both)), "error -32602 state_used")
		}},
		{"call has ended", func(t *testing.T, d *desk, up *script, r round) {
			d.show("tools/call", r.retry(deploy, both))
			equal(t, "answer", d.show("tools/call", r.retry(deploy, both)), "error -32602 state_used")
			equal(t, "calls of the server", len(up.params("tools/call")), 1)
		}},
		{"expired", func(t *testing.T, d *desk, up *script, r round) {
			time.Sleep(10*time.Minute + time.Second)
			equal(t, "answer", d.show("tools/call", r.retry(deploy, both)), "error -32602 state_expired")
		}},
		{"another replica", func(t *testing.T, d *desk, up *script, r round) {
			d.h = legacyHandler(t, up, &translate.Options{Suspend: translate.SuspendOptions{Secrets: secrets, Owner: "b"}})
			equal(t, "answer", d.show("tools/call", r.retry(deploy, both)), "error -32603 owner_unavailable")
		}},
		{"call that is not known", func(t *testing.T, d *desk, up *script, r round) {
			d.h = legacyHandler(t, up, &translate.Options{Suspend: translate.SuspendOptions{Secrets: secrets, Owner: "a"}})
			equal(t, "answer", d.show("tools/call", r.retry(deploy, both)), "failed: upstream_lost")
		}},
		{"another principal", func(t *testing.T, d *desk, up *script, r round) {
			d.principal = "eve"
			equal(t, "answer", d.show("tools/call", r.retry(deploy, both)), "error -32602 state_invalid")
			d.principal = ""
			equal(t, "text", textOf(d.show("tools/call", r.retry(deploy, both))), accepted+"|"+declined)
		}},
		{"another method", func(t *testing.T, d *desk, up *script, r round) {
			equal(t, "answer", d.show("prompts/get", r.retry(deploy, both)), "error -32602 state_invalid")
		}},
		{"a method that cannot suspend", func(t *testing.T, d *desk, up *script, r round) {
			equal(t, "answer", d.show("tools/list", r.retry(`{}`, both)), "error -32602 state_invalid")
		}},
		{"changed argument", func(t *testing.T, d *desk, up *script, r round) {
			changed := strings.Replace(deploy, "25.0", "25", 1)
			equal(t, "answer", d.show("tools/call", r.retry(changed, both)), "error -32602 state_invalid")
		}},
		{"other order and blanks", func(t *testing.T, d *desk, up *script, r round) {
			got := d.show("tools/call", r.retry(`{ "arguments": {"n" : 25.0}, "name":"\u0064eploy" }`, both))
			equal(t, "text", textOf(got), accepted+"|"+declined)
		}},
		{"another upstream", func(t *testing.T, d *desk, up *script, r round) {
			d.h = legacyHandler(t, up, &translate.Options{Suspend: translate.SuspendOptions{Secrets: secrets, Owner: "a", Upstream: "other"}})
			equal(t, "answer", d.show("tools/call", r.retry(deploy, both)), "error -32602 state_invalid")
		}},
		{"forged", func(t *testing.T, d *desk, up *script, r round) {
			forged := round{state: `"b1.` + strings.Repeat("A", 200) + `"`}
			equal(t, "answer", d.show("tools/call", forged.retry(deploy, both)), "error -32602 state_invalid")
			equal(t, "not a string", d.show("tools/call", round{state: `{}`}.retry(deploy, both)), "error -32602 state_invalid")
		}},
		{"a question that needs what the retry does not declare", func(t *testing.T, d *desk, up *script, r round) {
			d.caps = `{"roots":{}}`
			equal(t, "answer", d.show("tools/call", r.retry(deploy, `{"1.1":`+accepted+`}`)), "error -32021")
			synctest.Wait()
			equal(t, "later", d.show("tools/call", r.retry(deploy, both)), "error -32602 state_used")
		}},
		{"inputResponses without requestState", func(t *testing.T, d *desk, up *script, r round) {
			d.round("tools/call", string(jsonrpc.Set([]byte(deploy), []byte(both), "inputResponses")))
			calls := up.params("tools/call")
			equal(t, "calls of the server", strings.Join(calls, " "), deploy+" "+deploy)
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				up := newLegacy(t, asksFor("one", "two"))
				d := newDesk(t, legacyHandler(t, up, &translate.Options{Suspend: translate.SuspendOptions{Secrets: secrets, Owner: "a"}}))
				r := d.round("tools/call", deploy)
				equal(t, "keys", keys(r.requests), "1.1 1.2")
				tc.play(t, d, up, r)
			})
		})
	}
}

var secrets = [][]byte{[]byte("0123456789abcdef0123456789abcdef")}

// keys returns the keys of an object, joined by blanks.
func keys(raw string) string {
	var all []string
	jsonrpc.Members([]byte(raw), func(name string, _ []byte) bool {
		all = append(all, name)
		return true
	})
	return strings.Join(all, " ")
}

// sameAgain expects that responses lead to the same questions in the next round.
func sameAgain(responses string) func(*testing.T, *desk, *script, round) {
	return func(t *testing.T, d *desk, _ *script, r round) {
		next := d.round("tools/call", r.retry(deploy, responses))
		equal(t, "questions", next.requests, r.requests)
		if next.state == r.state {
			t.Error("the token is the old one")
		}
		got := d.show("tools/call", next.retry(deploy, `{"1.2":`+accepted+`,"1.1":`+accepted+`}`))
		equal(t, "text", textOf(got), accepted+"|"+accepted)
	}
}

// stays expects that responses are refused and the token is good for others.
func stays(responses, others string) func(*testing.T, *desk, *script, round) {
	return func(t *testing.T, d *desk, _ *script, r round) {
		equal(t, "answer", d.show("tools/call", r.retry(deploy, responses)), "error -32602 invalid_input_response")
		if got := d.show("tools/call", r.retry(deploy, others)); !strings.Contains(textOf(got), "|") {
			t.Errorf("the token is not good any more: %s", got)
		}
	}
}

func TestShapesOfAnswers(t *testing.T) {
	const messages = `{"messages":[{"role":"user","content":{"type":"text","text":"?"}}],"maxTokens":5}`
	for _, tc := range []struct {
		method, params, answer string
		ok                     bool
	}{
		{"roots/list", ``, `{"roots":[]}`, true},
		{"roots/list", ``, `{"roots":{}}`, false},
		{"roots/list", ``, `{}`, false},
		{"roots/list", ``, `[]`, false},
		{"sampling/createMessage", messages, `{"role":"assistant","content":{"type":"text","text":"x"},"model":"m"}`, true},
		{"sampling/createMessage", messages, `{"role":"assistant","content":[],"model":"m"}`, true},
		{"sampling/createMessage", messages, `{"role":"assistant","content":{"type":"text","text":"x"}}`, false},
		{"sampling/createMessage", messages, `{"content":{"type":"text","text":"x"},"model":"m"}`, false},
		{"sampling/createMessage", messages, `{"role":"assistant","model":"m"}`, false},
		{"elicitation/create", branchForm, `{"action":"cancel"}`, true},
		{"elicitation/create", branchForm, `{"action":true}`, false},
		{"elicitation/create", branchForm, `{}`, false},
	} {
		t.Run(tc.method+" "+tc.answer, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				up := newLegacy(t, func(ctx context.Context, _ exchange.Request, back exchange.Peer) (exchange.Response, error) {
					var params []byte
					if tc.params != "" {
						params = []byte(tc.params)
					}
					resp, err := back.Call(ctx, exchange.Request{Method: tc.method, Params: params})
					if err != nil {
						return exchange.Response{}, err
					}
					return text(string(resp.Result))
				})
				d := newDesk(t, legacyHandler(t, up, nil))
				r := d.round("tools/call", deploy)
				got := d.show("tools/call", r.retry(deploy, `{"1.1":`+tc.answer+`}`))
				want := "error -32602 invalid_input_response"
				if tc.ok {
					got, want = textOf(got), tc.answer
				}
				equal(t, "answer", got, want)
			})
		})
	}
}

func TestQueuedQuestionsComeAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up := newLegacy(t, func(ctx context.Context, req exchange.Request, back exchange.Peer) (exchange.Response, error) {
			late := make(chan string)
			go func() {
				time.Sleep(time.Minute)
				late <- elicits(ctx, back, "late")
			}()
			first := elicits(ctx, back, "first")
			return text(first + "|" + <-late)
		})
		d := newDesk(t, legacyHandler(t, up, nil))
		r := d.round("tools/call", deploy)
		time.Sleep(2 * time.Minute)
		start := time.Now()
		next := d.round("tools/call", r.retry(deploy, `{"1.1":`+accepted+`}`))
		equal(t, "waited", time.Since(start), 0)
		equal(t, "keys", keys(next.requests), "2.1")
		got := d.show("tools/call", next.retry(deploy, `{"2.1":`+accepted+`}`))
		equal(t, "text", textOf(got), accepted+"|"+accepted)
	})
}

func TestParked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up := newLegacy(t, func(ctx context.Context, _ exchange.Request, back exchange.Peer) (exchange.Response, error) {
			asking, stop := context.WithTimeout(ctx, time.Minute)
			defer stop()
			elicits(asking, back, "anybody?")
			return text("gave up")
		})
		d := newDesk(t, legacyHandler(t, up, nil))
		r := d.round("tools/call", deploy)
		time.Sleep(2 * time.Minute)
		got := d.show("tools/call", r.retry(deploy, `{"1.1":"whatever"}`))
		equal(t, "text", textOf(got), "gave up")
		equal(t, "again", d.show("tools/call", r.retry(deploy, "")), "error -32602 state_used")
	})
}

func TestParkedOutcomeExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up := newLegacy(t, func(ctx context.Context, _ exchange.Request, back exchange.Peer) (exchange.Response, error) {
			asking, stop := context.WithTimeout(ctx, time.Minute)
			defer stop()
			elicits(asking, back, "anybody?")
			return text("gave up")
		})
		d := newDesk(t, legacyHandler(t, up, nil))
		r := d.round("tools/call", deploy)
		time.Sleep(10 * time.Minute)
		equal(t, "answer", d.show("tools/call", r.retry(deploy, "")), "error -32602 state_expired")
	})
}

func TestUpstreamDiesWhileSuspended(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dies := make(chan struct{})
		up := newLegacy(t, func(ctx context.Context, _ exchange.Request, back exchange.Peer) (exchange.Response, error) {
			asking, stop := context.WithCancel(ctx)
			defer stop()
			go elicits(asking, back, "anybody?")
			<-dies
			return exchange.Response{}, exchange.Fail(exchange.ReasonLost, nil)
		})
		d := newDesk(t, legacyHandler(t, up, nil))
		r := d.round("tools/call", deploy)
		close(dies)
		synctest.Wait()
		for range 2 {
			equal(t, "answer", d.show("tools/call", r.retry(deploy, `{"1.1":`+accepted+`}`)), "failed: upstream_lost")
		}
		equal(t, "calls of the server", len(up.params("tools/call")), 1)
	})
}

func TestRunningCallIsNobodyElses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up := newLegacy(t, func(ctx context.Context, _ exchange.Request, back exchange.Peer) (exchange.Response, error) {
			answer := elicits(ctx, back, "go?")
			time.Sleep(time.Hour)
			return text(answer)
		})
		d := newDesk(t, legacyHandler(t, up, nil))
		r := d.round("tools/call", deploy)
		first := make(chan string)
		go func() { first <- d.show("tools/call", r.retry(deploy, `{"1.1":`+accepted+`}`)) }()
		synctest.Wait()
		equal(t, "second", d.show("tools/call", r.retry(deploy, `{"1.1":`+accepted+`}`)), "error -32602 state_used")
		equal(t, "first", textOf(<-first), accepted)
	})
}

// Of many retries with one token, one is served.
func TestTokenIsUsedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up := newLegacy(t, asksFor("one"))
		d := newDesk(t, legacyHandler(t, up, nil))
		r := d.round("tools/call", deploy)
		got := make(chan string, 16)
		for range cap(got) {
			go func() { got <- d.show("tools/call", r.retry(deploy, `{"1.1":`+accepted+`}`)) }()
		}
		counts := map[string]int{}
		for range cap(got) {
			answer := <-got
			if textOf(answer) == accepted {
				answer = "served"
			}
			counts[answer]++
		}
		equal(t, "answers", fmt.Sprint(counts), "map[error -32602 state_used:15 served:1]")
	})
}
