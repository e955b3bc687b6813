package retire_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mcp-dualstack/bridge/retire"
)

// openKeeper opens one and closes it at the end of the test.
func openKeeper(t *testing.T, dir string, o *retire.Options) *retire.Keeper {
	t.Helper()
	k, err := retire.OpenKeeper(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := k.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return k
}

// to is the change that sets a stage.
func to(k *retire.Keeper, stage retire.Stage) retire.Change {
	c := retire.Change{Version: k.State().Version, State: *k.State(), Actor: "ann", Origin: retire.FromCLI, Reason: "to " + string(stage)}
	c.State.Stage = stage
	return c
}

func set(t *testing.T, k *retire.Keeper, stage retire.Stage) *retire.State {
	t.Helper()
	s, err := k.Set(t.Context(), to(k, stage))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// In memory and in files a keeper does the same.
func eachStore(t *testing.T, f func(t *testing.T, dir string)) {
	t.Run("memory", func(t *testing.T) { f(t, "") })
	t.Run("files", func(t *testing.T) { f(t, t.TempDir()) })
}

func TestSet(t *testing.T) {
	eachStore(t, func(t *testing.T, dir string) {
		k := openKeeper(t, dir, nil)
		if diff := cmp.Diff(&retire.State{Stage: retire.Open}, k.State()); diff != "" {
			t.Errorf("at first: -want +got\n%s", diff)
		}
		before := time.Now().Add(-time.Millisecond)
		s := set(t, k, retire.Announce)
		if s != k.State() || s.Version != 1 || s.Stage != retire.Announce || s.By != "ann" || s.Reason != "to announce" {
			t.Errorf("got %+v", s)
		}
		if s.Since.Before(before) || !s.Deprecation.Equal(s.Since) {
			t.Errorf("got since %s and deprecation %s", s.Since, s.Deprecation)
		}
		// The stage stays: so does its beginning.
		c := to(k, retire.Announce)
		c.State.Sunset = sunset
		s2, err := k.Set(t.Context(), c)
		if err != nil || s2.Version != 2 || !s2.Since.Equal(s.Since) || !s2.Sunset.Equal(sunset) {
			t.Errorf("got %+v, %v", s2, err)
		}
		if s3 := set(t, k, retire.Warn); !s3.Deprecation.Equal(s.Deprecation) {
			t.Errorf("deprecation: got %s, want %s", s3.Deprecation, s.Deprecation)
		}
	})
}

func TestSetRefused(t *testing.T) {
	no := func(context.Context, retire.Stage) (retire.Readiness, error) {
		return retire.Readiness{Digest: "d1", Detail: "blocked: 3 clients"}, nil
	}
	tests := []struct {
		name   string
		ready  func(context.Context, retire.Stage) (retire.Readiness, error)
		change func(*retire.Change)
		want   error
		text   string
	}{
		{"stale", nil, func(c *retire.Change) { c.Version = 7 }, retire.ErrStale, "version 1 is current, and the change is based on 7"},
		{"no stage", nil, func(c *retire.Change) { c.State.Stage = "close" }, retire.ErrInvalid, `"close" is no stage; the stages are open, announce,`},
		{"sunset before the deprecation", nil, func(c *retire.Change) { c.State.Sunset = noon.AddDate(-1, 0, 0) }, retire.ErrInvalid, "sunset: 2025-12-01T12:00:00Z is earlier than the deprecation"},
		{"not ready", no, func(c *retire.Change) { c.State.Stage = retire.Closed }, retire.ErrNotReady, "not ready for closed: blocked: 3 clients"},
		{"readiness unknown", func(context.Context, retire.Stage) (retire.Readiness, error) {
			return retire.Readiness{Ready: true}, errors.New("no ledger")
		}, func(c *retire.Change) { c.State.Stage = retire.Brownout }, retire.ErrNotReady, "not ready for brownout: no ledger"},
		{"forced without a reason", no, func(c *retire.Change) { c.State.Stage, c.Force, c.Reason = retire.Closed, true, "" }, retire.ErrNoReason, ""},
		{"a reason that breaks the line", nil, func(c *retire.Change) { c.Reason = "a\x1b[2Jb" }, retire.ErrInvalid, "reason: has the control character U+001B"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			eachStore(t, func(t *testing.T, dir string) {
				k := openKeeper(t, dir, &retire.Options{Ready: tt.ready})
				was := set(t, k, retire.Announce)
				c := to(k, retire.Warn)
				tt.change(&c)
				_, err := k.Set(t.Context(), c)
				if !errors.Is(err, tt.want) || !strings.Contains(fmt.Sprint(err), tt.text) {
					t.Errorf("got %v, want %v with %q in it", err, tt.want, tt.text)
				}
				records, err := k.History()
				if !retire.Equal(k.State(), was) || len(records) != 1 || err != nil {
					t.Errorf("the state became %+v, with %d records, %v", k.State(), len(records), err)
				}
			})
		})
	}
}

// Only forward steps past warn are checked, and what the check said is on record.
func TestReady(t *testing.T) {
	var asked []retire.Stage
	ok := true
	k := openKeeper(t, t.TempDir(), &retire.Options{Ready: func(_ context.Context, s retire.Stage) (retire.Readiness, error) {
		asked = append(asked, s)
		return retire.Readiness{Ready: ok, Digest: "digest of " + string(s)}, nil
	}})
	for _, s := range []retire.Stage{retire.Announce, retire.Warn, retire.Brownout, retire.Brownout, retire.Closed, retire.Warn} {
		set(t, k, s)
	}
	ok = false
	stale := to(k, retire.Gone)
	stale.Version--
	if _, err := k.Set(t.Context(), stale); !errors.Is(err, retire.ErrStale) {
		t.Errorf("got %v", err)
	}
	c := to(k, retire.Gone)
	c.Force, c.Reason = true, "contract ends"
	if _, err := k.Set(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]retire.Stage{retire.Brownout, retire.Closed, retire.Gone}, asked); diff != "" {
		t.Errorf("asked: -want +got\n%s", diff)
	}
	records, err := k.History()
	if err != nil || len(records) != 7 {
		t.Fatalf("got %d records, %v", len(records), err)
	}
	got := records[6]
	if !got.Forced || got.Digest != "digest of gone" || got.From != retire.Warn || got.To != retire.Gone || got.Reason != "contract ends" || got.Version != 7 {
		t.Errorf("forced: got %+v", got)
	}
	if got := records[4]; got.Forced || got.Digest != "digest of closed" {
		t.Errorf("checked: got %+v", got)
	}
	if e, is := errors.AsType[*retire.NotReadyError](func() error {
		_, err := k.Set(t.Context(), func() retire.Change { set(t, k, retire.Open); return to(k, retire.Drain) }())
		return err
	}()); !is || e.Digest != "digest of drain" {
		t.Errorf("got %+v", e)
	}
}

// Going back takes the schedule away, so that nothing carries the stage forward again, and a moved sunset is on record.
func TestRollback(t *testing.T) {
	k := openKeeper(t, "", nil)
	c := to(k, retire.Warn)
	c.State.Sunset = time.Now().Add(365 * 24 * time.Hour)
	c.State.Schedule = []retire.Step{{Stage: retire.Warn, At: noon}, {Stage: retire.Closed, At: time.Now().Add(time.Hour)}, {Stage: retire.Gone, At: time.Now().Add(2 * time.Hour)}}
	if s, err := k.Set(t.Context(), c); err != nil || len(s.Schedule) != 2 {
		t.Fatalf("a step to the present stage: got %+v, %v", s, err)
	}
	if s := set(t, k, retire.Closed); len(s.Schedule) != 1 || s.Schedule[0].Stage != retire.Gone {
		t.Errorf("forward: got the schedule %v", s.Schedule)
	}
	c = to(k, retire.Announce)
	c.State.Sunset = c.State.Sunset.Add(24 * time.Hour)
	s, err := k.Set(t.Context(), c)
	if err != nil || s.Schedule != nil {
		t.Errorf("back: got the schedule %v, %v", s.Schedule, err)
	}
	records, _ := k.History()
	if note := records[2].Note; !strings.Contains(note, "sunset moved from ") {
		t.Errorf("got the note %q", note)
	}
}

// From announce on there is a date of deprecation, it stays what it was, and who withdraws it begins anew.
func TestDeprecation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := openKeeper(t, "", nil)
		first := set(t, k, retire.Announce).Deprecation
		if !first.Equal(time.Now()) {
			t.Errorf("got %s", first)
		}
		time.Sleep(time.Hour)
		c := to(k, retire.Warn)
		c.State.Deprecation = time.Time{}
		if s, err := k.Set(t.Context(), c); err != nil || !s.Deprecation.Equal(first) {
			t.Errorf("left out: got %s, %v", s.Deprecation, err)
		}
		if s := set(t, k, retire.Open); !s.Deprecation.IsZero() {
			t.Errorf("withdrawn: got %s", s.Deprecation)
		}
		if s := set(t, k, retire.Announce); !s.Deprecation.Equal(time.Now()) {
			t.Errorf("again: got %s", s.Deprecation)
		}
		c = to(k, retire.Open)
		c.State.Deprecation = time.Now().Add(24 * time.Hour).UTC()
		if s, err := k.Set(t.Context(), c); err != nil || !s.Deprecation.Equal(c.State.Deprecation) {
			t.Errorf("to come: got %s, %v", s.Deprecation, err)
		}
		if s := set(t, k, retire.Announce); !s.Deprecation.Equal(c.State.Deprecation) {
			t.Errorf("to come, announced: got %s", s.Deprecation)
		}
	})
}

func TestVerifyInMemory(t *testing.T) {
	k := openKeeper(t, "", nil)
	set(t, k, retire.Warn)
	if v, err := k.Verify(); err != nil || !v.Whole() || v.Records != 1 || v.Version != 1 {
		t.Errorf("got %+v, %v", v, err)
	}
}

func TestUndo(t *testing.T) {
	eachStore(t, func(t *testing.T, dir string) {
		k := openKeeper(t, dir, nil)
		undo := func() (*retire.State, error) {
			return k.Undo(t.Context(), retire.Change{Version: k.State().Version, Actor: "bob", Origin: retire.FromAPI, Reason: "too early"})
		}
		if _, err := undo(); !errors.Is(err, retire.ErrNothingToUndo) {
			t.Errorf("at first: got %v", err)
		}
		announce := set(t, k, retire.Announce)
		warn := set(t, k, retire.Warn)
		set(t, k, retire.Closed)
		for i, want := range []*retire.State{warn, announce, {Stage: retire.Open}} {
			s, err := undo()
			if err != nil {
				t.Fatal(err)
			}
			wanted := *want
			wanted.Version, wanted.By, wanted.Reason = int64(4+i), "bob", "too early"
			if diff := cmp.Diff(&wanted, s); diff != "" {
				t.Errorf("undo %d: -want +got\n%s", i+1, diff)
			}
		}
		if _, err := undo(); !errors.Is(err, retire.ErrNothingToUndo) {
			t.Errorf("at last: got %v", err)
		}
		set(t, k, retire.Warn)
		if s, err := undo(); err != nil || s.Stage != retire.Open {
			t.Errorf("after another change: got %+v, %v", s, err)
		}
		if _, err := k.Undo(t.Context(), retire.Change{Version: 1}); !errors.Is(err, retire.ErrStale) && !errors.Is(err, retire.ErrNothingToUndo) {
			t.Errorf("stale: got %v", err)
		}
	})
}

// An undo that leads to a later stage is a forward step.
func TestUndoForward(t *testing.T) {
	ready := true
	k := openKeeper(t, "", &retire.Options{Ready: func(context.Context, retire.Stage) (retire.Readiness, error) {
		return retire.Readiness{Ready: ready}, nil
	}})
	set(t, k, retire.Closed)
	set(t, k, retire.Warn)
	ready = false
	c := retire.Change{Version: 2, Reason: "back to closed"}
	if _, err := k.Undo(t.Context(), c); !errors.Is(err, retire.ErrNotReady) || k.State().Stage != retire.Warn {
		t.Errorf("got %v at stage %s", err, k.State().Stage)
	}
	c.Force = true
	if s, err := k.Undo(t.Context(), c); err != nil || s.Stage != retire.Closed {
		t.Errorf("forced: got %+v, %v", s, err)
	}
}

// Of changes that are based on the same version one succeeds.
func TestCompareAndSwap(t *testing.T) {
	eachStore(t, func(t *testing.T, dir string) {
		const writers, rounds = 8, 5
		k := openKeeper(t, dir, nil)
		for range rounds {
			base := k.State().Version
			var wg sync.WaitGroup
			errs := make(chan error, writers)
			c := to(k, retire.Announce)
			for range writers {
				wg.Go(func() {
					_, err := k.Set(t.Context(), c)
					errs <- err
				})
			}
			wg.Wait()
			won := 0
			for range writers {
				if err := <-errs; err == nil {
					won++
				} else if !errors.Is(err, retire.ErrStale) {
					t.Error(err)
				}
			}
			if won != 1 || k.State().Version != base+1 {
				t.Errorf("%d changes succeeded, and the version became %d after %d", won, k.State().Version, base)
			}
		}
	})
}

func TestAbort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		k := openKeeper(t, "", &retire.Options{Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelError}))})
		c := to(k, retire.Brownout)
		now := time.Now().UTC()
		c.State.Brownouts = []retire.Window{{ID: "a", From: now.Add(time.Hour), Until: now.Add(2 * time.Hour), Mode: retire.ModeCalls}}
		if _, err := k.Set(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		abort := func(window string) *retire.State {
			s, err := k.Abort(t.Context(), window, retire.Change{Actor: "guard", Origin: retire.FromGuard, Reason: "27 clients were refused"})
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
		if s := abort("a"); s.Version != 1 {
			t.Errorf("before the window: got version %d", s.Version)
		}
		time.Sleep(90 * time.Minute)
		ask := retire.Ask{Point: retire.AtRequest, Now: time.Now()}
		if !k.State().Decide(ask).Refuse {
			t.Error("the window refuses nothing")
		}
		if s := abort("b"); s.Version != 1 {
			t.Errorf("another window: got version %d", s.Version)
		}
		s := abort("a")
		if s.Version != 2 || s.Brownouts[0].Aborted != "27 clients were refused" || s.Stage != retire.Brownout || k.State().Decide(ask).Refuse {
			t.Errorf("got %+v", s)
		}
		if s := abort("a"); s.Version != 2 {
			t.Errorf("again: got version %d", s.Version)
		}
		if strings.Count(log.String(), "event=retire.brownout.aborted window=a") != 1 || strings.Count(log.String(), "\n") != 1 {
			t.Errorf("got the log %s", &log)
		}
		records, _ := k.History()
		if r := records[1]; r.Origin != retire.FromGuard || r.Note != "brownout a aborted" || r.State.Version != 2 {
			t.Errorf("got %+v", r)
		}
	})
}

func TestSubscribe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := openKeeper(t, "", nil)
		var got []string
		cancel := k.Subscribe(func(old, now *retire.State) { got = append(got, string(old.Stage)+">"+string(now.Stage)) })
		set(t, k, retire.Announce)
		synctest.Wait()
		set(t, k, retire.Warn)
		synctest.Wait()
		cancel()
		set(t, k, retire.Open)
		synctest.Wait()
		if want := "open>announce announce>warn"; strings.Join(got, " ") != want {
			t.Errorf("got %v, want %s", got, want)
		}
	})
}

func TestClosedKeeper(t *testing.T) {
	k := openKeeper(t, "", nil)
	set(t, k, retire.Warn)
	if err := k.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := k.Set(t.Context(), to(k, retire.Open)); !errors.Is(err, retire.ErrClosed) {
		t.Errorf("got %v", err)
	}
	if k.State().Stage != retire.Warn {
		t.Errorf("got stage %s", k.State().Stage)
	}
}

// The records of a keeper without a folder are bounded, and undo knows where they begin.
func TestMaxRecords(t *testing.T) {
	k := openKeeper(t, "", nil)
	for range retire.MaxRecords + 1 {
		set(t, k, retire.Announce)
	}
	set(t, k, retire.Warn)
	records, err := k.History()
	if err != nil || len(records) != retire.MaxRecords || records[0].Version != 3 {
		t.Errorf("got %d records from version %d, %v", len(records), records[0].Version, err)
	}
}
