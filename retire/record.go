package retire

import (
	"net/netip"
	"time"
)

// A Record is one line of the audit log: one change. Times are UTC, in milliseconds.
type Record struct {
	Time    time.Time    `json:"time"`
	Version int64        `json:"version"` // of State
	From    Stage        `json:"from"`
	To      Stage        `json:"to"`
	Actor   string       `json:"actor,omitempty"`
	Origin  Origin       `json:"origin"`
	Remote  netip.Prefix `json:"remote,omitzero"`
	Reason  string       `json:"reason,omitempty"`
	Forced  bool         `json:"forced,omitempty"` // despite a failed check, whose report Digest names
	Digest  string       `json:"digest,omitempty"` // of the report that was looked at
	Undoes  int64        `json:"undoes,omitempty"` // the version that this change took back
	Found   int64        `json:"found,omitempty"`  // at origin config: the version in the document; records of later ones were not carried out
	Lost    string       `json:"lost,omitempty"`   // at origin config: hash of a record that the document named and that was no longer in the log
	Note    string       `json:"note,omitempty"`   // what the keeper has to say about it
	State   *State       `json:"state"`            // the document after the change
	Prev    string       `json:"prev"`             // SHA-256 of the line before, in hex; empty in the first one
}

// Undoable returns the change that an undo takes back, which is the last that stands, and the document before it, as far as they are in
// the records. The error is ErrNothingToUndo.
func Undoable(records []Record) (last *Record, before *State, err error) {
	var standing []int // indexes of the changes that stand
	for i := range records {
		r := &records[i]
		if r.Found > 0 {
			for n := len(standing); n > 0 && records[standing[n-1]].Version > r.Found; n-- {
				standing = standing[:n-1]
			}
			if n := len(standing); n > 0 && sameButVersion(r.State, records[standing[n-1]].State) {
				continue // nothing was changed but the number
			}
		}
		switch n := len(standing); {
		case r.Undoes == 0:
			standing = append(standing, i)
		case n > 0:
			standing = standing[:n-1]
		}
	}
	switch n := len(standing); n {
	case 0:
		return nil, nil, ErrNothingToUndo
	case 1:
		return &records[standing[0]], &State{Stage: records[standing[0]].From}, nil
	default:
		return &records[standing[n-1]], records[standing[n-2]].State, nil
	}
}

func sameButVersion(a, b *State) bool {
	c := a.clone()
	c.Version = b.Version
	return equal(c, b)
}
