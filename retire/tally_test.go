package retire_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mcp-dualstack/bridge/retire"
)

func TestTally(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var tally retire.Tally
		call := func(n, failed int) {
			for i := range n {
				tally.Called(i < failed)
			}
		}
		call(1000, 1000) // too long ago to count
		time.Sleep(61 * time.Minute)
		call(30, 3)
		time.Sleep(30 * time.Minute)
		call(20, 1)
		w := retire.Window{ID: "a", From: time.Now(), Until: time.Now().Add(24 * time.Hour)}
		if diff := cmp.Diff(retire.Counters{BaseCalls: 50, BaseErrors: 4}, tally.Counters(w)); diff != "" {
			t.Errorf("at the beginning: -want +got\n%s", diff)
		}
		in := retire.Decision{Window: "a", Refuse: true}
		for _, id := range []string{"x", "y", "x", ""} {
			tally.Refused(in, id, false)
		}
		tally.Refused(retire.Decision{Refuse: true}, "z", true) // closed refuses, no window
		tally.Refused(in, "y", true)
		call(10, 2)
		time.Sleep(10 * time.Hour)
		call(10, 0)
		want := retire.Counters{Refused: 3, ExemptRefused: 1, Calls: 20, Errors: 2, BaseCalls: 50, BaseErrors: 4}
		if diff := cmp.Diff(want, tally.Counters(w)); diff != "" {
			t.Errorf("later: -want +got\n%s", diff)
		}
		w.ID = "b"
		if diff := cmp.Diff(retire.Counters{BaseCalls: 10}, tally.Counters(w)); diff != "" {
			t.Errorf("the next window: -want +got\n%s", diff)
		}
		for i := range 10_000 {
			tally.Refused(retire.Decision{Window: "b"}, fmt.Sprint(i), false)
		}
		if got := tally.Counters(w).Refused; got != 4096 {
			t.Errorf("a flood: got %d identities", got)
		}
	})
}

func BenchmarkTally(b *testing.B) {
	var tally retire.Tally
	d := retire.Decision{Window: "a"}
	b.ReportAllocs()
	for b.Loop() {
		tally.Called(false)
		tally.Refused(d, "10.0.0.0/24", false)
	}
}

// The keeper ends a window that does harm within seconds, says so, and leaves one alone that does not (retirement.md 6).
func TestKeeperGuards(t *testing.T) {
	tests := []struct {
		name string
		harm func(*retire.Tally, retire.Decision)
		why  string
	}{
		{"as expected", func(t *retire.Tally, d retire.Decision) { t.Refused(d, "a", false) }, ""},
		{"too many", func(t *retire.Tally, d retire.Decision) {
			for _, id := range []string{"a", "b", "c"} {
				t.Refused(d, id, false)
			}
		}, "3 clients were refused, more than the 2 expected"},
		{"an exempt one", func(t *retire.Tally, d retire.Decision) { t.Refused(d, "a", true) }, "1 requests of exempt clients were refused"},
		{"Streamable suffers", func(t *retire.Tally, d retire.Decision) {
			for i := range 50 {
				t.Called(i < 5)
			}
		}, "10.0 % of the Streamable HTTP calls fail, 0.0 % did before"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var tally retire.Tally
				var log bytes.Buffer
				k := openKeeper(t, "", &retire.Options{
					Count: tally.Counters, Guard: retire.Guard{MaxRefused: 2}, Logger: slog.New(slog.NewTextHandler(&log, nil)),
				})
				set(t, k, retire.Brownout)
				now := time.Now().UTC()
				plan(t, k, func(s *retire.State) {
					s.Brownouts = []retire.Window{{ID: "w", From: now.Add(time.Hour), Until: now.Add(3 * time.Hour), Mode: retire.ModeCalls}}
				})
				time.Sleep(30 * time.Minute)
				for range 50 {
					tally.Called(false)
				}
				time.Sleep(30*time.Minute + 7*time.Second)
				synctest.Wait()
				ask := retire.Ask{Point: retire.AtRequest, Now: time.Now()}
				d := k.State().Decide(ask)
				if !d.Refuse {
					t.Fatal("the window refuses nothing")
				}
				tt.harm(&tally, d)
				time.Sleep(6 * time.Second)
				synctest.Wait()
				ask.Now = time.Now()
				if got := k.State().Decide(ask).Refuse; got != (tt.why == "") {
					t.Errorf("refuses on: %t", got)
				}
				if got := k.State().Brownouts[0].Aborted; got != tt.why {
					t.Errorf("got %q, want %q", got, tt.why)
				}
				time.Sleep(24 * time.Hour)
				synctest.Wait()
				records, err := k.History()
				if n := strings.Count(log.String(), "event=retire.brownout.aborted"); err != nil || n != len(records)-2 || n > 1 {
					t.Errorf("aborted %d times: %d records, %v", n, len(records), err)
				}
				if last := records[len(records)-1]; tt.why != "" && (last.Origin != retire.FromGuard || last.Reason != tt.why) {
					t.Errorf("got %+v", last)
				}
			})
		})
	}
}
