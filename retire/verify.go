package retire

import (
	"errors"
	"fmt"
	"io/fs"
)

// A Verification says whether the audit log is what was written. Every line names the one before by its SHA-256, and the document names the
// last, so that lines which were changed, removed, added or moved are found. It takes somebody who can write both files and does the sums
// again to deceive it: keep Head elsewhere to find that too.
type Verification struct {
	Records int     `json:"records"`
	Head    string  `json:"head"`    // SHA-256 of the last record, in hex; empty: there is none
	Version int64   `json:"version"` // of the last record
	Faults  []Fault `json:"faults"`  // what must not be; empty: the log is whole
	Notes   []Fault `json:"notes"`   // what a crash leaves behind, and what the keeper has not taken over yet
}

// A Fault is something about a line of the log, or about the document.
type Fault struct {
	Line   int    `json:"line,omitempty"` // from one; zero: it is about the document
	Detail string `json:"detail"`
}

func (f Fault) String() string {
	if f.Line == 0 {
		return StateFile + ": " + f.Detail
	}
	return fmt.Sprintf("%s, line %d: %s", AuditFile, f.Line, f.Detail)
}

// Whole reports whether nothing was found that must not be.
func (v *Verification) Whole() bool { return len(v.Faults) == 0 }

// Verify checks the files in the folder dir. The error is about files that cannot be read.
func Verify(dir string) (*Verification, error) {
	for try := 0; ; try++ {
		text, err := readDocument(dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		var lines []line
		if err := readLog(dir, func(l line) { lines = append(lines, l) }); err != nil {
			return nil, err
		}
		v := verifyChain(lines)
		v.verifyDocument(lines, text, err == nil)
		// A change between the two reads looks as if one file was behind the other.
		if len(v.Faults)+len(v.Notes) == 0 || try > 0 {
			return v, nil
		}
	}
}

// verifyChain checks the lines against each other.
func verifyChain(lines []line) *Verification {
	v := &Verification{Faults: []Fault{}, Notes: []Fault{}}
	places := make(map[string]int, len(lines))
	for _, l := range lines {
		if l.record != nil {
			places[l.hash] = l.number
		}
	}
	var broken []int // lines since the last record that are none
	previous := 0
	for _, l := range lines {
		if l.record == nil {
			broken = append(broken, l.number)
			continue
		}
		switch at, there := places[l.record.Prev]; {
		case l.record.Prev == v.Head:
			v.torn(broken)
		case l.record.Prev == "":
			v.fault(l.number, "is a first line: what stood before it was put there, or lines were moved")
		case there:
			v.fault(l.number, "follows line %d: lines were moved, or what stands between them was put there", at)
		default:
			v.fault(l.number, "the line before it was changed or removed")
		}
		if l.record.Lost != "" {
			v.fault(l.number, "says that the record before it, %.12s, was changed or removed, or that the document came from elsewhere", l.record.Lost)
		}
		if l.record.Version <= v.Version {
			v.fault(l.number, "version %d comes after version %d, of line %d", l.record.Version, v.Version, previous)
		}
		v.Records, v.Head, v.Version, previous, broken = v.Records+1, l.hash, l.record.Version, l.number, nil
	}
	v.torn(broken)
	return v
}

func (v *Verification) fault(number int, format string, args ...any) {
	v.Faults = append(v.Faults, Fault{number, fmt.Sprintf(format, args...)})
}

// torn notes lines that nothing refers to: if one of them had been a record, the line after it would not fit.
func (v *Verification) torn(numbers []int) {
	for _, n := range numbers {
		v.Notes = append(v.Notes, Fault{n, "is no record; a crash cut off what was being written"})
	}
}

// verifyDocument checks the end of the chain, which the document names.
func (v *Verification) verifyDocument(lines []line, text []byte, exists bool) {
	if !exists {
		if len(lines) > 0 {
			v.Notes = append(v.Notes, Fault{0, "is gone"})
		}
		return
	}
	d, err := parseDocument(text)
	if err != nil {
		v.Notes = append(v.Notes, Fault{0, err.Error()})
		return
	}
	var named *line
	for i := range lines {
		if lines[i].record != nil && lines[i].hash == d.Audit {
			named = &lines[i]
		}
	}
	switch {
	case d.Audit == "":
		v.Notes = append(v.Notes, Fault{0, "was written by hand; the next server or command records it"})
	case named == nil:
		v.Faults = append(v.Faults, Fault{0, "the record of its last change was changed or removed from the log"})
	case !equal(&d.State, named.record.State):
		v.Faults = append(v.Faults, Fault{0, fmt.Sprintf("is not what line %d of the log recorded: it was edited by hand", named.number)})
	case named.hash != v.Head:
		v.Notes = append(v.Notes, Fault{0, fmt.Sprintf("is that of line %d of the log; the change recorded last was not carried out, or the file was put back", named.number)})
	}
}
