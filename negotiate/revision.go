// Package negotiate knows the MCP revisions: what each can do, how to tell which one a message speaks,
// which one to answer, and how the 2026-07-28 envelope and headers are read and written.
package negotiate

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
)

// Parse returns the revision of that date; ok is false if none was published under it.
func Parse(s string) (r Revision, ok bool) { panic("not built") }

// String returns the date of r, or "" for None.
func (r Revision) String() string { panic("not built") }

// Modern reports whether r is of the per-request metadata era (2026-07-28). None is not.
func (r Revision) Modern() bool { panic("not built") }

// A Set is a set of revisions. The zero value is empty.
type Set uint16

// All has every published revision; Legacy those of the handshake era; Modern those of the per-request era.
const (
	All    Set = 1<<Rev20241105 | 1<<Rev20250326 | 1<<Rev20250618 | 1<<Rev20251125 | 1<<Rev20260728
	Legacy Set = 1<<Rev20241105 | 1<<Rev20250326 | 1<<Rev20250618 | 1<<Rev20251125
	Modern Set = 1 << Rev20260728
)

// Has reports whether r is in s.
func (s Set) Has(r Revision) bool { return r != None && s&(1<<r) != 0 }

// Strings returns the dates of the revisions in s, newest first.
func (s Set) Strings() []string { panic("not built") }

// JSON returns the dates of the revisions in s, newest first, as a raw JSON array of strings.
func (s Set) JSON() []byte { panic("not built") }
