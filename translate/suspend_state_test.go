package translate_test

import (
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
	"github.com/mcp-dualstack/bridge/translate"
)

// The log says which check a requestState failed; the answer never does.
func TestLogSaysWhichCheckFailed(t *testing.T) {
	for _, tc := range []struct {
		name, check string
		try         func(d *desk, r round) (exchange.Response, error)
	}{
		{"forged", "not sealed by any of the keys", func(d *desk, r round) (exchange.Response, error) {
			r.state = `"b1.` + strings.Repeat("A", 100) + `"`
			return d.ask(d.t.Context(), "tools/call", r.retry(deploy, ""))
		}},
		{"altered", "not sealed by any of the keys", func(d *desk, r round) (exchange.Response, error) {
			r.state = r.state[:len(r.state)-5] + "AAAA" + `"`
			return d.ask(d.t.Context(), "tools/call", r.retry(deploy, ""))
		}},
		{"principal", "another principal", func(d *desk, r round) (exchange.Response, error) {
			d.principal = "eve"
			return d.ask(d.t.Context(), "tools/call", r.retry(deploy, ""))
		}},
		{"method", "another method", func(d *desk, r round) (exchange.Response, error) {
			return d.ask(d.t.Context(), "prompts/get", r.retry(deploy, ""))
		}},
		{"argument", "other params", func(d *desk, r round) (exchange.Response, error) {
			return d.ask(d.t.Context(), "tools/call", r.retry(`{"name":"deploy","arguments":{"n":26}}`, ""))
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log strings.Builder
				o := &translate.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))}
				d := newDesk(t, legacyHandler(t, newLegacy(t, asksFor("one")), o))
				resp, err := tc.try(d, d.round("tools/call", deploy))
				if err != nil || resp.Error == nil {
					t.Fatalf("got %s", shown(resp, err))
				}
				equal(t, "answer", string(jsonrpc.AppendError(nil, []byte("1"), resp.Error)), `{"jsonrpc":"2.0","id":1,"error":{"code":-32602,`+
					`"message":"Invalid params: the requestState is not valid for this request; send the request without it","data":{"bridge":{"reason":"state_invalid"}}}}`)
				if !strings.Contains(log.String(), tc.check) || strings.Contains(log.String(), "b1.") {
					t.Errorf("log: %s", log.String())
				}
			})
		})
	}
}

func TestOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up := newLegacy(t, asksFor("one"))
		h := legacyHandler(t, up, &translate.Options{Suspend: translate.SuspendOptions{Owner: "replica-7", Secrets: secrets}})
		d := newDesk(t, h)
		retry := d.round("tools/call", deploy).retry(deploy, "")
		other := legacyHandler(t, up, &translate.Options{Suspend: translate.SuspendOptions{Owner: "replica-8", Secrets: secrets}})
		owner, ok := translate.Owner(other, []byte(retry))
		equal(t, "owner", owner, "replica-7")
		equal(t, "ok", ok, true)
		for _, params := range []string{deploy, `{"requestState":"b1.AAAA"}`, `{"requestState":7}`} {
			if owner, ok := translate.Owner(other, []byte(params)); ok {
				t.Errorf("%s has the owner %s", params, owner)
			}
		}
		if _, ok := translate.Owner(up, []byte(retry)); ok {
			t.Error("a handler of another package has owners")
		}
	})
}
