package retire

import (
	"context"
	"errors"
	"strings"
	"time"
	"unicode"
)

// maxNap bounds the wait for a step or a window, since the clock of a machine may be set.
const maxNap = time.Minute

// keepTime takes the steps of the schedule when they are due, and logs when windows begin and end, until ctx ends.
func (k *Keeper) keepTime(ctx context.Context) {
	var open *Window
	for {
		now := time.Now()
		open = k.logWindow(open, now)
		nap := k.takeStep(ctx, now)
		if b := k.State().boundary(now); !b.IsZero() {
			nap = earlier(nap, b.Sub(now))
		}
		var due <-chan time.Time
		if nap > 0 {
			due = time.After(min(nap, maxNap))
		}
		select {
		case <-due: // never, if nothing is to come
		case <-k.recheck:
		case <-ctx.Done():
			return
		}
	}
}

// earlier returns the shorter of two waits, of which zero means for ever.
func earlier(a, b time.Duration) time.Duration {
	if a == 0 {
		return b
	}
	return min(a, b)
}

// takeStep takes the next step if it is due, and returns how long to wait before it must be called again; zero: until the state changes.
func (k *Keeper) takeStep(ctx context.Context, now time.Time) time.Duration {
	s := k.State()
	if len(s.Schedule) == 0 || s.Schedule[0].Held != "" {
		return 0
	}
	step := s.Schedule[0]
	if wait := step.At.Sub(now); wait > 0 {
		return wait
	}
	c := Change{Version: s.Version, State: *s, Actor: "schedule", Origin: FromSchedule, Reason: "scheduled for " + shown(step.At)}
	c.State.Stage = step.Stage
	_, err := k.Set(ctx, c)
	if errors.Is(err, ErrNotReady) || errors.Is(err, ErrInvalid) {
		err = k.hold(ctx, c, err)
	}
	switch {
	case err == nil, errors.Is(err, ErrStale):
		return time.Millisecond // the next one may be due too
	case ctx.Err() == nil:
		k.o.Logger.Error("a scheduled step cannot be taken; it is tried again", "stage", step.Stage, "err", err)
	}
	return k.o.Poll
}

// hold stops the schedule at its next step, and says why.
func (k *Keeper) hold(ctx context.Context, c Change, why error) error {
	step := c.State.Schedule[0]
	text := plain(why.Error())
	k.o.Logger.Error("a scheduled step is held; change the schedule or set the stage", "event", "retire.step.held", "stage", step.Stage, "err", why)
	_, err := k.commit(ctx, func(t *transaction) (*State, *Record, error) {
		if err := c.stale(t.current); err != nil {
			return nil, nil, err
		}
		s := t.current.clone()
		s.Schedule[0].Held = text
		return s, &Record{Time: moment(), Actor: c.Actor, Origin: c.Origin, Reason: c.Reason, Digest: digestOf(why), Note: "held: " + text}, nil
	})
	return err
}

// plain cuts a text to what a document may hold.
func plain(s string) string {
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.Is(unicode.Cf, r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "?"))
	if len(s) > MaxTextBytes {
		s = strings.ToValidUTF8(s[:MaxTextBytes], "")
	}
	return s
}

// logWindow logs that a window begins or ends, and returns the one that is open.
func (k *Keeper) logWindow(open *Window, now time.Time) *Window {
	w := k.State().Active(now)
	if open != nil && (w == nil || w.ID != open.ID) {
		k.o.Logger.Info("brownout ends", "event", "retire.brownout.end", "window", open.ID)
	}
	if w != nil && (open == nil || w.ID != open.ID) {
		k.o.Logger.Warn("brownout begins", "event", "retire.brownout.start", "window", w.ID, "mode", w.Mode, "until", w.Until)
	}
	return w
}
