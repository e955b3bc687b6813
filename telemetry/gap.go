package telemetry

import (
	"cmp"
	"slices"
)

// A gap is a time in which nothing was recorded, in Unix milliseconds.
type gap struct {
	from, to int64
	kind     string
}

// maxGaps is how many gaps are kept. When there are more, the two oldest become one that spans both: that can only make the
// evidence weaker than it is.
const maxGaps = 1000

// shortestGap is the shortest time of not watching that is recorded, in milliseconds.
const shortestGap = 1000

func (g gap) compare(o gap) int {
	return cmp.Or(cmp.Compare(g.from, o.from), cmp.Compare(g.to, o.to), cmp.Compare(g.kind, o.kind))
}

// addGap adds a gap, in order.
func (c *content) addGap(g gap) {
	i, found := slices.BinarySearchFunc(c.gaps, g, gap.compare)
	if found {
		return
	}
	c.gaps = slices.Insert(c.gaps, i, g)
	if len(c.gaps) > maxGaps {
		a, b := c.gaps[0], c.gaps[1]
		a.to = max(a.to, b.to)
		if b.kind == GapDamaged {
			a.kind = GapDamaged // the one that no other replica makes up for
		}
		c.gaps = slices.Insert(c.gaps[2:], 0, a)
	}
}

// lastSure returns when c was last written, 0 if never or if the clock had been set forward within the last day of that.
func (c *content) lastSure() int64 {
	if slices.ContainsFunc(c.gaps, func(g gap) bool { return g.kind == GapClock && g.to > c.flushed-evenTime.Milliseconds() }) {
		return 0
	}
	return c.flushed
}

// An interval is a time from one moment up to another, in Unix milliseconds.
type interval struct{ from, to int64 }

func (i interval) length() int64 { return i.to - i.from }

// joined returns the same times as intervals in order that do not touch.
func joined(list []interval) []interval {
	slices.SortFunc(list, func(a, b interval) int { return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.to, b.to)) })
	var out []interval
	for _, i := range list {
		switch {
		case i.to <= i.from:
		case len(out) > 0 && i.from <= out[len(out)-1].to:
			out[len(out)-1].to = max(out[len(out)-1].to, i.to)
		default:
			out = append(out, i)
		}
	}
	return out
}

// common returns the times that are in both of two lists, each as joined returns it.
func common(a, b []interval) []interval {
	var out []interval
	for len(a) > 0 && len(b) > 0 {
		i := interval{max(a[0].from, b[0].from), min(a[0].to, b[0].to)}
		if i.from < i.to {
			out = append(out, i)
		}
		if a[0].to < b[0].to {
			a = a[1:]
		} else {
			b = b[1:]
		}
	}
	return out
}

// within returns the parts of a list that are in an interval.
func within(list []interval, i interval) []interval { return common(list, []interval{i}) }

// unwatched returns when the server of c was not watching, up to now. since is when it was last known to.
func (c *content) unwatched(since, now int64) []interval {
	list := []interval{{0, c.from}}
	for _, g := range c.gaps {
		if g.kind != GapDamaged {
			list = append(list, interval{g.from, g.to})
		}
	}
	if now-since >= trailingGap {
		list = append(list, interval{since, now})
	}
	return joined(list)
}

// trailingGap is for how long a server that runs may leave its file alone, in milliseconds: twice DefaultHeartbeat.
const trailingGap = 2 * 60 * 1000

// lost returns the times of which the record is lost.
func (c *content) lost() []interval {
	var list []interval
	for _, g := range c.gaps {
		if g.kind == GapDamaged {
			list = append(list, interval{g.from, g.to})
		}
	}
	return joined(list)
}

// lostUntil returns the end of those times, 0 if there are none.
func (c *content) lostUntil() int64 {
	lost := c.lost()
	if len(lost) == 0 {
		return 0
	}
	return lost[len(lost)-1].to
}

// prune lets go of all that was last seen before a time, in Unix milliseconds.
func (c *content) prune(before int64) {
	for k, t := range c.clients {
		if t.last < before {
			delete(c.clients, k)
		}
	}
	for k, t := range c.overflow {
		if t.last < before {
			delete(c.overflow, k)
		}
	}
	for f, s := range c.evidence {
		if s.last < before {
			delete(c.evidence, f)
			if f.version != other {
				c.named--
			}
		}
	}
	for id, d := range c.identities {
		if d.last < before {
			c.remove(id)
			continue
		}
		for day := range d.days {
			if day.day < before/dayMillis {
				delete(d.days, day)
			}
		}
	}
	for k := range c.totals {
		if k.day < before/dayMillis {
			delete(c.totals, k)
		}
	}
	for transport, t := range c.evicted {
		if t.last < before {
			delete(c.evicted, transport)
		}
	}
	c.gaps = slices.DeleteFunc(c.gaps, func(g gap) bool { return g.to < before })
}

// remove takes an identity out; ok is false if there is none of that id.
func (c *content) remove(id string) (ok bool) {
	d := c.identities[id]
	if d != nil {
		delete(c.identities, id)
		c.held[d.anonymous()]--
	}
	return d != nil
}
