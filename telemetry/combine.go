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
}

// combine puts ledgers together, in any order, each as often as one likes, with the same result: every replica's own counts are added
// up. Of two copies of one ledger the newer has all that the older has. A time is unwatched when no replica watched: one that is down
// sees no clients, but neither do clients see it. live says that the ledgers are of servers that run, up to now.
func combine(ledgers []*content, now int64, live bool) *record {
	r := &record{content: newContent(unlimited), replicas: []Replica{}, gaps: []Gap{}}
	for i, c := range distinct(ledgers) {
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
// replica id both, and each what the other has not: they count as two, and what they have in common twice.
func distinct(ledgers []*content) []*content {
	all := slices.Clone(ledgers)
	slices.SortStableFunc(all, func(a, b *content) int {
		return cmp.Or(cmp.Compare(a.replica, b.replica), cmp.Compare(b.flushed, a.flushed), cmp.Compare(len(b.identities), len(a.identities)))
	})
	var out []*content
	for _, c := range all {
		if !slices.ContainsFunc(out, func(newer *content) bool { return newer.replica == c.replica && newer.includes(c) }) {
			out = append(out, c)
		}
	}
	return out
}

// includes reports whether c has seen everybody whom o, of the same replica and not newer, has, and as lately.
func (c *content) includes(o *content) bool {
	for id, d := range o.identities {
		if mine := c.identities[id]; mine == nil || mine.last < d.last {
			return false
		}
	}
	return true
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
