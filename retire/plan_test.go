package retire_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mcp-dualstack/bridge/retire"
)

func date(text string) time.Time {
	at, err := time.Parse("2006-01-02 15:04", text)
	if err != nil {
		panic(err)
	}
	return at
}

// The whole plan, as retirement.md 6 proposes it, and drain one day before the end.
func TestPlan(t *testing.T) {
	s := &retire.State{Version: 4, Stage: retire.Open, Exemptions: []retire.Exemption{{ID: "a"}}}
	got, err := s.Plan(date("2026-12-01 12:30"), date("2027-03-01 09:00"))
	if err != nil {
		t.Fatal(err)
	}
	want := &retire.State{
		Version: 4, Stage: retire.Announce, Sunset: date("2027-03-01 09:00"), Exemptions: s.Exemptions,
		Brownouts: []retire.Window{
			{ID: "2027-02-02-1h", From: date("2027-02-02 10:00"), Until: date("2027-02-02 11:00"), Mode: retire.ModeInitialize},
			{ID: "2027-02-08-3h", From: date("2027-02-08 15:00"), Until: date("2027-02-08 18:00"), Mode: retire.ModeCalls},
			{ID: "2027-02-14-12h", From: date("2027-02-14 20:00"), Until: date("2027-02-15 08:00"), Mode: retire.ModeCalls},
			{ID: "2027-02-20-24h", From: date("2027-02-20 06:00"), Until: date("2027-02-21 06:00"), Mode: retire.ModeCalls},
		},
		Schedule: []retire.Step{
			{Stage: retire.Warn, At: date("2026-12-15 12:30")},
			{Stage: retire.Brownout, At: date("2027-02-01 09:00")},
			{Stage: retire.Closed, At: date("2027-02-22 09:00")},
			{Stage: retire.Drain, At: date("2027-02-28 09:00")},
			{Stage: retire.Gone, At: date("2027-03-01 09:00")},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if s.Stage != retire.Open || s.Brownouts != nil {
		t.Errorf("the state that was planned from became %+v", s)
	}
}

// A plan begins where the routes are, and needs as much time as is left to do.
func TestPlanFrom(t *testing.T) {
	now := date("2026-12-01 12:00")
	tests := []struct {
		stage retire.Stage
		days  float64 // that are needed
		first retire.Stage
		steps int
		rest  int // brownouts, with one day more than needed
	}{
		{retire.Open, 42, retire.Announce, 5, 4},
		{retire.Announce, 42, retire.Announce, 5, 4},
		{retire.Warn, 28, retire.Warn, 4, 4},
		{retire.Brownout, 7, retire.Brownout, 3, 0},
		{retire.Closed, 1, retire.Closed, 2, 0},
		{retire.Drain, 0, retire.Drain, 1, 0},
	}
	for _, tt := range tests {
		t.Run(string(tt.stage), func(t *testing.T) {
			s := &retire.State{Stage: tt.stage, Since: now}
			needed := now.Add(time.Duration(tt.days * 24 * float64(time.Hour)))
			if _, err := s.Plan(now, needed.Add(-time.Second)); err == nil || !strings.Contains(err.Error(), "leaves too little time from stage "+string(tt.stage)) {
				t.Errorf("a second too early: got %v", err)
			}
			for _, sunset := range []time.Time{needed, needed.Add(24 * time.Hour)} {
				p, err := s.Plan(now, sunset)
				if err != nil {
					t.Fatal(err)
				}
				if p.Stage != tt.first || len(p.Schedule) != tt.steps || len(p.Brownouts) != tt.rest {
					t.Errorf("got %+v", p)
				}
				if last := p.Schedule[len(p.Schedule)-1]; last.Stage != retire.Gone || !last.At.Equal(sunset) {
					t.Errorf("got the last step %v", last)
				}
				for _, w := range p.Brownouts {
					if w.From.Before(sunset.AddDate(0, 0, -28)) || w.Until.After(sunset.AddDate(0, 0, -7)) {
						t.Errorf("the window %v is not between brownout and closed", w)
					}
				}
			}
		})
	}
	gone := &retire.State{Stage: retire.Gone}
	if _, err := gone.Plan(now, now.AddDate(1, 0, 0)); err == nil {
		t.Error("a plan was made from gone")
	}
}

// Whatever hour of the day the sunset has, the windows lie between brownout and closed, and another plan replaces them.
func TestPlanAtEveryHour(t *testing.T) {
	now := date("2026-12-01 12:00")
	s := &retire.State{Stage: retire.Warn, Since: now, Brownouts: []retire.Window{
		{ID: "past", From: now.Add(-2 * time.Hour), Until: now.Add(-time.Hour), Mode: retire.ModeHard},
		{ID: "to come", From: now.Add(time.Hour), Until: now.Add(2 * time.Hour), Mode: retire.ModeHard},
	}}
	for minutes := 0; minutes < 24*60; minutes += 7 {
		sunset := date("2027-03-01 00:00").Add(time.Duration(minutes) * time.Minute)
		p, err := s.Plan(now, sunset)
		if err != nil {
			t.Fatal(err)
		}
		if len(p.Brownouts) != 5 || p.Brownouts[0].ID != "past" {
			t.Fatalf("%s: got %v", sunset, p.Brownouts)
		}
		for _, w := range p.Brownouts[1:] {
			if w.From.Before(sunset.AddDate(0, 0, -28)) || w.Until.After(sunset.AddDate(0, 0, -7)) {
				t.Errorf("%s: the window %v is not between brownout and closed", sunset, w)
			}
		}
		again, err := p.Plan(now.Add(time.Hour), sunset)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(p.Brownouts, again.Brownouts); diff != "" {
			t.Errorf("planned again: -first +second\n%s", diff)
		}
	}
}

func TestGuard(t *testing.T) {
	tests := []struct {
		name  string
		guard retire.Guard
		c     retire.Counters
		want  string
	}{
		{"nothing", retire.Guard{}, retire.Counters{}, ""},
		{"as many as expected", retire.Guard{}, retire.Counters{Refused: 25}, ""},
		{"one more", retire.Guard{}, retire.Counters{Refused: 26}, "26 clients were refused, more than the 25 expected"},
		{"a limit", retire.Guard{MaxRefused: 3}, retire.Counters{Refused: 4}, "4 clients were refused, more than the 3 expected"},
		{"no limit", retire.Guard{MaxRefused: -1}, retire.Counters{Refused: 1e6}, ""},
		{"an exempt one", retire.Guard{MaxRefused: -1}, retire.Counters{ExemptRefused: 1}, "1 requests of exempt clients were refused"},
		{"the usual errors", retire.Guard{}, retire.Counters{Calls: 1000, Errors: 50, BaseCalls: 1000, BaseErrors: 40}, ""},
		{"just at the limit", retire.Guard{}, retire.Counters{Calls: 1000, Errors: 100, BaseCalls: 1000, BaseErrors: 40}, ""},
		{"twice as many and more", retire.Guard{}, retire.Counters{Calls: 1000, Errors: 101, BaseCalls: 1000, BaseErrors: 40}, "10.1 % of the Streamable HTTP calls fail, 4.0 % did before"},
		{"too few calls to say", retire.Guard{}, retire.Counters{Calls: 49, Errors: 49}, ""},
		{"no errors before", retire.Guard{}, retire.Counters{Calls: 50, Errors: 5, BaseCalls: 50}, "10.0 % of the Streamable HTTP calls fail, 0.0 % did before"},
		{"too few before to say", retire.Guard{}, retire.Counters{Calls: 50, Errors: 50, BaseCalls: 49}, ""},
		{"one error of few", retire.Guard{}, retire.Counters{Calls: 50, Errors: 1, BaseCalls: 50}, ""},
		{"errors do not count", retire.Guard{ErrorRise: -1}, retire.Counters{Calls: 50, Errors: 50, BaseCalls: 50}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.guard.Check(tt.c); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}
