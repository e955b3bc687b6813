package retire_test

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/mcp-dualstack/bridge/retire"
)

func TestCheck(t *testing.T) {
	good := func() retire.State {
		return retire.State{
			Version: 3, Stage: retire.Warn, Since: noon, By: "ann", Reason: "über alles", Sunset: sunset, Deprecation: noon,
			Brownouts:  []retire.Window{{ID: "a", From: noon, Until: later, Mode: retire.ModeCalls, Percent: 100}, {ID: "b", From: later, Until: later.Add(1), Mode: retire.ModeHard}},
			Exemptions: []retire.Exemption{{ID: "sub:a"}},
			Schedule:   []retire.Step{{Stage: retire.Closed, At: later}, {Stage: retire.Gone, At: later}},
		}
	}
	s := good()
	if err := s.Check(); err != nil {
		t.Fatalf("a good document: %v", err)
	}
	many := func(n int) (list []retire.Window) {
		for i := range n {
			from := noon.Add(time.Duration(i) * time.Hour)
			list = append(list, retire.Window{ID: fmt.Sprint(i), From: from, Until: from.Add(time.Hour), Mode: retire.ModeCalls})
		}
		return list
	}
	tests := []struct {
		name string
		edit func(*retire.State)
		want string // empty: nothing is wrong
	}{
		{"version", func(s *retire.State) { s.Version = -1 }, "version: -1 is negative"},
		{"version without a next", func(s *retire.State) { s.Version = math.MaxInt64 }, "version: 9223372036854775807 leaves no room"},
		{"stage", func(s *retire.State) { s.Stage = "" }, `stage: "" is no stage`},
		{"sunset at the deprecation", func(s *retire.State) { s.Sunset = s.Deprecation }, ""},
		{"sunset a second before", func(s *retire.State) { s.Sunset = s.Deprecation.Add(-time.Second) }, "sunset: 2026-12-01T11:59:59Z is earlier than the deprecation, 2026-12-01T12:00:00Z (RFC 9745, section 4)"},
		{"sunset alone", func(s *retire.State) { s.Deprecation = time.Time{} }, ""},
		{"a year that cannot be written", func(s *retire.State) { s.Sunset = noon.AddDate(9000, 0, 0) }, "sunset: the year 11026"},
		{"a year that was not meant", func(s *retire.State) { s.Deprecation = noon.AddDate(-1000, 0, 0) }, "deprecation: the year 1026"},
		{"a long reason", func(s *retire.State) { s.Reason = strings.Repeat("a", retire.MaxTextBytes) }, ""},
		{"too long a reason", func(s *retire.State) { s.Reason = strings.Repeat("a", retire.MaxTextBytes+1) }, "reason: 1025 bytes, and at most 1024 are kept"},
		{"a reason that is no text", func(s *retire.State) { s.Reason = "\xff" }, "reason: is not valid UTF-8"},
		{"a reason that turns the line", func(s *retire.State) { s.Reason = "a\u202eb" }, "reason: has the control character U+202E"},
		{"window without an id", func(s *retire.State) { s.Brownouts[1].ID = "" }, "brownouts[1]: the id has 0 bytes"},
		{"window with a long id", func(s *retire.State) { s.Brownouts[1].ID = strings.Repeat("a", 65) }, "brownouts[1]: the id has 65 bytes, not 1 to 64"},
		{"window twice", func(s *retire.State) { s.Brownouts[1].ID = "a" }, `brownouts[1]: the id "a" is there twice`},
		{"window of no length", func(s *retire.State) { s.Brownouts[1].Until = later }, "brownouts[1]: from 2026-12-01T13:00:00Z until 2026-12-01T13:00:00Z is no time"},
		{"window without a beginning", func(s *retire.State) { s.Brownouts[0].From = time.Time{} }, "brownouts[0]: from "},
		{"window of no mode", func(s *retire.State) { s.Brownouts[0].Mode = "" }, `brownouts[0]: mode "" is none of`},
		{"percent", func(s *retire.State) { s.Brownouts[0].Percent = 101 }, "brownouts[0]: 101 percent"},
		{"negative percent", func(s *retire.State) { s.Brownouts[0].Percent = -1 }, "brownouts[0]: -1 percent"},
		{"overlap", func(s *retire.State) { s.Brownouts[1].From = later.Add(-1) }, "brownouts[1]: begins before the one in front of it ends"},
		{"many windows", func(s *retire.State) { s.Brownouts = many(retire.MaxBrownouts) }, ""},
		{"too many windows", func(s *retire.State) { s.Brownouts = many(retire.MaxBrownouts + 1) }, "brownouts: there are 65, and at most 64 are kept"},
		{"exemption of nobody", func(s *retire.State) { s.Exemptions[0].ID = "" }, "exemptions[0]: names no identity"},
		{"exemption twice", func(s *retire.State) { s.Exemptions = append(s.Exemptions, s.Exemptions[0]) }, `exemptions[1]: the identity "sub:a" is there twice`},
		{"too many exemptions", func(s *retire.State) {
			for i := range retire.MaxExemptions {
				s.Exemptions = append(s.Exemptions, retire.Exemption{ID: fmt.Sprint(i)})
			}
		}, "exemptions: there are 1025, and at most 1024 are kept"},
		{"step back", func(s *retire.State) { s.Schedule[0].Stage = retire.Warn }, "schedule[0]: warn does not come after the present stage, warn"},
		{"steps out of order", func(s *retire.State) { s.Schedule[1].Stage = retire.Closed }, "schedule[1]: closed at 2026-12-01T13:00:00Z does not come after closed"},
		{"times out of order", func(s *retire.State) { s.Schedule[1].At = noon }, "schedule[1]: gone at 2026-12-01T12:00:00Z does not come after closed"},
		{"step without a time", func(s *retire.State) { s.Schedule[0].At = time.Time{} }, "schedule[0]: has no time"},
		{"step to nowhere", func(s *retire.State) { s.Schedule[1].Stage = "end" }, `schedule[1]: "end" is no stage`},
		{"too many steps", func(s *retire.State) {
			for range retire.MaxSteps {
				s.Schedule = append(s.Schedule, retire.Step{Stage: retire.Gone, At: later})
			}
		}, "schedule: has 18 steps, and at most 16 are kept"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := good()
			tt.edit(&s)
			err := s.Check()
			if got := fmt.Sprint(err); (err == nil) != (tt.want == "") || !strings.Contains(got, tt.want) {
				t.Errorf("got %v, want %q in it", err, tt.want)
			}
		})
	}
}

// Every problem is reported at once.
func TestCheckAll(t *testing.T) {
	s := retire.State{Version: -1, Stage: "x", Reason: "\n", Brownouts: []retire.Window{{}}, Exemptions: []retire.Exemption{{}}, Schedule: []retire.Step{{}}}
	text := s.Check().Error()
	for _, part := range []string{"version:", "stage:", "reason:", "brownouts[0]:", "exemptions[0]:", "schedule[0]:"} {
		if !strings.Contains(text, part) {
			t.Errorf("nothing about %s in %s", part, text)
		}
	}
}
