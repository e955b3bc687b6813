package session

import "sync/atomic"

// A Quota bounds the calls in flight of many sessions together.
type Quota struct {
	max   int64
	taken atomic.Int64
}

// NewQuota returns a quota of that many calls.
func NewQuota(max int) *Quota { return &Quota{max: int64(max)} }

// take takes room for one call, if there is any. A nil quota always has.
func (q *Quota) take() bool {
	if q == nil || q.taken.Add(1) <= q.max {
		return true
	}
	q.taken.Add(-1)
	return false
}

// give gives back what take took.
func (q *Quota) give() {
	if q != nil {
		q.taken.Add(-1)
	}
}
