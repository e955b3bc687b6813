package translate_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/translate"
)

func journalled(secrets ...[]byte) *translate.Options {
	return &translate.Options{Suspend: translate.SuspendOptions{Journal: []string{"deploy"}, Secrets: secrets}}
}

// twoQuestions asks one thing after the other and counts how often it was begun and cancelled.
func twoQuestions(t *testing.T, begun, cancelled *int) *script {
	return newLegacy(t, func(ctx context.Context, _ exchange.Request, back exchange.Peer) (exchange.Response, error) {
		*begun++
		a := elicits(ctx, back, "first")
		if ctx.Err() != nil {
			*cancelled++
			return exchange.Response{}, context.Cause(ctx)
		}
		b := elicits(ctx, back, "second")
		if ctx.Err() != nil {
			*cancelled++
			return exchange.Response{}, context.Cause(ctx)
		}
		return text(a + "|" + b)
	})
}

// A tool in journal mode is run again from the start, and its rounds survive the bridge.
func TestJournal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var begun, cancelled int
		up := twoQuestions(t, &begun, &cancelled)
		d := newDesk(t, legacyHandler(t, up, journalled(secrets...)))
		r := d.round("tools/call", deploy)
		synctest.Wait()
		equal(t, "cancelled", cancelled, 1)
		equal(t, "closed", up.closes(), 1)

		d.h = legacyHandler(t, up, journalled(secrets...)) // after a restart
		r = d.round("tools/call", r.retry(deploy, `{"1.1":`+accepted+`}`))
		equal(t, "keys", keys(r.requests), "2.1")
		equal(t, "question", strings.Contains(r.requests, "second"), true)
		r = d.round("tools/call", r.retry(deploy, ""))
		equal(t, "asked again", keys(r.requests), "2.1")

		got := d.show("tools/call", r.retry(deploy, `{"2.1":{"action":"decline"}}`))
		equal(t, "text", textOf(got), accepted+`|{"action":"decline"}`)
		equal(t, "begun", begun, 4)
	})
}

// Equal questions get the answers in the order they were given.
func TestJournalOfEqualQuestions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up := newLegacy(t, func(ctx context.Context, _ exchange.Request, back exchange.Peer) (exchange.Response, error) {
			a := elicits(ctx, back, "same")
			b := elicits(ctx, back, "same")
			if ctx.Err() != nil {
				return exchange.Response{}, context.Cause(ctx)
			}
			return text(a + "|" + b)
		})
		d := newDesk(t, legacyHandler(t, up, journalled()))
		r := d.round("tools/call", deploy)
		r = d.round("tools/call", r.retry(deploy, `{"1.1":`+accepted+`}`))
		got := d.show("tools/call", r.retry(deploy, `{"2.1":{"action":"decline"}}`))
		equal(t, "text", textOf(got), accepted+`|{"action":"decline"}`)
	})
}

func TestJournalRefusals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var begun, cancelled int
		up := twoQuestions(t, &begun, &cancelled)
		d := newDesk(t, legacyHandler(t, up, journalled(secrets...)))
		r := d.round("tools/call", deploy)
		equal(t, "wrong shape", d.show("tools/call", r.retry(deploy, `{"1.1":[]}`)), "error -32602 invalid_input_response")
		d.h = legacyHandler(t, up, &translate.Options{Suspend: translate.SuspendOptions{Secrets: secrets}})
		equal(t, "not listed any more", d.show("tools/call", r.retry(deploy, "")), "error -32602 state_invalid")
		equal(t, "begun", begun, 1)
	})
}

func TestJournalRounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var begun, cancelled int
		o := journalled()
		o.Suspend.MaxRounds = 2
		d := newDesk(t, legacyHandler(t, twoQuestions(t, &begun, &cancelled), o))
		r := d.round("tools/call", deploy)
		r = d.round("tools/call", r.retry(deploy, ""))
		equal(t, "third", d.show("tools/call", r.retry(deploy, "")), "error -32603 too_many_rounds")
	})
}
