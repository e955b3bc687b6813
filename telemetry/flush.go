package telemetry

import (
	"context"
	"errors"
	"log/slog"
	"time"
)

// A store keeps a ledger's content. It has one user at a time.
type store interface {
	// add adds the counts of a batch to what is kept, all of it or, with an error, nothing.
	add(batch *content) error
	// read returns all that is kept. The caller may change it.
	read() (*content, error)
	close() error
}

// An answer is what the loop gives to who asked for the content.
type answer struct {
	content *content
	err     error
}

// A flusher is the loop that owns the store. Everything that waits for a disk happens here.
type flusher struct {
	*Ledger

	file    string
	store   store
	pending *content  // taken from the counters but not written yet
	due     time.Time // when to flush; zero: nothing to flush
	failing bool      // the last flush failed
}

// run flushes and answers until Close.
func (l *Ledger) run(file string, s store) {
	defer close(l.done)
	f := &flusher{Ledger: l, file: file, store: s, pending: newContent(l.o.MaxClients, l.o.MaxEvidence)}
	timer := time.NewTimer(0)
	defer timer.Stop()
	f.beat()
	for {
		if f.due.IsZero() {
			timer.Stop()
		} else {
			timer.Reset(time.Until(f.due))
		}
		select {
		case <-l.stop:
			l.err = errors.Join(f.flush(), f.store.close())
			return
		case <-l.changed:
			f.by(l.o.FlushEvery)
		case <-l.urgent:
			f.by(l.o.FlushSoon)
		case a := <-l.asks:
			a <- f.answer()
		case <-timer.C:
			_ = f.flush() // has been logged and will be tried again
		}
	}
}

// by brings the next flush forward to d from now at the latest. A flush that is due earlier stays, so
// a steady stream of changes cannot put it off.
func (f *flusher) by(d time.Duration) {
	if t := time.Now().Add(d); f.due.IsZero() || t.Before(f.due) {
		f.due = t
	}
}

// beat sets when the next flush is due if nothing happens: memory needs none.
func (f *flusher) beat() {
	f.due = time.Time{}
	if f.file != "" {
		f.by(f.o.Heartbeat)
	}
}

// flush adds what has been counted to the store, in one transaction. When that fails the counts are
// kept and the next flush tries again.
func (f *flusher) flush() error {
	f.dirty.Store(false) // before taking: what comes after marks again
	f.clients.take(f.pending)
	f.evidence.take(f.pending)
	f.pending.flushed = time.Now().UnixMilli()
	f.beat()
	err := f.store.add(f.pending)
	if damaged(err) {
		err = f.restart(err)
	}
	if err != nil {
		if !f.failing {
			f.o.Logger.LogAttrs(context.Background(), slog.LevelError, "ledger cannot be written; counts are kept in memory and it is tried again",
				slog.String("event", "ledger.flush.failed"), slog.String("file", f.file), slog.Any("err", err))
		}
		f.failing = true
		f.by(f.o.FlushEvery)
		return err
	}
	if f.failing {
		f.failing = false
		f.o.Logger.LogAttrs(context.Background(), slog.LevelInfo, "ledger is written again",
			slog.String("event", "ledger.flush.recovered"), slog.String("file", f.file))
	}
	f.pending = newContent(f.o.MaxClients, f.o.MaxEvidence)
	return nil
}

// restart goes on with a fresh file when the one in use turned out to be damaged, and writes the
// pending batch to it. Opening moves the damaged one aside if it is as bad as that.
func (f *flusher) restart(cause error) error {
	if err := f.store.close(); err != nil {
		cause = errors.Join(cause, err)
	}
	s, err := openFile(f.file, &f.o, f.started)
	if err != nil {
		f.store = broken{errors.Join(cause, err)}
		return f.store.add(nil)
	}
	f.store = s
	return s.add(f.pending)
}

// answer returns the content of the store with everything counted so far.
func (f *flusher) answer() answer {
	flushErr := f.flush()
	c, err := f.store.read()
	if err != nil {
		return answer{err: err}
	}
	if flushErr != nil {
		c.merge(f.pending)
	}
	return answer{content: c}
}

// broken is the store after a restart that failed. It counts as damaged so that every flush tries
// to open the file again.
type broken struct{ err error }

func (b broken) add(*content) error      { return &damagedError{b.err} }
func (b broken) read() (*content, error) { return nil, b.err }
func (b broken) close() error            { return nil }
