package telemetry

import (
	"cmp"
	"slices"
)

// A record is what one or several ledgers hold together.
type record struct {
	*content

	to       int64 // Unix milliseconds up to which it goes
	replicas []Replica
	blind    []interval // when nobody was watching
	gaps     []Gap
	divided  int64 // when one of two ledgers of one replica id last recorded what the other lacks, Unix milliseconds; 0: there are none such
}

// combine puts ledgers together, in any order, each as often as one likes, with the same result: every replica's own counts are added
// up. Of two copies of one ledger the newer has all that the older has. A time is unwatched when no replica watched: one that is down
// sees no clients, but neither do clients see it. live says that the ledgers are of servers that run, up to now.
func combine(ledgers []*content, now int64, live bool) *record {
	r := &record{content: newContent(unlimited), replicas: []Replica{}, gaps: []Gap{}}
	all, divided := distinct(ledgers)
	r.divided = divided
	for i, c := range all {
		since := c.flushed
		if live || since == 0 {
			since = now
		}
		r.merge(c)
		r.to = max(r.to, since)
		r.replicas = append(r.replicas, Replica{ID: c.replica, From: moment(c.from), LastFlush: moment(c.flushed)})
		blind := c.unwatched(since, now)
		if i > 0 {
			blind = common(r.blind, blind)
		}
		r.blind = blind
		r.addGaps(c)
	}
	r.sortGaps(now, live)
	return r
}

// distinct returns the ledgers by replica, without older copies of others. Two servers that began with copies of one file have its
// replica id both, and each what the other has not: they count as two, and what they have in common twice. divided is when one of them
// last recorded what a newer one of its id lacks, in Unix milliseconds; 0: none did.
func distinct(ledgers []*content) (out []*content, divided int64) {
	all := slices.Clone(ledgers)
	slices.SortStableFunc(all, func(a, b *content) int {
		return cmp.Or(cmp.Compare(a.replica, b.replica), cmp.Compare(b.flushed, a.flushed))
	})
	for i, c := range all {
		if copied(all, i) {
			continue
		}
		for _, newer := range out {
			if newer.replica == c.replica {
				divided = max(divided, newer.lacks(c))
			}
		}
		out = append(out, c)
	}
	return out, divided
}

// copied reports whether another of the ledgers has all that the one at i has. Of two that are alike the first counts.
func copied(all []*content, i int) bool {
	c := all[i]
	for k, o := range all {
		if k != i && o.replica == c.replica && o.flushed >= c.flushed && o.lacks(c) == 0 && (k < i || c.lacks(o) > 0) {
			return true
		}
	}
	return false
}

// lacks returns when o, of the same replica and not newer, last recorded what c does not have and a verdict asks for; 0: c has it all.
func (c *content) lacks(o *content) (last int64) {
	for id, d := range o.identities {
		for transport, t := range d.transports {
			if t.last > c.lastOver(id, transport) {
				last = max(last, t.last)
			}
		}
	}
	for transport, t := range o.evicted {
		if t.last > c.evicted[transport].last {
			last = max(last, t.last)
		}
	}
	if until := o.lostUntil(); until > c.lostUntil() {
		last = max(last, until)
	}
	return last
}

// lastOver returns when an identity last used a transport; one that had to make room may be among the evicted.
func (c *content) lastOver(id, transport string) int64 {
	last := c.evicted[transport].last
	if d := c.identities[id]; d != nil {
		last = max(last, d.transports[transport].last)
	}
	return last
}

func (r *record) addGaps(c *content) {
	for _, g := range c.gaps {
		r.gaps = append(r.gaps, Gap{From: moment(g.from), To: moment(g.to), Kind: g.kind, Replica: c.replica})
	}
}

// sortGaps orders the gaps and adds the one at the end: a ledger that nobody writes to any more.
func (r *record) sortGaps(now int64, live bool) {
	if n := len(r.blind); !live && n > 0 && r.blind[n-1].to == now && r.blind[n-1].from >= r.from {
		r.gaps = append(r.gaps, Gap{From: moment(r.to), To: moment(now), Kind: GapDowntime})
	}
	slices.SortFunc(r.gaps, func(a, b Gap) int {
		return cmp.Or(a.From.Compare(b.From), a.To.Compare(b.To), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Replica, b.Replica))
	})
}
