package retire_test

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mcp-dualstack/bridge/retire"
)

// written makes a folder with five changes in it. The function that it returns copies it, and returns the copy and the lines of its log.
func written(t *testing.T) func(*testing.T) (dir string, lines []string) {
	t.Helper()
	first := t.TempDir()
	k := openKeeper(t, first, passive)
	for _, s := range []retire.Stage{retire.Announce, retire.Warn, retire.Brownout, retire.Warn, retire.Closed} {
		set(t, k, s)
	}
	whole(t, first, 5)
	return func(t *testing.T) (string, []string) {
		dir := t.TempDir()
		if err := os.CopyFS(dir, os.DirFS(first)); err != nil {
			t.Fatal(err)
		}
		return dir, strings.SplitAfter(strings.TrimSuffix(read(t, dir, retire.AuditFile), "\n"), "\n")
	}
}

// Every way to falsify the log is found, and what a crash leaves is not taken for one (retirement.md 10, check 10).
func TestVerify(t *testing.T) {
	forged := func(line string) string { return strings.Replace(line, `"actor":"ann"`, `"actor":"bob"`, 1) }
	tests := []struct {
		name   string
		edit   func(lines []string) []string
		faults []string
		notes  []string
	}{
		{"untouched", func(l []string) []string { return l }, nil, nil},
		{"edited", func(l []string) []string { l[1] = forged(l[1]); return l }, []string{"audit.jsonl, line 3: the line before it was changed or removed"}, nil},
		{"edited at first", func(l []string) []string { l[0] = forged(l[0]); return l }, []string{"audit.jsonl, line 2: the line before it was changed or removed"}, nil},
		{"edited at last", func(l []string) []string { l[4] = forged(l[4]); return l }, []string{"retirement.json: the record of its last change was changed or removed from the log"}, nil},
		{"a space put in", func(l []string) []string { l[2] = " " + l[2]; return l }, []string{"audit.jsonl, line 4: the line before it was changed or removed"}, nil},
		{"made unreadable", func(l []string) []string { l[1] = strings.Replace(l[1], `"time"`, `"time`, 1); return l }, []string{"audit.jsonl, line 3: the line before it was changed or removed"}, nil},
		{"emptied", func(l []string) []string { l[1] = "\n"; return l }, []string{"audit.jsonl, line 3: the line before it was changed or removed"}, nil},
		{"removed", func(l []string) []string { return append(l[:1], l[2:]...) }, []string{"audit.jsonl, line 2: the line before it was changed or removed"}, nil},
		{"removed at first", func(l []string) []string { return l[1:] }, []string{"audit.jsonl, line 1: the line before it was changed or removed"}, nil},
		{"removed at last", func(l []string) []string { return l[:4] }, []string{"retirement.json: the record of its last change was changed or removed from the log"}, nil},
		{"all removed", func([]string) []string { return nil }, []string{"retirement.json: the record of its last change was changed or removed from the log"}, nil},
		{"swapped", func(l []string) []string { l[1], l[2] = l[2], l[1]; return l }, []string{
			"audit.jsonl, line 2: follows line 3: lines were moved, or what stands between them was put there",
			"audit.jsonl, line 3: follows line 1: lines were moved, or what stands between them was put there",
			"audit.jsonl, line 3: version 2 comes after version 3, of line 2",
			"audit.jsonl, line 4: follows line 2: lines were moved, or what stands between them was put there",
		}, nil},
		{"doubled", func(l []string) []string { return append(l[:2], l[1:]...) }, []string{
			"audit.jsonl, line 3: follows line 1: lines were moved, or what stands between them was put there",
			"audit.jsonl, line 3: version 2 comes after version 2, of line 2",
		}, nil},
		{"another log in front", func(l []string) []string { return append([]string{forged(l[0])}, l...) }, []string{
			"audit.jsonl, line 2: is a first line: what stood before it was put there, or lines were moved",
			"audit.jsonl, line 2: version 1 comes after version 1, of line 1",
		}, nil},
		{"torn at the end", func(l []string) []string { return append(l, l[4][:40]) }, nil, []string{"audit.jsonl, line 6: is no record; a crash cut off what was being written"}},
		{"torn in between", func(l []string) []string { return []string{l[0], l[1], l[2][:40] + "\n", l[2], l[3], l[4]} }, nil, []string{"audit.jsonl, line 3: is no record; a crash cut off what was being written"}},
		{"torn and edited", func(l []string) []string { return []string{l[0], forged(l[1]), l[2][:40] + "\n", l[2], l[3], l[4]} }, []string{"audit.jsonl, line 4: the line before it was changed or removed"}, nil},
		{"torn and removed", func(l []string) []string { return []string{l[0], l[2][:40] + "\n", l[2], l[3], l[4]} }, []string{"audit.jsonl, line 3: the line before it was changed or removed"}, nil},
	}
	folder := written(t)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir, lines := folder(t)
			lines[len(lines)-1] += "\n"
			write(t, dir, retire.AuditFile, strings.Join(tt.edit(lines), ""))
			v, err := retire.Verify(dir)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.faults, texts(v.Faults)); diff != "" {
				t.Errorf("faults: -want +got\n%s", diff)
			}
			if diff := cmp.Diff(tt.notes, texts(v.Notes)); diff != "" {
				t.Errorf("notes: -want +got\n%s", diff)
			}
		})
	}
}

func texts(faults []retire.Fault) []string {
	var list []string
	for _, f := range faults {
		list = append(list, f.String())
	}
	return list
}

// What was done to the last line, or to the last lines, stays visible after further changes.
func TestVerifyStays(t *testing.T) {
	tests := []struct {
		name string
		edit func(lines []string) []string
	}{
		{"edited", func(l []string) []string { l[4] = strings.Replace(l[4], `"ann"`, `"bob"`, 1); return l }},
		{"removed", func(l []string) []string { return l[:4] }},
		{"two removed", func(l []string) []string { return l[:3] }},
		{"all removed", func([]string) []string { return nil }},
	}
	folder := written(t)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir, lines := folder(t)
			lines[4] += "\n"
			write(t, dir, retire.AuditFile, strings.Join(tt.edit(lines), ""))
			for range 2 {
				k := openKeeper(t, dir, nil)
				if s := set(t, k, retire.Closed); s.Version < 6 {
					t.Errorf("got %+v", s)
				}
			}
			v, err := retire.Verify(dir)
			if err != nil || len(v.Faults) != 1 || !strings.Contains(v.Faults[0].Detail, "says that the record before it, ") {
				t.Errorf("got %+v, %v", v, err)
			}
		})
	}
}

// What is wrong with the document shows too.
func TestVerifyDocument(t *testing.T) {
	tests := []struct {
		name, old, with string
		faults, notes   []string
	}{
		{"another stage", `"closed"`, `"open"`, []string{"retirement.json: is not what line 5 of the log recorded: it was edited by hand"}, nil},
		{"no anchor", `"audit"`, `"by"`, nil, []string{"retirement.json: was written by hand; the next server or command records it"}},
		{"damaged", `"closed"`, `"closd"`, nil, []string{`retirement.json: damaged: stage: "closd" is no stage; the stages are open, announce, warn, brownout, closed, drain, gone`}},
	}
	folder := written(t)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir, _ := folder(t)
			write(t, dir, retire.StateFile, strings.Replace(read(t, dir, retire.StateFile), tt.old, tt.with, 1))
			v, err := retire.Verify(dir)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.faults, texts(v.Faults)); diff != "" {
				t.Errorf("faults: -want +got\n%s", diff)
			}
			if diff := cmp.Diff(tt.notes, texts(v.Notes)); diff != "" {
				t.Errorf("notes: -want +got\n%s", diff)
			}
		})
	}
	dir, _ := folder(t)
	remove(t, dir, retire.StateFile)
	if v, err := retire.Verify(dir); err != nil || !v.Whole() || len(v.Notes) != 1 {
		t.Errorf("without a document: got %+v, %v", v, err)
	}
}

// Any byte of the log counts.
func TestVerifyAnyByte(t *testing.T) {
	dir, _ := written(t)(t)
	log := []byte(read(t, dir, retire.AuditFile))
	for i := 0; i < len(log)-1; i += 11 {
		log[i] ^= 1
		write(t, dir, retire.AuditFile, string(log))
		log[i] ^= 1
		v, err := retire.Verify(dir)
		if err != nil {
			t.Fatal(err)
		}
		if v.Whole() {
			t.Fatalf("byte %d (%q) was changed, and the log is called whole: %+v", i, log[i], v)
		}
	}
}
