package retire_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/mcp-dualstack/bridge/retire"
)

// What is taken for a document can be kept, asked and written: it comes back as it was, and no text in it breaks a line or a header.
func FuzzParseDocument(f *testing.F) {
	for _, text := range damagedTexts {
		if len(text) < 1000 {
			f.Add([]byte(text))
		}
	}
	f.Add([]byte(`{"version":7,"stage":"brownout","since":"2026-11-02T00:00:00Z","by":"ann","reason":"x","sunset":"2027-01-15T00:00:00+02:00","deprecation":"2026-11-02T00:00:00Z",` +
		`"brownouts":[{"id":"a","from":"2026-12-01T12:00:00Z","until":"2026-12-01T13:00:00Z","mode":"calls","percent":10,"aborted":"no"}],` +
		`"exemptions":[{"id":"sub:a","until":"2027-02-01T00:00:00Z","owner":"b","reason":"c"}],"schedule":[{"stage":"closed","at":"2027-01-08T00:00:00Z","held":"d"}],"tombstone":true,"audit":"00"}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		s, err := retire.ParseDocument(text)
		if err != nil {
			if err.Error() == "" {
				t.Error("an error that says nothing")
			}
			return
		}
		out, err := retire.DocumentText(s)
		if err != nil {
			if len(text) < retire.MaxDocumentBytes/8 {
				t.Fatalf("cannot be written: %v", err)
			}
			return
		}
		again, err := retire.ParseDocument(out)
		if err != nil || !retire.Equal(s, again) {
			t.Fatalf("%s became %s, %v", text, out, err)
		}
		now := time.Now()
		for _, point := range []retire.Point{retire.AtGet, retire.AtInitialize, retire.AtRequest, retire.AtMessage} {
			d := s.Decide(retire.Ask{Point: point, IDs: []string{"sub:a"}, Now: now})
			if d.Refuse && (d.Code != 410 && d.Code != 503 || d.Exempt || d.Tombstone) {
				t.Errorf("%s: got %+v", point, d)
			}
			if got := s.Sentence(d, links); len(got) > retire.MaxSentence || !strings.Contains(got, links.Successor) {
				t.Errorf("got the sentence %q", got)
			}
			s.Data(d, links)
		}
		if s.Stage != retire.Gone {
			if p, err := s.Plan(now, now.AddDate(2, 0, 0)); err == nil && p.Check() != nil {
				t.Errorf("planned a document that cannot be: %v", p.Check())
			}
		}
	})
}

// Whatever is in the log, each line is a record or is not, none is read beyond its bound, and what was recorded between rubbish is
// found again.
func FuzzScanLog(f *testing.F) {
	record := `{"time":"2026-12-01T12:00:00Z","version":1,"from":"open","to":"warn","origin":"cli","state":{"version":1,"stage":"warn"},"prev":""}`
	for _, text := range []string{"", "\n", record, record[:40], record + "\n" + record + "\n", "\x00\xff\r\n", `{"version":1,"state":null}`, "null\n[]\n"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		records, broken, err := retire.ScanLog(bytes.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		lines := 0
		for line := range bytes.SplitSeq(text, []byte("\n")) {
			if len(line) > 0 {
				lines++
			}
		}
		if len(records)+broken != lines {
			t.Errorf("%d records and %d other lines of %d", len(records), broken, lines)
		}
		for _, r := range records {
			if r.State == nil || r.State.Check() != nil || r.Version != r.State.Version || r.Version <= 0 {
				t.Errorf("got the record %+v", r)
			}
		}
		with := append(append([]byte(record+"\n"), text...), "\n"+record...)
		more, _, err := retire.ScanLog(bytes.NewReader(with))
		if err != nil || len(more) != len(records)+2 {
			t.Errorf("between two records: got %d, want %d, %v", len(more), len(records)+2, err)
		}
	})
}
