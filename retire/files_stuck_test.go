package retire

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A folder that lets the log grow but not the document be replaced (a document that is a mount of its own, say) must not fill up: what
// is found there is recorded once, and the document is put in place as soon as that can be done.
func TestDocumentCannotBeReplaced(t *testing.T) {
	dir := t.TempDir()
	k, err := OpenKeeper(dir, &Options{Passive: true})
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	store := k.store.(*files)
	set := func(stage Stage) error {
		s := k.State()
		c := Change{Version: s.Version, State: *s, Actor: "me", Reason: "why", Force: true}
		c.State.Stage = stage
		_, err := k.Set(t.Context(), c)
		return err
	}
	records := func() int {
		t.Helper()
		v, err := Verify(dir)
		if err != nil {
			t.Fatal(err)
		}
		return v.Records
	}
	if err := set(Warn); err != nil {
		t.Fatal(err)
	}
	stuck := errors.New("device or resource busy")
	store.put = func(string, []byte) error { return stuck }
	for range 5 {
		if err := set(Announce); !errors.Is(err, stuck) {
			t.Errorf("got %v, want that it is stuck", err)
		}
	}
	if n := records(); n != 3 { // warn, announce, and that the document says warn all the same
		t.Errorf("got %d records, want 3", n)
	}
	if s := k.State(); s.Stage != Warn {
		t.Errorf("the stage is %s, want that of the document", s.Stage)
	}
	text, err := os.ReadFile(filepath.Join(dir, StateFile))
	if err != nil {
		t.Fatal(err)
	}
	edited := bytes.Replace(text, []byte(`warn`), []byte(`announce`), 1) // by hand: that is another one
	if err := os.WriteFile(filepath.Join(dir, StateFile), edited, 0o600); err != nil {
		t.Fatal(err)
	}
	for range 5 {
		_, _ = k.refresh(t.Context())
	}
	if n := records(); n != 4 {
		t.Errorf("got %d records, want one more for what was written by hand", n)
	}
	store.put = replace
	if _, err := k.refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s := k.State(); s.Stage != Announce || records() != 4 {
		t.Errorf("got %s and %d records, want announce and no more of them", s.Stage, records())
	}
	if text, err := os.ReadFile(filepath.Join(dir, StateFile)); err != nil || !strings.Contains(string(text), "announce") {
		t.Errorf("got %s, %v", text, err)
	}
	if err := set(Open); err != nil || records() != 5 {
		t.Errorf("got %v and %d records", err, records())
	}
	if v, err := Verify(dir); err != nil || !v.Whole() {
		t.Errorf("got %+v, %v", v, err)
	}
}
