package retire_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-dualstack/bridge/retire"
)

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, dir, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func remove(t *testing.T, dir, name string) {
	t.Helper()
	if err := os.Remove(filepath.Join(dir, name)); err != nil {
		t.Fatal(err)
	}
}

// whole checks that the log in dir verifies and has that many records.
func whole(t *testing.T, dir string, records int) {
	t.Helper()
	v, err := retire.Verify(dir)
	if err != nil {
		t.Fatal(err)
	}
	if !v.Whole() || len(v.Notes) > 0 || v.Records != records {
		t.Errorf("got %d records, faults %v, notes %v; want %d records", v.Records, v.Faults, v.Notes, records)
	}
}

// passive keepers do nothing by themselves.
var passive = &retire.Options{Passive: true}

func TestRestart(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "not", "there")
	k := openKeeper(t, dir, nil)
	if s := k.State(); s.Stage != retire.Open || s.Version != 0 || k.Damage() != nil {
		t.Errorf("got %+v, %v", s, k.Damage())
	}
	set(t, k, retire.Announce)
	want := set(t, k, retire.Warn)
	if err := k.Close(); err != nil {
		t.Fatal(err)
	}
	again := openKeeper(t, dir, nil)
	if got := again.State(); !retire.Equal(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	whole(t, dir, 2)
	for _, name := range []string{retire.StateFile, retire.AuditFile} {
		if st, err := os.Stat(filepath.Join(dir, name)); err != nil || st.Mode().Perm() != 0o600 {
			t.Errorf("%s: got %v, %v", name, st.Mode(), err)
		}
	}
}

// Showing the state leaves no trace.
func TestPassiveOpensWithoutWriting(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	k := openKeeper(t, dir, passive)
	if k.State().Stage != retire.Open {
		t.Errorf("got stage %s", k.State().Stage)
	}
	if _, err := k.History(); err != nil {
		t.Error(err)
	}
	if _, err := retire.Verify(dir); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the folder was made: %v", err)
	}
}

// A server takes a change of another process over within two seconds, by polling alone, and tells its subscribers.
func TestFollow(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		server := openKeeper(t, dir, &retire.Options{PollOnly: true})
		var told []string
		server.Subscribe(func(_, now *retire.State) { told = append(told, string(now.Stage)) })
		cli := openKeeper(t, dir, passive)
		set(t, cli, retire.Warn)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if got := server.State(); got.Stage != retire.Warn || got.Version != 1 {
			t.Errorf("got %+v", got)
		}
		// Each knows what the other did when it changes something itself.
		set(t, server, retire.Brownout)
		if _, err := cli.Set(t.Context(), to(cli, retire.Open)); !errors.Is(err, retire.ErrStale) {
			t.Errorf("got %v", err)
		}
		if got := cli.State(); got.Stage != retire.Brownout {
			t.Errorf("after the refusal: got stage %s", got.Stage)
		}
		set(t, cli, retire.Open)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if got := strings.Join(told, " "); got != "warn brownout open" {
			t.Errorf("told of %s", got)
		}
	})
	whole(t, dir, 3)
}

// The file system says at once that the document was replaced.
func TestFollowNotices(t *testing.T) {
	dir := t.TempDir()
	told := make(chan retire.Stage, 9)
	server := openKeeper(t, dir, &retire.Options{Poll: time.Hour})
	server.Subscribe(func(_, now *retire.State) { told <- now.Stage })
	cli := openKeeper(t, dir, passive)
	// The watch may begin after the first change, so changes go on until one is noticed.
	for {
		set(t, cli, retire.Warn)
		select {
		case got := <-told:
			if got != retire.Warn {
				t.Errorf("got %s", got)
			}
			return
		case <-time.After(500 * time.Millisecond):
		case <-t.Context().Done():
			t.Fatal("no notice came")
		}
	}
}

// A document that somebody wrote by hand is taken over and recorded, whether the server runs or not.
func TestWrittenByHand(t *testing.T) {
	tests := []struct {
		name, text string
		first      bool // before there ever was one
		version    int64
		stage      retire.Stage
		note       string
	}{
		{"first", `{"version": 0, "stage": "announce", "by": "ops"}`, true, 1, retire.Announce, "written by hand"},
		{"same version", `{"version": 2, "stage": "closed", "by": "ops"}`, false, 3, retire.Closed, "written by hand"},
		{"next version", `{"version": 3, "stage": "closed", "by": "ops"}`, false, 3, retire.Closed, "written by hand"},
		{"far version", `{"version": 40, "stage": "open", "by": "ops"}`, false, 40, retire.Open, "written by hand"},
		{"put back", `{"version": 1, "stage": "announce", "by": "ops"}`, false, 3, retire.Announce, "the document of version 1 was found, and version 2 recorded"},
		{"other zone", `{"version": 3, "stage": "warn", "by": "ops", "sunset": "2030-01-01T00:00:00+02:00"}`, false, 3, retire.Warn, "written by hand"},
	}
	check := func(t *testing.T, k *retire.Keeper, dir string, tt struct {
		name, text string
		first      bool
		version    int64
		stage      retire.Stage
		note       string
	}) {
		t.Helper()
		s := k.State()
		if s.Version != tt.version || s.Stage != tt.stage || k.Damage() != nil {
			t.Errorf("got %+v, %v", s, k.Damage())
		}
		records, err := k.History()
		if err != nil || len(records) == 0 {
			t.Fatalf("got %v, %v", records, err)
		}
		r := records[len(records)-1]
		if r.Origin != retire.FromConfig || r.Actor != "ops" || !strings.Contains(r.Note, tt.note) || r.To != tt.stage || r.Version != tt.version {
			t.Errorf("got the record %+v", r)
		}
		whole(t, dir, len(records))
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			prepare := func(t *testing.T) string {
				dir := t.TempDir()
				if !tt.first {
					k := openKeeper(t, dir, passive)
					set(t, k, retire.Announce)
					set(t, k, retire.Warn)
				}
				return dir
			}
			t.Run("found at start", func(t *testing.T) {
				dir := prepare(t)
				write(t, dir, retire.StateFile, tt.text)
				check(t, openKeeper(t, dir, nil), dir, tt)
				check(t, openKeeper(t, dir, nil), dir, tt) // and recorded once
			})
			t.Run("changed by a command", func(t *testing.T) {
				dir := prepare(t)
				write(t, dir, retire.StateFile, tt.text)
				k := openKeeper(t, dir, passive)
				if s := set(t, k, retire.Open); s.Version != tt.version+1 {
					t.Errorf("got %+v", s)
				}
				records, err := k.History()
				if err != nil || records[len(records)-1].From != tt.stage {
					t.Errorf("got %+v, %v", records, err)
				}
				whole(t, dir, len(records))
			})
			t.Run("while serving", func(t *testing.T) {
				dir := prepare(t)
				synctest.Test(t, func(t *testing.T) {
					k := openKeeper(t, dir, &retire.Options{PollOnly: true})
					time.Sleep(3 * time.Second)
					write(t, dir, retire.StateFile, tt.text)
					time.Sleep(2 * time.Second)
					synctest.Wait()
					check(t, k, dir, tt)
					time.Sleep(time.Minute)
					check(t, k, dir, tt)
				})
			})
		})
	}
}

// A change that was recorded and not put in place, because the process died in between, was not made; the record stays and
// another says so.
func TestCrashBeforeReplace(t *testing.T) {
	dir := t.TempDir()
	k := openKeeper(t, dir, passive)
	set(t, k, retire.Warn)
	before := read(t, dir, retire.StateFile)
	for was := k.State().Since; !time.Now().Truncate(time.Millisecond).After(was); { // documents have milliseconds: two changes within one look alike
	}
	set(t, k, retire.Gone)
	write(t, dir, retire.StateFile, before)

	v, err := retire.Verify(dir)
	if err != nil || !v.Whole() || len(v.Notes) != 1 || !strings.Contains(v.Notes[0].Detail, "not carried out") {
		t.Errorf("got %+v, %v", v, err)
	}
	again := openKeeper(t, dir, nil)
	if s := again.State(); s.Stage != retire.Warn || s.Version != 3 {
		t.Errorf("got %+v", s)
	}
	whole(t, dir, 3)
	// To undo is to undo what was made, not what was not.
	s, err := again.Undo(t.Context(), retire.Change{Version: 3})
	if err != nil || s.Version != 4 || s.Stage != retire.Open {
		t.Errorf("got %+v, %v", s, err)
	}
	if _, err := again.Undo(t.Context(), retire.Change{Version: 4}); !errors.Is(err, retire.ErrNothingToUndo) {
		t.Errorf("got %v", err)
	}
}

// Records that a crash cut off do not stop what comes after.
func TestTornRecords(t *testing.T) {
	dir := t.TempDir()
	k := openKeeper(t, dir, passive)
	set(t, k, retire.Announce)
	log := read(t, dir, retire.AuditFile)
	for _, tail := range []string{log[:len(log)/2], "\x00\x00\x00", `{"version":`, "{}"} {
		write(t, dir, retire.AuditFile, read(t, dir, retire.AuditFile)+tail)
		k := openKeeper(t, dir, nil)
		if k.State().Stage != retire.Announce || k.Damage() != nil {
			t.Errorf("%q: got %+v, %v", tail, k.State(), k.Damage())
		}
		set(t, k, retire.Announce)
		if err := k.Close(); err != nil { // the next one is alone with what is written by hand
			t.Error(err)
		}
	}
	v, err := retire.Verify(dir)
	if err != nil || !v.Whole() || len(v.Notes) != 4 || v.Records != 5 || v.Version != 5 {
		t.Errorf("got %+v, %v", v, err)
	}
}

// Who wrote another stage by hand did not write when it began.
func TestWrittenByHandIsDated(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		k := openKeeper(t, dir, &retire.Options{PollOnly: true})
		announced := set(t, k, retire.Announce)
		time.Sleep(time.Hour)
		write(t, dir, retire.StateFile, strings.Replace(read(t, dir, retire.StateFile), `"stage": "announce"`, `"stage": "warn"`, 1))
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if s := k.State(); s.Stage != retire.Warn || s.Since.Sub(announced.Since) < time.Hour || !s.Deprecation.Equal(announced.Deprecation) {
			t.Errorf("got %+v", s)
		}
		write(t, dir, retire.StateFile, `{"version": 9, "stage": "closed"}`)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if s := k.State(); s.Stage != retire.Closed || s.Since.IsZero() || !s.Deprecation.Equal(s.Since) {
			t.Errorf("got %+v", s)
		}
	})
}

// Who waits for a lock does so for a time, and says why it was in vain.
func TestLocked(t *testing.T) {
	dir := t.TempDir()
	unlock, err := retire.Lock(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		k := openKeeper(t, dir, passive)
		start := time.Now()
		if _, err := k.Set(t.Context(), to(k, retire.Warn)); !errors.Is(err, retire.ErrLocked) || time.Since(start) < retire.DefaultLockWait {
			t.Errorf("got %v after %s", err, time.Since(start))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := k.Set(ctx, to(k, retire.Warn)); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
	})
	unlock()
	k := openKeeper(t, dir, passive)
	set(t, k, retire.Warn)
}

// A folder that cannot be written refuses the change, and the state stays.
func TestUnwritable(t *testing.T) {
	dir := t.TempDir()
	k := openKeeper(t, dir, passive)
	set(t, k, retire.Warn)
	remove(t, dir, retire.AuditFile)
	if err := os.Mkdir(filepath.Join(dir, retire.AuditFile), 0o700); err != nil {
		t.Fatal(err)
	}
	if s, err := k.Set(t.Context(), to(k, retire.Gone)); err == nil || k.State().Stage != retire.Warn {
		t.Errorf("got %+v, %v", s, err)
	}
}

// The text of a document is bounded, and one that is too long is refused before it is recorded.
func TestMaxDocumentBytes(t *testing.T) {
	dir := t.TempDir()
	k := openKeeper(t, dir, passive)
	set(t, k, retire.Warn)
	c := to(k, retire.Warn)
	long := strings.Repeat("a", retire.MaxTextBytes-4)
	for i := range retire.MaxExemptions {
		c.State.Exemptions = append(c.State.Exemptions, retire.Exemption{ID: long + string(rune('a'+i%26)) + string(rune('a'+i/26%26)) + string(rune('a'+i/676))})
	}
	if _, err := k.Set(t.Context(), c); !errors.Is(err, retire.ErrInvalid) || !strings.Contains(err.Error(), "at most 1048576 are kept") {
		t.Errorf("got %v", err)
	}
	whole(t, dir, 1)
	c.State.Exemptions = c.State.Exemptions[:900]
	if _, err := k.Set(t.Context(), c); err != nil {
		t.Error(err)
	}
	whole(t, dir, 2)
}
