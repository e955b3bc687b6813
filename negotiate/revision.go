// Package negotiate knows the MCP revisions: what each can do, how to tell which one a message speaks,
// which one to answer, and how the 2026-07-28 envelope and headers are read and written.
package negotiate

import (
	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
)

// A Revision is one published MCP revision. The zero value is none.
type Revision uint8

// The published revisions, oldest first.
const (
	None Revision = iota
	Rev20241105
	Rev20250326
	Rev20250618
	Rev20251125
	Rev20260728

	newest = Rev20260728
)

var dates = [...]string{
	None:        "",
	Rev20241105: "2024-11-05",
	Rev20250326: "2025-03-26",
	Rev20250618: "2025-06-18",
	Rev20251125: "2025-11-25",
	Rev20260728: "2026-07-28",
}

// Parse returns the revision of that date; ok is false if none was published under it.
func Parse(s string) (r Revision, ok bool) {
	for r := Rev20241105; r <= newest; r++ {
		if dates[r] == s {
			return r, true
		}
	}
	return None, false
}

// String returns the date of r, or "" for None.
func (r Revision) String() string {
	if r > newest {
		return ""
	}
	return dates[r]
}

// Modern reports whether r is of the per-request metadata era (2026-07-28). None is not.
func (r Revision) Modern() bool { return Modern.Has(r) }

// A Set is a set of revisions. The zero value is empty. Sets are joined with | and cut with &, so
// the newest legacy revision of s is (s & Legacy).Newest().
type Set uint16

// All has every published revision; Legacy those of the handshake era; Modern those of the per-request era.
const (
	All    Set = 1<<Rev20241105 | 1<<Rev20250326 | 1<<Rev20250618 | 1<<Rev20251125 | 1<<Rev20260728
	Legacy Set = 1<<Rev20241105 | 1<<Rev20250326 | 1<<Rev20250618 | 1<<Rev20251125
	Modern Set = 1 << Rev20260728
)

// SetOf returns the set of the given revisions. None is no member of any set.
func SetOf(rs ...Revision) Set {
	var s Set
	for _, r := range rs {
		s |= 1 << r
	}
	return s & All
}

// ReadSet returns the published revisions that a raw JSON array of strings names, such as
// supportedVersions of a DiscoverResult or data.supported of -32022 (both 2026-07-28). Other
// elements are passed over; what is not an array gives the empty set.
func ReadSet(raw []byte) Set {
	var s Set
	jsonrpc.Elements(raw, func(v []byte) bool {
		if date, ok := jsonrpc.String(v); ok {
			if r, ok := Parse(date); ok {
				s |= 1 << r
			}
		}
		return true
	})
	return s
}

// Has reports whether r is in s.
func (s Set) Has(r Revision) bool { return r != None && s&(1<<r) != 0 }

// Newest returns the newest revision in s, or None if s is empty.
func (s Set) Newest() Revision {
	for r := newest; r > None; r-- {
		if s.Has(r) {
			return r
		}
	}
	return None
}

// notAfter returns the newest revision in s whose date is not later than date, or None.
func (s Set) notAfter(date string) Revision {
	for r := newest; r > None; r-- {
		if s.Has(r) && dates[r] <= date {
			return r
		}
	}
	return None
}

// Strings returns the dates of the revisions in s, newest first.
func (s Set) Strings() []string {
	list := make([]string, 0, len(dates))
	for r := newest; r > None; r-- {
		if s.Has(r) {
			list = append(list, dates[r])
		}
	}
	return list
}

// JSON returns the dates of the revisions in s, newest first, as a raw JSON array of strings.
func (s Set) JSON() []byte {
	out := append(make([]byte, 0, len(dates)*len(`"2026-07-28",`)), '[')
	for i, date := range s.Strings() {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, '"')
		out = append(out, date...)
		out = append(out, '"')
	}
	return append(out, ']')
}

// isDate reports whether s has the shape of a revision's name, YYYY-MM-DD.
func isDate(s string) bool {
	if len(s) != len("2026-07-28") {
		return false
	}
	for i := range len(s) {
		if i == 4 || i == 7 {
			if s[i] != '-' {
				return false
			}
			continue
		}
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return true
}
