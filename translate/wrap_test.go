package translate_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-dualstack/bridge/translate"
)

const (
	asksForm = `{"resultType":"input_required","inputRequests":{"branch":{"method":"elicitation/create","params":` + branchForm + `}},"requestState":"s\u0041\/1","x":[1.0]}`
	isDone   = `{"resultType":"complete","content":[]}`
)

func TestStateOfAModernServerPasses(t *testing.T) {
	up := newScript(t, results("tools/call", asksForm, isDone))
	d := newDesk(t, legacyHandler(t, up, nil))
	equal(t, "first", d.show("tools/call", deploy), asksForm)
	retry := round{state: `"s\u0041\/1"`}.retry(deploy, `{"branch":`+accepted+`}`)
	equal(t, "second", d.show("tools/call", retry), isDone)
	equal(t, "params", up.params("tools/call")[1], string(d.with(retry)))
}

func TestStateOfAModernServerIsWrapped(t *testing.T) {
	for _, tc := range []struct {
		name string
		play func(t *testing.T, up *script, d *desk, r round)
	}{
		{"retry", func(t *testing.T, up *script, d *desk, r round) {
			equal(t, "answer", d.show("tools/call", r.retry(deploy, `{"branch":`+accepted+`}`)), isDone)
			want := round{state: `"s\u0041\/1"`}.retry(deploy, `{"branch":`+accepted+`}`)
			equal(t, "params", up.params("tools/call")[1], string(d.with(want)))
		}},
		{"another principal", func(t *testing.T, up *script, d *desk, r round) {
			d.principal = "eve"
			equal(t, "answer", d.show("tools/call", r.retry(deploy, "")), "error -32602 state_invalid")
			equal(t, "calls", len(up.params("tools/call")), 1)
		}},
		{"changed argument", func(t *testing.T, up *script, d *desk, r round) {
			equal(t, "answer", d.show("tools/call", r.retry(`{"name":"deploy","arguments":{"n":26}}`, "")), "error -32602 state_invalid")
		}},
		{"another method", func(t *testing.T, up *script, d *desk, r round) {
			equal(t, "answer", d.show("prompts/get", r.retry(deploy, "")), "error -32602 state_invalid")
		}},
		{"expired", func(t *testing.T, up *script, d *desk, r round) {
			time.Sleep(601 * time.Second)
			equal(t, "answer", d.show("tools/call", r.retry(deploy, "")), "error -32602 state_expired")
		}},
		{"the server's own", func(t *testing.T, up *script, d *desk, r round) {
			equal(t, "answer", d.show("tools/call", round{state: `"s\u0041\/1"`}.retry(deploy, "")), "error -32602 state_invalid")
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				up := newScript(t, results("tools/call", asksForm, isDone))
				d := newDesk(t, legacyHandler(t, up, &translate.Options{Wrap: true}))
				r := d.round("tools/call", deploy)
				equal(t, "inputRequests", r.requests, `{"branch":{"method":"elicitation/create","params":`+branchForm+`}}`)
				tc.play(t, up, d, r)
			})
		})
	}
}

// Tokens of a suspended call and of a modern server's state do not stand for each other.
func TestKindsOfStateDoNotMix(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &translate.Options{Wrap: true, Suspend: translate.SuspendOptions{Secrets: secrets}}
		a := newDesk(t, legacyHandler(t, newScript(t, results("tools/call", asksForm, isDone)), o))
		b := newDesk(t, legacyHandler(t, newLegacy(t, asksFor("one")), o))
		equal(t, "wrapped", b.show("tools/call", a.round("tools/call", deploy).retry(deploy, "")), "error -32602 state_invalid")
		equal(t, "suspended", a.show("tools/call", b.round("tools/call", deploy).retry(deploy, "")), "error -32602 state_invalid")
	})
}

func TestModernServerAsksForWhatWasNotDeclared(t *testing.T) {
	for _, o := range []*translate.Options{nil, {Wrap: true}} {
		d := newDesk(t, legacyHandler(t, newScript(t, results("tools/call", asksForm)), o))
		d.caps = `{"elicitation":{"url":{}}}`
		resp, err := d.ask(t.Context(), "tools/call", deploy)
		if err != nil || resp.Error == nil {
			t.Fatalf("got %s", shown(resp, err))
		}
		equal(t, "data", string(resp.Error.Data), `{"requiredCapabilities":{"elicitation":{"form":{}}}}`)
	}
}

func TestLargeStateOfAModernServer(t *testing.T) {
	large := strings.Replace(asksForm, `s\u0041`, strings.Repeat("s", 65<<10), 1)
	d := newDesk(t, legacyHandler(t, newScript(t, results("tools/call", large)), &translate.Options{Wrap: true}))
	equal(t, "answer", d.show("tools/call", deploy), "error -32603 state_too_large")
}

// A large token is allowed and counted (translation.md 7.2).
func TestLargeTokenIsCounted(t *testing.T) {
	for _, c := range []struct {
		size int
		want string
	}{{4 << 10, "map[]"}, {9 << 10, "map[large_request_state:1]"}} {
		o := translate.SuspendOptions{}
		reached := bounds(&o)
		state := strings.Replace(asksForm, `s\u0041`, strings.Repeat("s", c.size), 1)
		d := newDesk(t, legacyHandler(t, newScript(t, results("tools/call", state)), &translate.Options{Wrap: true, Suspend: o}))
		d.round("tools/call", deploy)
		equal(t, "counted", reached(), c.want)
	}
}

// What is no round passes as it is, without a copy.
func TestWrapLeavesTheRestAlone(t *testing.T) {
	result := []byte(`{"resultType":"complete","content":[{"type":"text","text":"` + strings.Repeat("x", 1<<10) + `"}]}`)
	up := newScript(t, results("tools/call", string(result)))
	d := newDesk(t, legacyHandler(t, up, &translate.Options{Wrap: true}))
	equal(t, "result", d.show("tools/call", deploy), string(result))
	equal(t, "params", up.params("tools/call")[0], string(d.with(deploy)))
}
