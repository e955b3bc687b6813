package guard

import "sync/atomic"

// A Budget bounds how many bytes many hold together. The zero value has none; its methods may be called concurrently.
type Budget struct {
	max  int64
	used atomic.Int64
}

// NewBudget returns a Budget of max bytes.
func NewBudget(max int64) *Budget { return &Budget{max: max} }

// Take takes n bytes, to be given back, and reports whether there were so many left.
func (b *Budget) Take(n int64) bool {
	if b.used.Add(n) <= b.max {
		return true
	}
	b.used.Add(-n)
	return false
}

// Hold takes n bytes whether there are so many left or not: they are there already.
func (b *Budget) Hold(n int64) { b.used.Add(n) }

// Give gives n bytes back.
func (b *Budget) Give(n int64) { b.used.Add(-n) }

// Fits reports whether n bytes are left at the moment.
func (b *Budget) Fits(n int64) bool { return b.used.Load()+n <= b.max }
