package retire

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"
)

// files is the store of a keeper with a folder. The document is what counts and the log says how it came to be: a change is
// recorded first and then put in place. Where the two disagree, because a crash came in between or because somebody wrote the document
// by hand, the document is taken over under a new version and that is recorded (Origin config).
type files struct {
	dir  string
	wait time.Duration                       // for the lock
	put  func(dir string, text []byte) error // puts the text of a document in place
}

func (f *files) history() ([]Record, error) {
	var list []Record
	err := readLog(f.dir, func(l line) {
		if l.record != nil {
			list = append(list, *l.record)
		}
	})
	return list, err
}

func (f *files) begin(ctx context.Context, known *State) (*transaction, error) {
	if err := os.MkdirAll(f.dir, 0o700); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, f.wait, ErrLocked)
	defer cancel()
	unlock, err := lock(ctx, f.dir)
	if err != nil {
		return nil, err
	}
	t, err := f.transaction(known, unlock)
	if err != nil {
		unlock()
		return nil, err
	}
	return t, nil
}

func (f *files) transaction(known *State, unlock func()) (*transaction, error) {
	found, err := f.load(known)
	if err != nil {
		return nil, err
	}
	t := &transaction{found: *found, end: unlock}
	t.write = func(s *State, r *Record) error { return f.write(t, s, r) }
	if !t.foreign {
		return t, nil
	}
	if t.repeats() {
		if err := f.finish(t); err != nil {
			return nil, err
		}
		return t, nil
	}
	s := t.current
	note := "the document was written by hand"
	if t.latest > t.written {
		note = fmt.Sprintf("the document of version %d was found, and version %d recorded: that change was not carried out, or the file was put back", t.written, t.latest)
	}
	r := &Record{Time: moment(), Version: s.Version, From: s.Stage, To: s.Stage, Actor: s.By, Origin: FromConfig, Reason: s.Reason, Found: t.written, Lost: t.lost, Note: note, State: s}
	if t.last != nil {
		r.From = t.last.To
		if s.Stage != t.last.To && s.Since.Equal(t.last.State.Since) {
			s.Since = time.Time{} // that of another stage
		}
	}
	s.date(r.Time)
	if err := t.write(s, r); err != nil {
		return nil, err
	}
	t.latest, t.foreign, t.lost = s.Version, false, ""
	return t, nil
}

// repeats reports whether the document was taken over already, as the last record says, and is still there: it could not be replaced.
func (r *found) repeats() bool {
	l := r.last
	if l == nil || l.Origin != FromConfig || l.Found != r.written {
		return false
	}
	for _, since := range []time.Time{r.current.Since, {}} { // as that record dated it
		s := r.current.clone()
		s.Version, s.Since = l.Version, since
		s.date(l.Time)
		if equal(s, l.State) {
			return true
		}
	}
	return false
}

// finish puts the document of the last record in place. That it was taken over is not recorded again: who cannot write the document
// may try for days.
func (f *files) finish(t *transaction) error {
	d := &document{State: *t.last.State, Audit: t.head}
	text, err := d.text()
	if err == nil {
		err = f.put(f.dir, text)
	}
	if err != nil {
		return fmt.Errorf("write the state: %w", err)
	}
	t.current, t.latest, t.foreign, t.lost = t.last.State.clone(), t.last.Version, false, ""
	return nil
}

// load reads what is current. It changes nothing.
func (f *files) load(known *State) (*found, error) {
	text, err := readDocument(f.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	missing := err != nil
	r := &found{}
	d, err := parseDocument(text)
	if err == nil {
		r.lost = d.Audit
	}
	if err := readLog(f.dir, r.see); err != nil {
		return nil, err
	}
	switch {
	case missing:
		return r, r.missing(known)
	case err != nil:
		return r, r.damaged(known, f.dir, err)
	}
	r.current = &d.State
	if r.last == nil || d.Audit != r.head || !equal(&d.State, r.last.State) {
		r.foreign, r.written = true, d.Version
		d.Version = max(d.Version, r.latest+1)
	}
	return r, nil
}

// write records a change and puts the document in place.
func (f *files) write(t *transaction, s *State, r *Record) error {
	r.Prev = t.head
	d := &document{State: *s, Audit: emptyHash}
	if _, err := d.text(); err != nil {
		return err
	}
	hash, err := appendLog(f.dir, r, t.unfinished)
	if err != nil {
		return fmt.Errorf("write the audit log: %w", err)
	}
	d.Audit = hash
	text, err := d.text()
	if err == nil && t.damage != nil {
		err = setAside(f.dir, r.Time)
	}
	if err == nil {
		err = f.put(f.dir, text)
	}
	if err != nil {
		return fmt.Errorf("write the state: %w", err)
	}
	t.head, t.unfinished, t.last = hash, false, r
	return nil
}

// emptyHash is as long as every other.
const emptyHash = "0000000000000000000000000000000000000000000000000000000000000000"

// found is what a store says.
type found struct {
	current *State
	latest  int64  // the highest version ever recorded
	damage  error  // why current is not what the state file says
	foreign bool   // the document is not the one of the last record; current has the version under which it will be recorded
	written int64  // where foreign: the version in the file
	lost    string // hash of a record that the document names and the log does not have; empty: it has it, or none is named

	last       *Record
	head       string // hash of the last record
	unfinished bool   // the log does not end with a line break
}

// see takes in a line of the log.
func (r *found) see(l line) {
	r.unfinished = !l.whole
	if l.record == nil {
		return
	}
	if l.hash == r.lost {
		r.lost = ""
	}
	r.last, r.head = l.record, l.hash
	r.latest = max(r.latest, l.record.Version)
}

// missing decides what is current without a document: the last known one, so that losing a file opens nothing and closes nothing.
func (r *found) missing(known *State) error {
	if known != nil && known.Version == 0 {
		known = nil
	}
	if r.current = r.lastKnown(known); r.current == nil {
		r.current = &State{Stage: Open}
		return nil
	}
	r.damage = fmt.Errorf("%s is gone; the last known stage stays until the next change (to begin at open, make that change)", StateFile)
	return nil
}

// lastKnown returns the later of what the keeper knows and what is recorded, nil if there is neither. A change that another process
// recorded is not to be lost because its document was.
func (r *found) lastKnown(known *State) *State {
	switch {
	case r.last != nil && (known == nil || r.last.Version > known.Version):
		return r.last.State
	default:
		return known
	}
}

// damaged decides what is current when the document cannot be read.
func (r *found) damaged(known *State, dir string, err error) error {
	if r.current = r.lastKnown(known); r.current == nil {
		return fmt.Errorf("%s in %s: %w; repair it, or remove it to begin at stage open", StateFile, dir, err)
	}
	r.damage = fmt.Errorf("%s in %s: %w; repair it, or make a change, which puts it aside", StateFile, dir, err)
	return nil
}
