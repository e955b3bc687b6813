package telemetry_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-dualstack/bridge/telemetry"
)

// Who was last seen before the retention is forgotten, and nobody earlier.
func TestRetention(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := openLedger(t, "", &telemetry.Options{Retention: 60 * telemetry.Day})
		converse(t, l.Handler(&server{}), legacyClient("old"), 1)
		known := func() (identities, rows int) {
			converse(t, l.Handler(&server{}), modernClient(), 1) // a flush prunes
			r := report(t, l)
			return len(r.Identities) - 1, len(r.Clients) - 1
		}
		time.Sleep(59 * day)
		if i, c := known(); i != 1 || c != 1 {
			t.Errorf("after 59 days: got %d identities and %d rows, want both", i, c)
		}
		time.Sleep(2 * day)
		known()
		if i, c := known(); i != 0 || c != 0 {
			t.Errorf("after 61 days: got %d identities and %d rows, want none", i, c)
		}
		closeLedger(t, l)
	})
}

func TestRetentionHasLimits(t *testing.T) {
	for period, ok := range map[telemetry.Period]bool{0: true, 29 * telemetry.Day: false, 30 * telemetry.Day: true, 400 * telemetry.Day: true, 401 * telemetry.Day: false, -1: false} {
		if err := (&telemetry.Options{Retention: period}).Check(); (err == nil) != ok || err != nil && !strings.Contains(err.Error(), "Retention") {
			t.Errorf("%v: got %v", period, err)
		}
	}
}
