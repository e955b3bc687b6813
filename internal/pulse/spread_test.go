package pulse_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-dualstack/bridge/internal/pulse"
)

func TestSpread(t *testing.T) {
	for _, c := range []struct {
		name   string
		n      int
		grace  time.Duration // of the context
		whole  time.Duration // how long it takes
		atOnce int           // the most that end in the same instant
	}{
		{"few", 16, time.Minute, 0, 16},
		{"many", 1000, time.Minute, 2 * time.Second, 5},
		{"very many", 100_000, time.Hour, 10 * time.Second, 101},
		{"little time", 1000, 2 * time.Second, time.Second, 10},
		{"no time", 1000, 0, 0, 1000},
		{"none", 0, time.Minute, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), c.grace)
				defer cancel()
				at := make(map[time.Time]int)
				ends := make([]func(), c.n)
				for i := range ends {
					ends[i] = func() { at[time.Now()]++ }
				}
				begun := time.Now()
				pulse.Spread(ctx, ends)
				sum, most := 0, 0
				for _, n := range at {
					sum, most = sum+n, max(most, n)
				}
				if took := time.Since(begun); took != c.whole || sum != c.n || most > c.atOnce {
					t.Errorf("%d ended in %v, at most %d at once; want %d in %v, at most %d", sum, took, most, c.n, c.whole, c.atOnce)
				}
			})
		})
	}
}

// When the time is over in the middle, the rest end at once.
func TestSpreadIsCutShort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		n := 0
		ends := make([]func(), 1000)
		for i := range ends {
			ends[i] = func() { n++ }
		}
		begun := time.Now()
		pulse.Spread(ctx, ends)
		if took := time.Since(begun); took != time.Second || n != 1000 {
			t.Errorf("%d ended in %v, want 1000 in 1s", n, took)
		}
	})
}
