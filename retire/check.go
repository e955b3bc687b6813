package retire

import (
	"errors"
	"fmt"
	"time"
	"unicode"
	"unicode/utf8"
)

// Bounds of a state document.
const (
	MaxBrownouts  = 64
	MaxExemptions = 1024
	MaxSteps      = 16
	MaxTextBytes  = 1024    // of each reason, owner and identity
	maxIDBytes    = 64      // of the ID of a window, which is in metrics and logs
	maxVersion    = 1 << 53 // which every reader of JSON has
)

// Check reports everything that is wrong with the document, joined.
func (s *State) Check() error {
	c := &checker{}
	switch {
	case s.Version < 0:
		c.wrong("version: %d is negative", s.Version)
	case s.Version > maxVersion:
		c.wrong("version: %d leaves no room for the next ones; write %d at most", s.Version, int64(maxVersion))
	}
	if _, err := ParseStage(string(s.Stage)); err != nil {
		c.wrong("stage: %w", err)
	}
	c.time("since", s.Since)
	c.time("sunset", s.Sunset)
	c.time("deprecation", s.Deprecation)
	if !s.Sunset.IsZero() && !s.Deprecation.IsZero() && s.Sunset.Before(s.Deprecation) {
		c.wrong("sunset: %s is earlier than the deprecation, %s (RFC 9745, section 4)", shown(s.Sunset), shown(s.Deprecation))
	}
	c.text("by", s.By)
	c.text("reason", s.Reason)
	c.brownouts(s.Brownouts)
	c.exemptions(s.Exemptions)
	c.schedule(s.Stage, s.Schedule)
	return errors.Join(c.problems...)
}

func shown(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// A checker gathers problems. The first word of each is where in the document it is.
type checker struct{ problems []error }

func (c *checker) wrong(format string, args ...any) {
	c.problems = append(c.problems, fmt.Errorf(format, args...))
}

// time refuses what cannot be written as RFC 3339 or stands for a mistake: the headers carry seconds since 1970.
func (c *checker) time(where string, t time.Time) {
	if !t.IsZero() && (t.UTC().Year() < 1970 || t.UTC().Year() > 9998) {
		c.wrong("%s: the year %d is not between 1970 and 9998", where, t.UTC().Year())
	}
}

// text refuses what would not show in a terminal as it is.
func (c *checker) text(where, s string) {
	switch {
	case len(s) > MaxTextBytes:
		c.wrong("%s: %d bytes, and at most %d are kept", where, len(s), MaxTextBytes)
	case !utf8.ValidString(s):
		c.wrong("%s: is not valid UTF-8", where)
	default:
		for _, r := range s {
			if unicode.IsControl(r) || unicode.Is(unicode.Cf, r) {
				c.wrong("%s: has the control character %U", where, r)
				return
			}
		}
	}
}

func (c *checker) brownouts(windows []Window) {
	if len(windows) > MaxBrownouts {
		c.wrong("brownouts: there are %d, and at most %d are kept", len(windows), MaxBrownouts)
	}
	ids := make(map[string]bool, len(windows))
	for i := range windows {
		w := &windows[i]
		where := fmt.Sprintf("brownouts[%d]", i)
		switch {
		case w.ID == "" || len(w.ID) > maxIDBytes:
			c.wrong("%s: the id has %d bytes, not 1 to %d", where, len(w.ID), maxIDBytes)
		case ids[w.ID]:
			c.wrong("%s: the id %q is there twice", where, w.ID)
		}
		ids[w.ID] = true
		c.text(where+" id", w.ID)
		c.text(where+" aborted", w.Aborted)
		c.time(where, w.From)
		c.time(where, w.Until)
		if w.From.IsZero() || !w.From.Before(w.Until) {
			c.wrong("%s: from %s until %s is no time", where, shown(w.From), shown(w.Until))
		}
		if !w.Mode.known() {
			c.wrong("%s: mode %q is none of initialize, calls, hard", where, w.Mode)
		}
		if w.Percent < 0 || w.Percent > 100 {
			c.wrong("%s: %d percent is not 1 to 100, or 0 for all", where, w.Percent)
		}
		if i > 0 && w.From.Before(windows[i-1].Until) {
			c.wrong("%s: begins before the one in front of it ends; windows are in order and do not overlap", where)
		}
	}
}

func (c *checker) exemptions(list []Exemption) {
	if len(list) > MaxExemptions {
		c.wrong("exemptions: there are %d, and at most %d are kept", len(list), MaxExemptions)
	}
	ids := make(map[string]bool, len(list))
	for i := range list {
		e := &list[i]
		where := fmt.Sprintf("exemptions[%d]", i)
		switch {
		case e.ID == "":
			c.wrong("%s: names no identity", where)
		case ids[e.ID]:
			c.wrong("%s: the identity %q is there twice", where, e.ID)
		}
		ids[e.ID] = true
		c.text(where+" id", e.ID)
		c.text(where+" owner", e.Owner)
		c.text(where+" reason", e.Reason)
		c.time(where, e.Until)
	}
}

func (c *checker) schedule(stage Stage, steps []Step) {
	if len(steps) > MaxSteps {
		c.wrong("schedule: has %d steps, and at most %d are kept", len(steps), MaxSteps)
	}
	if len(steps) > 0 && !steps[0].Stage.After(stage) {
		c.wrong("schedule[0]: %s does not come after the present stage, %s", steps[0].Stage, stage)
	}
	for i, st := range steps {
		where := fmt.Sprintf("schedule[%d]", i)
		if _, err := ParseStage(string(st.Stage)); err != nil {
			c.wrong("%s: %w", where, err)
		}
		if st.At.IsZero() {
			c.wrong("%s: has no time", where)
		}
		c.time(where, st.At)
		c.text(where+" held", st.Held)
		if i > 0 && (!st.Stage.After(steps[i-1].Stage) || st.At.Before(steps[i-1].At)) {
			c.wrong("%s: %s at %s does not come after %s at %s", where, st.Stage, shown(st.At), steps[i-1].Stage, shown(steps[i-1].At))
		}
	}
}
