package retire_test

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-dualstack/bridge/retire"
)

// Documents that are none.
var damagedTexts = map[string]string{
	"empty":             "",
	"cut off":           `{"version": 9, "stage": "go`,
	"no JSON":           "stage: gone\n",
	"two documents":     `{"version": 9, "stage": "gone"} {"version": 9, "stage": "open"}`,
	"an unknown stage":  `{"version": 9, "stage": "goen"}`,
	"no stage":          `{"version": 9}`,
	"an unknown member": `{"version": 9, "stage": "gone", "sunsett": "2030-01-01T00:00:00Z"}`,
	"impossible dates":  `{"version": 9, "stage": "gone", "sunset": "2026-01-01T00:00:00Z", "deprecation": "2027-01-01T00:00:00Z"}`,
	"too long":          `{"version": 9, "stage": "gone", "by": "` + strings.Repeat("a", retire.MaxDocumentBytes) + `"}`,
	"null":              "null",
	"zeros":             strings.Repeat("\x00", 300),
}

// A damaged document changes nothing, at a start or while serving; it is said once, and a change puts it aside (retirement.md R10).
func TestDamaged(t *testing.T) {
	for name, text := range damagedTexts {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				var log bytes.Buffer
				o := &retire.Options{PollOnly: true, Logger: slog.New(slog.NewJSONHandler(&log, nil))}
				k := openKeeper(t, dir, o)
				want := set(t, k, retire.Warn)
				time.Sleep(5 * time.Second)
				write(t, dir, retire.StateFile, text)
				time.Sleep(time.Minute)
				synctest.Wait()
				if got := k.State(); !retire.Equal(got, want) || k.Damage() == nil {
					t.Errorf("while serving: got %+v, %v", got, k.Damage())
				}
				if n := strings.Count(log.String(), `"level":"ERROR"`); n != 1 {
					t.Errorf("it was said %d times: %s", n, &log)
				}
				if err := k.Close(); err != nil {
					t.Fatal(err)
				}
				again := openKeeper(t, dir, o)
				if got := again.State(); !retire.Equal(got, want) || again.Damage() == nil {
					t.Errorf("after a restart: got %+v, %v", got, again.Damage())
				}
				set(t, again, retire.Announce)
				if again.Damage() != nil || again.State().Version != want.Version+1 {
					t.Errorf("after a change: got %+v, %v", again.State(), again.Damage())
				}
			})
			whole(t, dir, 2)
			aside, err := filepath.Glob(filepath.Join(dir, retire.StateFile+".damaged-*"))
			if err != nil || len(aside) != 1 {
				t.Fatalf("put aside: got %v, %v", aside, err)
			}
			if got := read(t, dir, filepath.Base(aside[0])); got != text {
				t.Errorf("put aside: got %.100q, want %.100q", got, text)
			}
		})
	}
}

// A change of another process that was recorded is not lost because its document was damaged before anybody saw it.
func TestDamagedBeforeSeen(t *testing.T) {
	for name, spoil := range map[string]func(*testing.T, string){
		"damaged": func(t *testing.T, dir string) { write(t, dir, retire.StateFile, "{") },
		"missing": func(t *testing.T, dir string) { remove(t, dir, retire.StateFile) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				server := openKeeper(t, dir, &retire.Options{PollOnly: true})
				set(t, server, retire.Warn)
				set(t, openKeeper(t, dir, passive), retire.Announce)
				spoil(t, dir)
				if _, err := server.Set(t.Context(), to(server, retire.Open)); !errors.Is(err, retire.ErrStale) {
					t.Errorf("got %v", err)
				}
				if s := server.State(); s.Stage != retire.Announce || s.Version != 2 || server.Damage() == nil {
					t.Errorf("got %+v, %v", s, server.Damage())
				}
				if s := set(t, server, retire.Open); s.Version != 3 || server.Damage() != nil {
					t.Errorf("got %+v, %v", s, server.Damage())
				}
			})
			whole(t, dir, 3)
		})
	}
}

// A keeper that has nothing to do leaves the lock alone.
func TestIdleTakesNoLock(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		k := openKeeper(t, dir, &retire.Options{PollOnly: true, Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))})
		set(t, k, retire.Warn)
		time.Sleep(5 * time.Second)
		unlock, err := retire.Lock(t.Context(), dir)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		unlock()
		if log.Len() > 0 || k.Damage() != nil {
			t.Errorf("got %v: %s", k.Damage(), &log)
		}
	})
}

// The repair of a damaged document ends the damage.
func TestDamageRepaired(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		k := openKeeper(t, dir, &retire.Options{PollOnly: true})
		set(t, k, retire.Warn)
		good := read(t, dir, retire.StateFile)
		write(t, dir, retire.StateFile, good[:len(good)/2])
		time.Sleep(4 * time.Second)
		synctest.Wait()
		if k.Damage() == nil {
			t.Error("half a document is no damage")
		}
		write(t, dir, retire.StateFile, good)
		time.Sleep(4 * time.Second)
		synctest.Wait()
		if k.Damage() != nil || k.State().Stage != retire.Warn || k.State().Version != 1 {
			t.Errorf("got %+v, %v", k.State(), k.Damage())
		}
	})
	whole(t, dir, 1)
}

// Without anything to go by a damaged document stops the start: to guess could open or close the routes.
func TestDamagedAtFirst(t *testing.T) {
	for name, text := range damagedTexts {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			write(t, dir, retire.StateFile, text)
			_, err := retire.OpenKeeper(dir, nil)
			if err == nil || !strings.Contains(err.Error(), "damaged") || !strings.Contains(err.Error(), "repair it, or remove it") {
				t.Errorf("got %v", err)
			}
		})
	}
}

// A document that is gone changes nothing either.
func TestMissing(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		k := openKeeper(t, dir, &retire.Options{PollOnly: true})
		set(t, k, retire.Closed)
		time.Sleep(3 * time.Second)
		remove(t, dir, retire.StateFile)
		time.Sleep(3 * time.Second)
		synctest.Wait()
		if k.State().Stage != retire.Closed || k.Damage() == nil {
			t.Errorf("while serving: got %+v, %v", k.State(), k.Damage())
		}
		again := openKeeper(t, dir, passive)
		if again.State().Stage != retire.Closed || again.Damage() == nil {
			t.Errorf("after a restart: got %+v, %v", again.State(), again.Damage())
		}
		remove(t, dir, retire.AuditFile)
		time.Sleep(3 * time.Second)
		synctest.Wait()
		if k.State().Stage != retire.Closed || k.State().Version != 1 {
			t.Errorf("without the log: got %+v", k.State())
		}
		set(t, k, retire.Warn)
		if k.Damage() != nil || k.State().Version != 2 {
			t.Errorf("after a change: got %+v, %v", k.State(), k.Damage())
		}
	})
	whole(t, dir, 1)
}

// A document that cannot even be read is damage too, said once, and over when it can be read again.
func TestUnreadable(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		k := openKeeper(t, dir, &retire.Options{PollOnly: true, Logger: slog.New(slog.NewJSONHandler(&log, nil))})
		set(t, k, retire.Warn)
		good := read(t, dir, retire.StateFile)
		remove(t, dir, retire.StateFile)
		if err := os.Mkdir(filepath.Join(dir, retire.StateFile), 0o700); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if k.Damage() == nil || k.State().Stage != retire.Warn {
			t.Errorf("got %+v, %v", k.State(), k.Damage())
		}
		if n := strings.Count(log.String(), `"level":"ERROR"`); n != 1 {
			t.Errorf("it was said %d times: %s", n, &log)
		}
		remove(t, dir, retire.StateFile)
		write(t, dir, retire.StateFile, good)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if k.Damage() != nil {
			t.Errorf("got %v", k.Damage())
		}
	})
}
