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
	// prune removes what was last seen before a time, in Unix milliseconds.
	prune(before int64) error
	// forget removes an identity; ok is false if there is none of that id.
	forget(id string) (ok bool, err error)
	close() error
}

// An oblivion is an identity to be forgotten.
type oblivion struct {
	id    string
	reply chan forgotten
}

type forgotten struct {
	ok  bool
	err error
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
	astray  bool      // the file is not where it was
	clock   stepwatch
	pruned  int64 // day of the last prune
}

// run flushes and answers until Close.
func (l *Ledger) run(file string, s store) {
	defer close(l.done)
	f := &flusher{Ledger: l, file: file, store: s, pending: newContent(l.o.limits()), clock: newStepwatch(l.o.clock)}
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
		case o := <-l.forgets:
			o.reply <- f.forget(o.id)
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
	f.dirty.Store(false)        // before taking: what comes after marks again
	f.pending.flushed = f.now() // likewise: what was counted before is in it
	f.clients.take(f.pending)
	f.evidence.take(f.pending)
	f.talks.settle(f.pending.flushed)
	f.users.take(f.pending)
	if g, stepped := f.clock.look(); stepped {
		f.pending.addGap(g)
		f.o.Logger.LogAttrs(context.Background(), slog.LevelWarn, "the clock was set forward, or the machine slept; what happened meanwhile is unknown",
			slog.String("event", "ledger.clock"), slog.Duration("by", time.Duration(g.to-g.from)*time.Millisecond))
	}
	f.noteLost(f.pending.flushed)
	f.beat()
	err := f.store.add(f.pending)
	if damaged(err) {
		err = f.restart(err)
	}
	if err != nil {
		f.counters.failed()
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
	f.watchFile()
	f.counters.evicted(f.pending.dropped)
	f.prune(f.pending.flushed)
	f.pending = newContent(f.o.limits())
	return nil
}

// watchFile says when the file has been moved or removed. Another is not begun in its place: the journals of the two would be mixed up.
func (f *flusher) watchFile() {
	s, ok := f.store.(*fileStore)
	if !ok || s.strayed(f.file) == f.astray {
		return
	}
	f.astray = !f.astray
	if !f.astray {
		f.o.Logger.LogAttrs(context.Background(), slog.LevelInfo, "ledger file is in its place again",
			slog.String("event", "ledger.returned"), slog.String("file", f.file))
		return
	}
	f.o.Logger.LogAttrs(context.Background(), slog.LevelError, "ledger file was moved or removed; what is recorded will be lost: put it back, or restart",
		slog.String("event", "ledger.astray"), slog.String("file", f.file))
}

// prune lets go of what is older than the retention, once a day.
func (f *flusher) prune(now int64) {
	if day := now / dayMillis; day != f.pruned && f.mayPrune(now) {
		f.pruned = day
		if err := f.store.prune(now - f.o.Retention.Duration().Milliseconds()); err != nil {
			f.o.Logger.LogAttrs(context.Background(), slog.LevelWarn, "old entries of the ledger cannot be removed; it is tried again tomorrow",
				slog.String("event", "ledger.prune.failed"), slog.Any("err", err))
		}
	}
}

// mayPrune reports whether the clock is good for what cannot be undone: it has gone evenly for a day, or shows less than a day more
// than when the file was last written before it was opened. A clock that is far ahead for a while makes nobody forgotten.
func (f *flusher) mayPrune(now int64) bool {
	return f.clock.steady() >= evenTime || f.written != 0 && now-f.written < evenTime.Milliseconds()
}

const evenTime = 24 * time.Hour

// noteLost records what was removed on a day that turned out to be in the future: the clock was wrong for longer than mayPrune waits. A
// day of tolerance, since a clock that is set right by seconds may do so at midnight.
func (f *flusher) noteLost(now int64) {
	if f.pruned <= now/dayMillis+1 {
		return
	}
	before := f.pruned*dayMillis + dayMillis - f.o.Retention.Duration().Milliseconds()
	f.pending.addGap(gap{0, min(before, now), GapDamaged})
	f.pruned = 0
}

// forget removes an identity from memory and from the store.
func (f *flusher) forget(id string) forgotten {
	seen := f.users.forget(id)
	seen = f.pending.remove(id) || seen
	ok, err := f.store.forget(id)
	return forgotten{ok || seen, err}
}

// A stepwatch notices when the wall clock goes forward by more than time has passed.
type stepwatch struct {
	clock func() time.Time
	wall  time.Time // without a monotonic reading
	since time.Time // with one
	even  time.Time // since when it has gone evenly, with one
}

func newStepwatch(clock func() time.Time) stepwatch {
	now := time.Now()
	return stepwatch{clock: clock, wall: clock().Round(0), since: now, even: now}
}

// steady returns for how long the clock has gone evenly.
func (s *stepwatch) steady() time.Duration { return time.Since(s.even) }

// smallestStep is what a clock may be adjusted by at once without notice.
const smallestStep = 5 * time.Second

// look returns the time that was skipped since the last look, if any. A clock that goes back skips nothing: what was recorded before lies
// in the future for a while, and counts as just seen until then.
func (s *stepwatch) look() (gap, bool) {
	wall, now := s.clock().Round(0), time.Now()
	skipped := wall.Sub(s.wall) - now.Sub(s.since)
	s.wall, s.since = wall, now
	if skipped.Abs() >= smallestStep {
		s.even = now
	}
	if skipped < smallestStep {
		return gap{}, false
	}
	return gap{from: wall.Add(-skipped).UnixMilli(), to: wall.UnixMilli(), kind: GapClock}, true
}

// restart goes on with a fresh file when the one in use turned out to be damaged, and writes the
// pending batch to it. Opening moves the damaged one aside if it is as bad as that.
func (f *flusher) restart(cause error) error {
	if err := f.store.close(); err != nil {
		cause = errors.Join(cause, err)
	}
	s, err := openFile(f.file, &f.o, f.now()) // a fresh one knows nothing of before
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
		written := c.flushed // which pending takes for now, and nothing was
		c.merge(f.pending)
		c.flushed = written
	}
	return answer{content: c}
}

// broken is the store after a restart that failed. It counts as damaged so that every flush tries
// to open the file again.
type broken struct{ err error }

func (b broken) add(*content) error      { return &damagedError{b.err} }
func (b broken) read() (*content, error) { return nil, b.err }
func (b broken) prune(int64) error       { return b.err }
func (b broken) close() error            { return nil }

func (b broken) forget(string) (bool, error) { return false, b.err }
