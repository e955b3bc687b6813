package retire

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// maxLineBytes bounds a line of the audit log that is read as a record: a document, and what stands around it.
const maxLineBytes = MaxDocumentBytes + 64<<10

// A line is one line of the audit log.
type line struct {
	number int     // from one
	hash   string  // SHA-256 of its bytes without the line break, in hex
	record *Record // nil: it is no record, because a crash cut it off or somebody changed it
	whole  bool    // a line break ends it
}

// scanLog calls f with each line that is not empty, in order, and reads no more of a line than a record may have.
func scanLog(r io.Reader, f func(line)) error {
	br := bufio.NewReaderSize(r, 64<<10)
	for n := 1; ; n++ {
		text, whole, err := readLine(br)
		if len(text) > 0 {
			sum := sha256.Sum256(text)
			record, _ := parseRecord(text) // what is wrong with it, Verify finds by the lines around it
			f(line{number: n, hash: hex.EncodeToString(sum[:]), record: record, whole: whole})
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// readLine returns a line without its break, cut off where it is too long to be a record.
func readLine(br *bufio.Reader) (text []byte, whole bool, err error) {
	for {
		part, err := br.ReadSlice('\n')
		if room := maxLineBytes + 1 - len(text); room > 0 {
			text = append(text, part[:min(room, len(part))]...)
		}
		switch {
		case err == nil:
			return bytes.TrimSuffix(text, []byte("\n")), true, nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return text, false, err
		}
	}
}

// parseRecord reads one line. Unknown members are left alone: a later version may have written them, and the hash of the line covers
// them.
func parseRecord(text []byte) (*Record, error) {
	r := &Record{}
	switch err := json.Unmarshal(text, r); {
	case len(text) > maxLineBytes:
		return nil, errors.New("it is too long")
	case err != nil:
		return nil, err
	case r.State == nil:
		return nil, errors.New("it has no state")
	case r.Version <= 0 || r.Version != r.State.Version:
		return nil, fmt.Errorf("its version %d is not that of its state, %d", r.Version, r.State.Version)
	}
	if err := r.State.Check(); err != nil {
		return nil, err
	}
	r.State.inUTC()
	return r, nil
}

// appendLog writes a record behind what is there and returns its hash. A line that a crash left unfinished is ended first.
func appendLog(dir string, r *Record, unfinished bool) (hash string, err error) {
	var b bytes.Buffer
	if unfinished {
		b.WriteByte('\n')
	}
	start := b.Len()
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(r); err != nil {
		return "", invalid(err)
	}
	text := b.Bytes()[start : b.Len()-1]
	if len(text) > maxLineBytes {
		return "", invalid(fmt.Errorf("its record has %d bytes, and at most %d are kept", len(text), maxLineBytes))
	}
	sum := sha256.Sum256(text)
	f, err := os.OpenFile(filepath.Join(dir, AuditFile), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600) // #nosec G304 -- in the state folder
	if err != nil {
		return "", err
	}
	_, err = f.Write(b.Bytes())
	if err := errors.Join(err, f.Sync(), f.Close(), syncDir(dir)); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum[:]), nil
}

// readLog calls f with each line of the log in dir. A log that is not there has none.
func readLog(dir string, f func(line)) error {
	file, err := os.Open(filepath.Join(dir, AuditFile)) // #nosec G304 -- in the state folder
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return errors.Join(scanLog(file, f), file.Close())
}
