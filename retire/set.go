package retire

import (
	"context"
	"fmt"
	"time"
)

// Set makes a change. The errors are ErrStale, ErrNotReady, ErrNoReason, ErrInvalid, ErrLocked, ErrClosed, that of ctx, and those of the files.
// The state that it returns is in force.
func (k *Keeper) Set(ctx context.Context, c Change) (*State, error) {
	current, err := k.basis(ctx, &c)
	if err != nil {
		return nil, err
	}
	if _, err := ParseStage(string(c.State.Stage)); err != nil {
		return nil, invalid(err)
	}
	forced, err := k.check(ctx, current, &c)
	if err != nil {
		return nil, err
	}
	return k.commit(ctx, func(t *transaction) (*State, *Record, error) {
		if err := c.stale(t.current); err != nil {
			return nil, nil, err
		}
		now := moment()
		s, note := c.next(t.current, now)
		return s, &Record{
			Time: now, Actor: c.Actor, Origin: c.Origin, Remote: c.Remote, Reason: c.Reason, Forced: forced, Digest: c.Digest, Note: note,
		}, nil
	})
}

// Undo takes the last change back that still stands: the document before it is in force again, under a new version. Done
// again it goes back further. Of c only Version, Actor, Origin, Remote, Reason, Force and Digest count, and where the way back leads to a
// later stage the readiness check is made as in Set. The errors are those of Set, and ErrNothingToUndo.
func (k *Keeper) Undo(ctx context.Context, c Change) (*State, error) {
	current, err := k.basis(ctx, &c)
	if err != nil {
		return nil, err
	}
	records, err := k.History() // a change after basis makes c stale
	if err != nil {
		return nil, err
	}
	last, before, err := Undoable(records)
	if err != nil {
		return nil, err
	}
	c.State = back(before, moment())
	forced, err := k.check(ctx, current, &c)
	if err != nil {
		return nil, err
	}
	return k.commit(ctx, func(t *transaction) (*State, *Record, error) {
		if err := c.stale(t.current); err != nil {
			return nil, nil, err
		}
		now := moment()
		s := back(before, now)
		s.By, s.Reason = c.Actor, c.Reason
		return &s, &Record{
			Time: now, Actor: c.Actor, Origin: c.Origin, Remote: c.Remote, Reason: c.Reason, Forced: forced, Digest: c.Digest,
			Undoes: last.Version, Note: moved(t.current, &s),
		}, nil
	})
}

// basis returns the current document, if c may be made of it. The readiness check may take long, so it follows before the turn, and a
// state that changes meanwhile makes the change stale.
func (k *Keeper) basis(ctx context.Context, c *Change) (*State, error) {
	if c.Force && c.Reason == "" {
		return nil, ErrNoReason
	}
	current, err := k.refresh(ctx)
	if err == nil {
		err = c.stale(current)
	}
	return current, err
}

// Abort ends a brownout window early, for a reason that goes into the document and the log. An unknown window, and one that is
// over or aborted, is left alone.
func (k *Keeper) Abort(ctx context.Context, window string, c Change) (*State, error) {
	aborted := false
	s, err := k.commit(ctx, func(t *transaction) (*State, *Record, error) {
		now := moment()
		s := t.current.clone()
		w := s.Active(now)
		if w == nil || w.ID != window {
			return nil, nil, nil
		}
		aborted = true
		w.Aborted, s.By, s.Reason = c.Reason, c.Actor, c.Reason
		return s, &Record{
			Time: now, Actor: c.Actor, Origin: c.Origin, Remote: c.Remote, Reason: c.Reason, Digest: c.Digest, Note: "brownout " + window + " aborted",
		}, nil
	})
	if err == nil && aborted {
		k.o.Logger.Error("brownout aborted", "event", "retire.brownout.aborted", "window", window, "by", c.Actor, "reason", c.Reason)
	}
	return s, err
}

// stale reports that c is not based on the current document.
func (c *Change) stale(current *State) error {
	if c.Version == current.Version {
		return nil
	}
	return fmt.Errorf("%w: version %d is current, and the change is based on %d", ErrStale, current.Version, c.Version)
}

func invalid(err error) error { return fmt.Errorf("%w: %w", ErrInvalid, err) }

// moment is the present as the documents write it.
func moment() time.Time { return time.Now().UTC().Truncate(time.Millisecond) }

// check asks for readiness where c needs it and notes the digest in c. forced means that the answer was no and c goes on.
func (k *Keeper) check(ctx context.Context, current *State, c *Change) (forced bool, err error) {
	if k.o.Ready == nil || !c.checked(current.Stage) {
		return false, nil
	}
	r, err := k.o.Ready(ctx, c.State.Stage)
	if r.Digest != "" {
		c.Digest = r.Digest
	}
	switch {
	case err == nil && r.Ready:
		return false, nil
	case c.Force:
		return true, nil
	case ctx.Err() != nil:
		return false, context.Cause(ctx)
	}
	return false, &NotReadyError{Stage: c.State.Stage, Digest: r.Digest, Detail: r.Detail, Err: err}
}

// refresh takes over what other processes have written and returns what is current.
func (k *Keeper) refresh(ctx context.Context) (*State, error) {
	return k.commit(ctx, func(*transaction) (*State, *Record, error) { return nil, nil, nil })
}

// commit takes a turn at the store and lets decide say what becomes of the document: nil changes nothing.
func (k *Keeper) commit(ctx context.Context, decide func(*transaction) (*State, *Record, error)) (*State, error) {
	select {
	case k.turn <- struct{}{}:
		defer func() { <-k.turn }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-k.done:
		return nil, ErrClosed
	}
	select {
	case <-k.done:
		return nil, ErrClosed
	default:
	}
	t, err := k.store.begin(ctx, k.State())
	if err != nil {
		return nil, err
	}
	defer t.end()
	k.take(t.current, t.damage)
	s, r, err := decide(t)
	if err != nil || s == nil {
		return t.current, err
	}
	s.Version = t.current.Version + 1
	s.inUTC()
	if err := s.Check(); err != nil {
		return nil, invalid(err)
	}
	r.Version, r.From, r.To, r.State = s.Version, t.current.Stage, s.Stage, s
	if err := t.write(s, r); err != nil {
		return nil, err
	}
	k.take(s, nil)
	return s, nil
}
