package telemetry_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-dualstack/bridge/exchange"
)

// What is counted after the flush that took the use has its day too: errors of calls that take their time.
func TestDaysOfSlowCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := openLedger(t, "", nil)
		slow := &server{call: func(context.Context) (exchange.Response, error) {
			time.Sleep(20 * time.Second)
			return exchange.Response{Error: &exchange.Error{Code: -32000}}, nil
		}}
		sess, err := l.Handler(slow).Open(t.Context(), legacyClient("a"))
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			if _, err := sess.Call(t.Context(), exchange.Request{Method: "tools/call"}, nil); err != nil {
				t.Fatal(err)
			}
			time.Sleep(20 * time.Second)
		}
		days, err := l.Days(2)
		if err != nil || len(days) != 1 || days[0].Errors != 3 || days[0].Calls != 3 {
			t.Errorf("got %+v, %v; want 3 calls and 3 errors", days, err)
		}
		_ = sess.Close()
		closeLedger(t, l)
	})
}
