package retire_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-dualstack/bridge/retire"
)

// plan puts a schedule and windows into force.
func plan(t *testing.T, k *retire.Keeper, edit func(*retire.State)) {
	t.Helper()
	c := to(k, k.State().Stage)
	edit(&c.State)
	if _, err := k.Set(t.Context(), c); err != nil {
		t.Fatal(err)
	}
}

// The steps of a plan are taken when they are due, one after another, and each is on record.
func TestSchedule(t *testing.T) {
	eachStore(t, func(t *testing.T, dir string) {
		synctest.Test(t, func(t *testing.T) {
			k := openKeeper(t, dir, &retire.Options{PollOnly: true, Poll: time.Hour})
			start := time.Now()
			p, err := k.State().Plan(start, start.Add(60*24*time.Hour))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := k.Set(t.Context(), retire.Change{State: *p, Actor: "ann", Origin: retire.FromCLI}); err != nil {
				t.Fatal(err)
			}
			for _, tt := range []struct {
				day  int
				want retire.Stage
			}{
				{0, retire.Announce}, {13, retire.Announce}, {14, retire.Warn}, {31, retire.Warn}, {32, retire.Brownout}, {52, retire.Brownout},
				{53, retire.Closed}, {58, retire.Closed}, {59, retire.Drain}, {60, retire.Gone}, {400, retire.Gone},
			} {
				time.Sleep(time.Until(start.Add(time.Duration(tt.day)*24*time.Hour + time.Minute)))
				synctest.Wait()
				if got := k.State().Stage; got != tt.want {
					t.Errorf("day %d: got %s, want %s", tt.day, got, tt.want)
				}
			}
			records, err := k.History()
			if err != nil || len(records) != 6 {
				t.Fatalf("got %d records, %v", len(records), err)
			}
			for _, r := range records[1:] {
				if r.Origin != retire.FromSchedule || r.Actor != "schedule" || !strings.HasPrefix(r.Reason, "scheduled for ") {
					t.Errorf("got %+v", r)
				}
			}
			if s := k.State(); len(s.Schedule) != 0 || !s.Since.Equal(start.Add(60*24*time.Hour)) {
				t.Errorf("got %+v", s)
			}
		})
		if dir != "" {
			whole(t, dir, 6)
		}
	})
}

// A step past warn stops at a failed check, is not tried again, and holds up those after it; what needs no check is not held up.
func TestScheduleHeld(t *testing.T) {
	tests := []struct {
		name  string
		ready func(context.Context, retire.Stage) (retire.Readiness, error)
		held  string
	}{
		{"blocked", func(context.Context, retire.Stage) (retire.Readiness, error) {
			return retire.Readiness{Digest: "d9", Detail: "blocked: \x1b[31mreporting-tool"}, nil
		}, "not ready for brownout: blocked:  [31mreporting-tool"},
		{"unknown", func(context.Context, retire.Stage) (retire.Readiness, error) {
			return retire.Readiness{Digest: "d9", Ready: true}, errors.New("no ledger")
		}, "not ready for brownout: no ledger"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log bytes.Buffer
				asked := 0
				k := openKeeper(t, "", &retire.Options{Logger: slog.New(slog.NewTextHandler(&log, nil)), Ready: func(ctx context.Context, s retire.Stage) (retire.Readiness, error) {
					asked++
					return tt.ready(ctx, s)
				}})
				now := time.Now()
				plan(t, k, func(s *retire.State) {
					s.Schedule = []retire.Step{{Stage: retire.Warn, At: now.Add(time.Hour)}, {Stage: retire.Brownout, At: now.Add(2 * time.Hour)}, {Stage: retire.Closed, At: now.Add(3 * time.Hour)}}
				})
				time.Sleep(48 * time.Hour)
				synctest.Wait()
				s := k.State()
				if s.Stage != retire.Warn || len(s.Schedule) != 2 || s.Schedule[0].Held != tt.held || asked != 1 {
					t.Errorf("got %+v, asked %d times", s, asked)
				}
				records, _ := k.History()
				if r := records[len(records)-1]; len(records) != 3 || r.Digest != "d9" || r.Note != "held: "+tt.held || r.From != retire.Warn || r.To != retire.Warn {
					t.Errorf("got %d records, the last %+v", len(records), r)
				}
				if n := strings.Count(log.String(), "level=ERROR"); n != 1 {
					t.Errorf("it was said %d times: %s", n, &log)
				}
				// An operator who sets the stage goes on with what is left.
				c := to(k, retire.Brownout)
				c.Force = true
				if s, err := k.Set(t.Context(), c); err != nil || len(s.Schedule) != 1 || s.Schedule[0].Held != "" {
					t.Errorf("got %+v, %v", s, err)
				}
			})
		})
	}
}

// An undone step is not taken again at once, and one that is to come waits behind it.
func TestScheduleUndone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := openKeeper(t, "", nil)
		now := time.Now()
		plan(t, k, func(s *retire.State) {
			s.Schedule = []retire.Step{{Stage: retire.Closed, At: now.Add(time.Hour)}, {Stage: retire.Gone, At: now.Add(2 * time.Hour)}}
		})
		time.Sleep(90 * time.Minute)
		synctest.Wait()
		if k.State().Stage != retire.Closed {
			t.Fatalf("got stage %s", k.State().Stage)
		}
		if _, err := k.Undo(t.Context(), retire.Change{Version: k.State().Version}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(48 * time.Hour)
		synctest.Wait()
		if s := k.State(); s.Stage != retire.Open || len(s.Schedule) != 2 || s.Schedule[0].Held == "" {
			t.Errorf("got %+v", s)
		}
	})
}

// Steps that came due while nobody ran are taken at the start, each with its own check.
func TestScheduleAfterDowntime(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		k := openKeeper(t, dir, passive)
		now := time.Now()
		plan(t, k, func(s *retire.State) {
			s.Schedule = []retire.Step{{Stage: retire.Announce, At: now.Add(time.Hour)}, {Stage: retire.Warn, At: now.Add(2 * time.Hour)}, {Stage: retire.Closed, At: now.Add(3 * time.Hour)}}
		})
		time.Sleep(24 * time.Hour)
		if k.State().Stage != retire.Open {
			t.Errorf("a passive keeper went to %s", k.State().Stage)
		}
		server := openKeeper(t, dir, &retire.Options{PollOnly: true, Ready: func(context.Context, retire.Stage) (retire.Readiness, error) {
			return retire.Readiness{Detail: "insufficient evidence: not observed for 1 d"}, nil
		}})
		time.Sleep(time.Minute)
		synctest.Wait()
		if s := server.State(); s.Stage != retire.Warn || s.Schedule[0].Held == "" {
			t.Errorf("got %+v", s)
		}
	})
	whole(t, dir, 4)
}

// Of several servers on one folder one takes the step.
func TestScheduleOfReplicas(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		var replicas []*retire.Keeper
		for range 4 {
			replicas = append(replicas, openKeeper(t, dir, &retire.Options{PollOnly: true}))
		}
		now := time.Now()
		plan(t, replicas[0], func(s *retire.State) {
			s.Schedule = []retire.Step{{Stage: retire.Warn, At: now.Add(time.Hour)}, {Stage: retire.Closed, At: now.Add(2 * time.Hour)}}
		})
		time.Sleep(3 * time.Hour)
		synctest.Wait()
		for i, k := range replicas {
			if s := k.State(); s.Stage != retire.Closed || s.Version != 3 {
				t.Errorf("replica %d: got %+v", i, s)
			}
		}
	})
	whole(t, dir, 3)
}

// That a window opens and closes is logged, once each.
func TestWindowsAreLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log lockedBuffer
		k := openKeeper(t, "", &retire.Options{Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{ReplaceAttr: onlyEvents}))})
		set(t, k, retire.Brownout)
		now := time.Now()
		plan(t, k, func(s *retire.State) {
			s.Brownouts = []retire.Window{
				{ID: "a", From: now.Add(time.Hour), Until: now.Add(2 * time.Hour), Mode: retire.ModeCalls},
				{ID: "b", From: now.Add(2 * time.Hour), Until: now.Add(3 * time.Hour), Mode: retire.ModeInitialize},
			}
		})
		for _, tt := range []struct {
			after time.Duration
			want  string
		}{
			{90 * time.Minute, "event=retire.brownout.start window=a\n"},
			{time.Hour, "event=retire.brownout.end window=a\nevent=retire.brownout.start window=b\n"},
			{24 * time.Hour, "event=retire.brownout.end window=b\n"},
		} {
			log.take()
			time.Sleep(tt.after)
			synctest.Wait()
			if got := log.take(); got != tt.want {
				t.Errorf("after %s: got %s, want %s", tt.after, got, tt.want)
			}
		}
	})
}

// A lockedBuffer is a log that is read while it is written.
type lockedBuffer struct {
	mu   sync.Mutex
	text []byte
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.text = append(b.text, p...)
	return len(p), nil
}

// take returns what was written since it was called last.
func (b *lockedBuffer) take() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	text := string(b.text)
	b.text = nil
	return text
}

// onlyEvents leaves the event and the window of a line of the log.
func onlyEvents(_ []string, a slog.Attr) slog.Attr {
	if a.Key != "event" && a.Key != "window" {
		return slog.Attr{}
	}
	return a
}
