package retire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// Names of the files in the folder.
const (
	StateFile = "retirement.json"
	AuditFile = "audit.jsonl"
	lockFile  = "retirement.lock"
)

// MaxDocumentBytes bounds the text of a document.
const MaxDocumentBytes = 1 << 20

// A document is the content of the state file.
type document struct {
	State
	Audit string `json:"audit,omitempty"` // SHA-256 of the line of the audit log that says how it came to be: without it, lines cut off the end would not be missed
}

// errDamaged says that a file has something in it that is no document.
var errDamaged = errors.New("damaged")

// parseDocument reads {version, stage, since, by, reason, sunset, deprecation, brownouts, exemptions, schedule, tombstone, audit}. An unknown
// member is an error: it may be a date or an exemption whose name was misspelt.
func parseDocument(text []byte) (*document, error) {
	d := &document{}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(d); err != nil {
		return nil, fmt.Errorf("%w: %w", errDamaged, err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%w: something stands after the document", errDamaged)
	}
	if err := d.Check(); err != nil {
		return nil, fmt.Errorf("%w: %w", errDamaged, err)
	}
	d.inUTC()
	return d, nil
}

// inUTC puts every time into UTC, so that equal documents are equal texts.
func (s *State) inUTC() {
	for _, t := range []*time.Time{&s.Since, &s.Sunset, &s.Deprecation} {
		*t = t.UTC()
	}
	for i := range s.Brownouts {
		w := &s.Brownouts[i]
		w.From, w.Until = w.From.UTC(), w.Until.UTC()
	}
	for i := range s.Exemptions {
		s.Exemptions[i].Until = s.Exemptions[i].Until.UTC()
	}
	for i := range s.Schedule {
		s.Schedule[i].At = s.Schedule[i].At.UTC()
	}
}

// text writes a checked document, one member a line.
func (d *document) text() ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(d); err != nil {
		return nil, invalid(err)
	}
	if b.Len() > MaxDocumentBytes {
		return nil, invalid(fmt.Errorf("it has %d bytes, and at most %d are kept", b.Len(), MaxDocumentBytes))
	}
	return b.Bytes(), nil
}

// equal reports whether two documents say the same. Both are checked and in UTC.
func equal(a, b *State) bool {
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && bytes.Equal(x, y)
}

// readDocument returns the text of the state file. Of what is too long to be a document it returns the beginning, which is none.
func readDocument(dir string) ([]byte, error) {
	f, err := os.Open(filepath.Join(dir, StateFile)) // #nosec G304 -- in the state folder
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(f, MaxDocumentBytes+1))
	return text, errors.Join(err, f.Close())
}

// replace puts text in place of the state file, so that a reader sees the old one or the new one whatever happens, and after
// it has returned the new one.
func replace(dir string, text []byte) error {
	f, err := os.CreateTemp(dir, StateFile+".*.tmp") // readable for its owner only
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), filepath.Join(dir, StateFile))
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return syncDir(dir)
}

// syncDir makes sure that what was renamed or created in dir stays so. Not every system can; there nothing is lost but the
// certainty.
func syncDir(dir string) error {
	d, err := os.Open(dir) // #nosec G304 -- the state folder
	if err != nil {
		return err
	}
	_ = d.Sync() // see above
	return d.Close()
}

// setAside renames a damaged state file, so that it can be looked at.
func setAside(dir string, now time.Time) error {
	file := filepath.Join(dir, StateFile)
	err := os.Rename(file, file+now.UTC().Format(".damaged-20060102T150405.000"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
