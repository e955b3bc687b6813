package retire

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"
)

// What a change can be refused for. Every other error of a change is about the document (State.Check) or the files.
var (
	// ErrStale says that another change came first: read the state again and decide again.
	ErrStale = errors.New("the state was changed by somebody else")
	// ErrNotReady says that the readiness check of a forward step past warn failed, and the change was not forced
	// (*NotReadyError has the details).
	ErrNotReady = errors.New("not ready")
	// ErrNoReason says that a forced change gave no reason.
	ErrNoReason = errors.New("a forced change needs a reason")
	// ErrNothingToUndo says that no change is left to take back.
	ErrNothingToUndo = errors.New("there is no change to undo")
	// ErrLocked says that another process held the lock of the files for too long.
	ErrLocked = errors.New("another process is changing the state")
	// ErrClosed says that the keeper was closed.
	ErrClosed = errors.New("the keeper is closed")
	// ErrInvalid says that the wanted document cannot be; the error lists what is wrong with it.
	ErrInvalid = errors.New("the document cannot be")
)

// An Origin says by which way a change came.
type Origin string

// The origins.
const (
	FromCLI      Origin = "cli"
	FromAPI      Origin = "api"
	FromSchedule Origin = "schedule"
	FromGuard    Origin = "guard"
	FromConfig   Origin = "config" // the document was found changed in its file
)

// A NotReadyError is ErrNotReady with what the readiness check said.
type NotReadyError struct {
	Stage  Stage
	Digest string // of the report, empty if there was none
	Detail string
	Err    error // nil: the check was made, and its answer is no
}

func (e *NotReadyError) Error() string {
	text := fmt.Sprintf("%v for %s", ErrNotReady, e.Stage)
	if e.Detail != "" {
		text += ": " + e.Detail
	}
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

// Is reports that it is ErrNotReady.
func (e *NotReadyError) Is(target error) bool { return target == ErrNotReady }

func (e *NotReadyError) Unwrap() error { return e.Err }

// digestOf returns the digest of the report that an error of a change is based on.
func digestOf(err error) string {
	if e, ok := errors.AsType[*NotReadyError](err); ok {
		return e.Digest
	}
	return ""
}

// A Change asks for another state.
type Change struct {
	Version int64  // the version it is based on; the change fails with ErrStale when another is current
	State   State  // the wanted document; Version, Since, By and Reason are set by the keeper
	Actor   string // admin principal or user of the operating system
	Origin  Origin
	Remote  netip.Prefix // where it came from; the zero Prefix: from this machine
	Reason  string
	Force   bool   // despite a failed readiness check; needs a Reason
	Digest  string // of the report that was looked at
}

// checked reports whether the change needs a readiness check from the stage it leaves: it goes forward, past warn.
func (c *Change) checked(from Stage) bool {
	return c.State.Stage.After(from) && c.State.Stage.After(Warn)
}

// next returns the document that c makes of old, without its version, and a remark for the audit log.
func (c *Change) next(old *State, now time.Time) (*State, string) {
	s := c.State.clone()
	s.inUTC()
	s.By, s.Reason, s.Since = c.Actor, c.Reason, old.Since
	if s.Deprecation.IsZero() {
		s.Deprecation = old.Deprecation
	}
	if s.Stage == old.Stage {
		s.date(now)
		return s, moved(old, s)
	}
	s.Since = now
	if s.Stage == Open && !s.Deprecation.After(now) {
		s.Deprecation = time.Time{} // withdrawn; who announces again does so on that day
	}
	s.date(now)
	if old.Stage.After(s.Stage) && slices.Equal(s.Schedule, old.Schedule) {
		s.Schedule = nil // who goes back does not want to be carried forward again
	}
	s.Schedule = slices.DeleteFunc(s.Schedule, func(st Step) bool { return s.Stage.Reached(st.Stage) })
	return s, moved(old, s)
}

// date fills in the dates that a document has from announce on.
func (s *State) date(now time.Time) {
	if s.Stage == Open {
		return
	}
	if s.Since.IsZero() {
		s.Since = now
	}
	if s.Deprecation.IsZero() {
		s.Deprecation = s.Since
	}
}

// moved says what became of the sunset, which clients may have been told.
func moved(old, s *State) string {
	switch {
	case old.Sunset.Equal(s.Sunset) || old.Sunset.IsZero():
		return ""
	case s.Sunset.IsZero():
		return "sunset withdrawn, was " + shown(old.Sunset)
	}
	return fmt.Sprintf("sunset moved from %s to %s", shown(old.Sunset), shown(s.Sunset))
}

// back returns what taking a change back makes of the document before it. Steps that are due are held: they were taken once, and
// taking them again at once would undo the undoing.
func back(before *State, now time.Time) State {
	s := before.clone()
	for i := range s.Schedule {
		if st := &s.Schedule[i]; st.Held == "" && !st.At.After(now) {
			st.Held = "taken back"
		}
	}
	return *s
}
