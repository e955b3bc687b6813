package retire

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

const day = 24 * time.Hour

// Times of a plan, before the sunset if not said otherwise.
const (
	planWarn     = 14 * day // after the announcement
	planBrownout = 28 * day
	planClosed   = 7 * day
	planDrain    = 1 * day // live sessions have a day to go; nobody can begin one since planClosed
)

// MinPlan is the shortest time that a plan needs: from the announcement to the warning, and from the first brownout to the end.
const MinPlan = planWarn + planBrownout

// planned are the brownouts of a plan: over the last four weeks, each longer than the one before and at another time of day (UTC),
// so that a client that runs once a day or once a week meets one of them.
var planned = []struct {
	before time.Duration // midnight, UTC, this long before the day of the sunset
	at     time.Duration // after midnight
	length time.Duration
	mode   Mode
}{
	{27 * day, 10 * time.Hour, 1 * time.Hour, ModeInitialize},
	{21 * day, 15 * time.Hour, 3 * time.Hour, ModeCalls},
	{15 * day, 20 * time.Hour, 12 * time.Hour, ModeCalls},
	{9 * day, 6 * time.Hour, 24 * time.Hour, ModeCalls},
}

// Plan proposes how the routes go until the sunset (retirement.md 6): announced at once, warned about two weeks later, brownouts of 1, 3, 12
// and 24 hours over the last four weeks, closed one week before the sunset, drained one day before, gone at the sunset. What s is
// past already is left out; exemptions stay, and brownouts that are not over are replaced. Version is that of s.
//
// The stage of the proposal is announce where s is open: the rest is its schedule, whose steps past warn stop at a failed check.
func (s *State) Plan(now, sunset time.Time) (*State, error) {
	now, sunset = now.UTC(), sunset.UTC().Truncate(time.Second)
	if s.Stage == Gone {
		return nil, errors.New("the routes are gone; go back to a stage before to plan again")
	}
	if earliest := now.Add(s.needs()); sunset.Before(earliest) {
		return nil, fmt.Errorf("the sunset %s leaves too little time from stage %s; the earliest is %s", shown(sunset), s.Stage, shown(earliest.Add(time.Minute).Truncate(time.Minute)))
	}
	p := s.clone()
	p.Sunset, p.Schedule = sunset, nil
	if p.Stage == Open {
		p.Stage = Announce
	}
	for _, step := range []Step{
		{Stage: Warn, At: now.Add(planWarn).Truncate(time.Minute)},
		{Stage: Brownout, At: sunset.Add(-planBrownout)},
		{Stage: Closed, At: sunset.Add(-planClosed)},
		{Stage: Drain, At: sunset.Add(-planDrain)},
		{Stage: Gone, At: sunset},
	} {
		if step.Stage.After(p.Stage) {
			p.Schedule = append(p.Schedule, step)
		}
	}
	p.Brownouts = slices.DeleteFunc(p.Brownouts, func(w Window) bool { return w.Until.After(now) })
	if Closed.After(p.Stage) {
		p.addBrownouts(now, sunset)
	}
	return p, p.Check()
}

// needs returns how long before the sunset a plan must be made at the stage of s.
func (s *State) needs() time.Duration {
	switch s.Stage {
	case Open, Announce:
		return MinPlan
	case Warn:
		return planBrownout
	case Brownout:
		return planClosed
	case Closed:
		return planDrain
	}
	return 0
}

func (s *State) addBrownouts(now, sunset time.Time) {
	midnight := sunset.Truncate(day)
	for _, b := range planned {
		from := midnight.Add(b.at - b.before)
		if from.Before(now) {
			continue
		}
		id := fmt.Sprintf("%s-%s", from.Format(time.DateOnly), shortly(b.length))
		if slices.ContainsFunc(s.Brownouts, func(w Window) bool { return w.ID == id }) {
			continue // it was aborted today, and is not tried again
		}
		s.Brownouts = append(s.Brownouts, Window{ID: id, From: from, Until: from.Add(b.length), Mode: b.mode})
	}
}

func shortly(d time.Duration) string { return fmt.Sprintf("%dh", int(d.Hours())) }
