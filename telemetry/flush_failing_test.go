package telemetry

import (
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-dualstack/bridge/exchange"
)

// sick is a memory store on a disk that is full for a time.
type sick struct {
	*memory
	full atomic.Bool
}

func (s *sick) add(batch *content) error {
	if s.full.Load() {
		return errors.New("no space left on device")
	}
	return s.memory.add(batch)
}

// While nothing can be written a report has all that was counted, says when something last was, and the counter of errors goes up; what was
// counted meanwhile is written once it can be.
func TestFlushFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		opts := (*Options)(nil).withDefaults()
		l := newLedger(opts)
		s := &sick{memory: newMemory(opts.limits(), l.started)}
		go l.run("ledger.db", s) // ends by Close below
		open := func() {
			t.Helper()
			if _, err := l.Handler(opener(func() {})).Open(t.Context(), exchange.Client{Session: "s", Transport: exchange.HTTPSSE}); err != nil {
				t.Fatal(err)
			}
		}
		ask := func() Report {
			t.Helper()
			r, err := l.Report()
			if err != nil {
				t.Fatal(err)
			}
			return r
		}
		open()
		written := ask().Observation.LastFlush
		s.full.Store(true)
		open()
		time.Sleep(10 * time.Minute)
		r := ask()
		if got := r.Observation.LastFlush; !got.Equal(written) {
			t.Errorf("got a last flush at %v, want %v, since when nothing was written", got, written)
		}
		if got := r.Transports[0].Sessions; got != 2 {
			t.Errorf("got %d sessions while nothing is written, want 2", got)
		}
		failed := l.Counters().FlushErrors
		if failed < 100 { // it is tried every 5 s
			t.Errorf("got %d errors in ten minutes", failed)
		}
		s.full.Store(false)
		time.Sleep(time.Minute)
		if r = ask(); !r.Observation.LastFlush.Equal(r.GeneratedAt) || r.Transports[0].Sessions != 2 {
			t.Errorf("got a last flush at %v and %d sessions when it is written again, want now and 2", r.Observation.LastFlush, r.Transports[0].Sessions)
		}
		if got := l.Counters().FlushErrors; got != failed {
			t.Errorf("got %d errors, want the %d from before", got, failed)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
}
