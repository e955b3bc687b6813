package translate_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/translate"
)

// needsURL is the error of a call that cannot be carried out before URLs have been visited.
func needsURL(ids ...string) exchange.Response {
	var list []string
	for _, id := range ids {
		list = append(list, `{"mode":"url","elicitationId":"`+id+`","url":"https://a.example/`+id+`","message":"Go"}`)
	}
	return exchange.Response{Error: &exchange.Error{Code: -32042, Message: "m", Data: []byte(`{"elicitations":[` + strings.Join(list, ",") + `]}`)}}
}

// refusing refuses the tool with the responses, in order, before it answers. notify, if set, is sent when the
// server is watched.
func refusing(t *testing.T, responses ...exchange.Response) *script {
	n := 0
	return newLegacy(t, func(_ context.Context, req exchange.Request, _ exchange.Peer) (exchange.Response, error) {
		if n < len(responses) {
			n++
			return responses[n-1], nil
		}
		return text("linked")
	})
}

// visited says that the client's principal has visited a URL, as a pool would.
func (s *script) visited(ids ...string) {
	s.mu.Lock()
	opened := s.opened
	s.mu.Unlock()
	for _, id := range ids {
		for _, c := range opened {
			if c.Back != nil {
				_ = c.Back.Notify(context.Background(), exchange.Request{Method: "notifications/elicitation/complete", Params: []byte(`{"elicitationId":"` + id + `"}`)})
			}
		}
	}
}

const bothAccepted = `{"1.1":{"action":"accept"},"1.2":{"action":"accept"}}`

func TestURLRequired(t *testing.T) {
	for _, tc := range []struct {
		name string
		play func(t *testing.T, up *script, d *desk, r round)
	}{
		{"reported at once", func(t *testing.T, up *script, d *desk, r round) {
			up.visited("e1", "e2")
			start := time.Now()
			equal(t, "text", textOf(d.show("tools/call", r.retry(deploy, bothAccepted))), "linked")
			equal(t, "waited", time.Since(start), 0)
		}},
		{"reported while waiting", func(t *testing.T, up *script, d *desk, r round) {
			start := time.Now()
			go func() {
				time.Sleep(3 * time.Second)
				up.visited("e1", "unknown")
				time.Sleep(4 * time.Second)
				up.visited("e2")
			}()
			equal(t, "text", textOf(d.show("tools/call", r.retry(deploy, bothAccepted))), "linked")
			equal(t, "waited", time.Since(start), 7*time.Second)
		}},
		{"not reported", func(t *testing.T, up *script, d *desk, r round) {
			start := time.Now()
			equal(t, "text", textOf(d.show("tools/call", r.retry(deploy, bothAccepted))), "linked")
			equal(t, "waited", time.Since(start), 20*time.Second)
			equal(t, "calls", strings.Join(up.params("tools/call"), " "), deploy+" "+deploy)
		}},
		{"declined", func(t *testing.T, up *script, d *desk, r round) {
			got := d.show("tools/call", r.retry(deploy, `{"1.1":{"action":"accept"},"1.2":{"action":"decline"}}`))
			if !strings.Contains(got, `"isError":true`) || !strings.Contains(got, "declined") || strings.Contains(got, "a.example") {
				t.Errorf("got %s", got)
			}
			equal(t, "calls", len(up.params("tools/call")), 1)
		}},
		{"wrong shape", func(t *testing.T, up *script, d *desk, r round) {
			equal(t, "answer", d.show("tools/call", r.retry(deploy, `{"1.1":7}`)), "error -32602 invalid_input_response")
		}},
		{"another principal", func(t *testing.T, up *script, d *desk, r round) {
			d.principal = "eve"
			equal(t, "answer", d.show("tools/call", r.retry(deploy, bothAccepted)), "error -32602 state_invalid")
		}},
		{"expired", func(t *testing.T, up *script, d *desk, r round) {
			time.Sleep(10*time.Minute + time.Second)
			equal(t, "answer", d.show("tools/call", r.retry(deploy, bothAccepted)), "error -32602 state_expired")
		}},
		{"capability gone", func(t *testing.T, up *script, d *desk, r round) {
			d.caps = `{"elicitation":{}}`
			equal(t, "answer", d.show("tools/call", r.retry(deploy, bothAccepted)), "error -32021")
		}},
		{"client leaves while waiting", func(t *testing.T, up *script, d *desk, r round) {
			ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, &exchange.CancelError{Reason: "gone"})
			defer cancel()
			equal(t, "answer", shown(d.ask(ctx, "tools/call", r.retry(deploy, bothAccepted))), "failed: cancelled by the caller: gone")
			equal(t, "calls", len(up.params("tools/call")), 1)
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				up := refusing(t, needsURL("e1", "e2"))
				d := newDesk(t, legacyHandler(t, up, nil))
				r := d.round("tools/call", deploy)
				equal(t, "inputRequests", r.requests, `{"1.1":{"method":"elicitation/create","params":{"mode":"url","url":"https://a.example/e1","message":"Go"}},`+
					`"1.2":{"method":"elicitation/create","params":{"mode":"url","url":"https://a.example/e2","message":"Go"}}}`)
				synctest.Wait() // the bridge listens for visits
				tc.play(t, up, d, r)
			})
		})
	}
}

func TestURLRequiredWithoutTheCapability(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, legacyHandler(t, refusing(t, needsURL("e1")), nil))
		d.caps = `{"elicitation":{"form":{}}}`
		resp, err := d.ask(t.Context(), "tools/call", deploy)
		if err != nil || resp.Error == nil {
			t.Fatalf("got %s", shown(resp, err))
		}
		equal(t, "data", string(resp.Error.Data), `{"requiredCapabilities":{"elicitation":{"url":{}}}}`)
	})
}

func TestPromptThatWasDeclined(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, legacyHandler(t, refusing(t, needsURL("e1")), nil))
		r := d.round("prompts/get", `{"name":"p"}`)
		equal(t, "answer", d.show("prompts/get", r.retry(`{"name":"p"}`, `{"1.1":{"action":"cancel"}}`)), "error -32603 declined")
	})
}

// The same URLs again are not asked again: the client only comes back.
func TestURLThatIsNotVisitedYet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		again := []exchange.Response{needsURL("e1", "e2"), needsURL("e2", "e1"), needsURL("e1", "e2"), needsURL("e3")}
		d := newDesk(t, legacyHandler(t, refusing(t, again...), nil))
		r := d.round("tools/call", deploy)
		r = d.round("tools/call", r.retry(deploy, bothAccepted))
		equal(t, "second", r.requests, "")
		r = d.round("tools/call", r.retry(deploy, ""))
		equal(t, "third", r.requests, "")
		r = d.round("tools/call", r.retry(deploy, ""))
		equal(t, "another URL", keys(r.requests), "4.1")
		equal(t, "text", textOf(d.show("tools/call", r.retry(deploy, `{"4.1":{"action":"accept"}}`))), "linked")
	})
}

// Answers that are missing are asked for again, as soon as the server has said what it still needs.
func TestURLWithoutAnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, legacyHandler(t, refusing(t, needsURL("e1", "e2"), needsURL("e1", "e2")), nil))
		r := d.round("tools/call", deploy)
		start := time.Now()
		r = d.round("tools/call", r.retry(deploy, `{"1.1":{"action":"accept"}}`))
		equal(t, "waited", time.Since(start), 0)
		equal(t, "keys", keys(r.requests), "2.1 2.2")
	})
}

func TestURLAttemptsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := []exchange.Response{needsURL("e1"), needsURL("e1"), needsURL("e1"), needsURL("e1")}
		up := refusing(t, all...)
		o := translate.SuspendOptions{MaxURLAttempts: 3}
		reached := bounds(&o)
		d := newDesk(t, legacyHandler(t, up, &translate.Options{Suspend: o}))
		r := d.round("tools/call", deploy)
		r = d.round("tools/call", r.retry(deploy, `{"1.1":{"action":"accept"}}`))
		r = d.round("tools/call", r.retry(deploy, ""))
		equal(t, "fourth", d.show("tools/call", r.retry(deploy, "")), "error -32603 too_many_rounds")
		equal(t, "bounds reached", reached(), "map[url_attempts:1]")
	})
}

// A call made again after the URLs have been visited may ask like any other.
func TestURLThenQuestion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		up := newLegacy(t, func(ctx context.Context, _ exchange.Request, back exchange.Peer) (exchange.Response, error) {
			if n++; n == 1 {
				return needsURL("e1"), nil
			}
			return text(elicits(ctx, back, "and?"))
		})
		d := newDesk(t, legacyHandler(t, up, nil))
		r := d.round("tools/call", deploy)
		r = d.round("tools/call", r.retry(deploy, `{"1.1":{"action":"accept"}}`))
		equal(t, "text", textOf(d.show("tools/call", r.retry(deploy, `{"1.1":`+accepted+`}`))), accepted)
	})
}

// However many calls wait for visits, the bridge listens for them on one session of the principal, and not for ever.
func TestOneSessionHearsOfVisits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up := refusing(t, needsURL("e1"), needsURL("e2"), needsURL("e3"))
		d := newDesk(t, legacyHandler(t, up, nil))
		watching := func() (n int) {
			up.mu.Lock()
			defer up.mu.Unlock()
			for _, c := range up.opened {
				if c.Back != nil {
					n++
				}
			}
			return n
		}
		for range 3 {
			d.round("tools/call", deploy)
			time.Sleep(9 * time.Minute)
			synctest.Wait()
			equal(t, "sessions that listen", watching(), 1)
		}
		equal(t, "closed", up.closes(), 3) // of the calls
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		equal(t, "closed at the end", up.closes(), 4)
	})
}
