package telemetry

import (
	"cmp"
	"maps"
	"slices"

	"github.com/mcp-dualstack/bridge/exchange"
)

// A dossier is what is kept of one identity, or a part of it. Dossiers of one identity are joined by add, in any order, with the
// same result.
type dossier struct {
	ident
	first, last int64 // Unix milliseconds

	names      map[person]int64    // when last seen; at most maxKept
	revisions  map[spoken]int64    // when last seen; at most maxKept per transport and role
	transports map[string]carried  // what it did, ever
	days       map[dayOf]dayCounts // what it did on the days that are kept
	signs      map[signOf]sight    // at most maxSigns
}

const (
	maxKept = 8 // names, and revisions of each role, of an identity: the last seen ones

	// maxSigns is more than there are kinds of signs with all their details, so that none is ever let go of.
	maxSigns = 32
)

// A spoken is a revision that was asked for or spoken over a transport.
type spoken struct {
	transport string
	role      string // roleRequested or roleNegotiated
	revision  string
}

const (
	roleRequested  = "requested"
	roleNegotiated = "negotiated"
)

// carried is what an identity did over one transport.
type carried struct {
	tally
	bytes int64
}

func (c *carried) add(o carried) {
	c.tally.add(o.tally)
	c.bytes += o.bytes
}

// A dayOf names a day of one transport: the number of days since 1970-01-01 UTC.
type dayOf struct {
	transport string
	day       int64
}

func (d dayOf) compare(o dayOf) int {
	return cmp.Or(cmp.Compare(d.day, o.day), cmp.Compare(d.transport, o.transport))
}

// dayCounts is what was done on a day. A day without any counts is one of use all the same: a session was open.
type dayCounts struct{ sessions, calls, errors, refusals int64 }

func (d dayCounts) plus(o dayCounts) dayCounts {
	return dayCounts{d.sessions + o.sessions, d.calls + o.calls, d.errors + o.errors, d.refusals + o.refusals}
}

type signOf struct{ kind, detail string }

func (s *sight) add(o sight) {
	s.n += o.n
	s.first, s.last = span(s.first, s.last, o.first, o.last)
}

func newDossier(who ident) *dossier {
	return &dossier{
		ident: who, names: make(map[person]int64), revisions: make(map[spoken]int64), transports: make(map[string]carried),
		days: make(map[dayOf]dayCounts), signs: make(map[signOf]sight),
	}
}

// clone returns a copy that shares nothing with d.
func (d *dossier) clone() *dossier {
	c := *d
	c.names, c.revisions, c.transports = maps.Clone(d.names), maps.Clone(d.revisions), maps.Clone(d.transports)
	c.days, c.signs = maps.Clone(d.days), maps.Clone(d.signs)
	return &c
}

// add adds o to d.
func (d *dossier) add(o *dossier) {
	d.first, d.last = span(d.first, d.last, o.first, o.last)
	latest(d.names, o.names)
	latest(d.revisions, o.revisions)
	for transport, t := range o.transports {
		sum := d.transports[transport]
		sum.add(t)
		d.transports[transport] = sum
	}
	for day, n := range o.days {
		d.days[day] = d.days[day].plus(n)
	}
	for k, s := range o.signs {
		sum := d.signs[k]
		sum.add(s)
		d.signs[k] = sum
	}
	d.trim()
}

func latest[K comparable](into, from map[K]int64) {
	for k, at := range from {
		into[k] = max(into[k], at)
	}
}

// trim lets go of what is beyond maxKept.
func (d *dossier) trim() {
	if len(d.names) > maxKept {
		newest := func(p person) int64 { return d.names[p] }
		for _, p := range oldest(maps.Keys(d.names), newest, person.compare, len(d.names)-maxKept) {
			delete(d.names, p)
		}
	}
	if len(d.signs) > maxSigns {
		newest := func(s signOf) int64 { return d.signs[s].last }
		for _, s := range oldest(maps.Keys(d.signs), newest, signOf.compare, len(d.signs)-maxSigns) {
			delete(d.signs, s)
		}
	}
	if len(d.revisions) > maxKept {
		d.trimRevisions()
	}
}

func (d *dossier) trimRevisions() {
	groups := make(map[spoken][]spoken)
	for s := range d.revisions {
		g := spoken{transport: s.transport, role: s.role}
		groups[g] = append(groups[g], s)
	}
	for _, group := range groups {
		if len(group) <= maxKept {
			continue
		}
		newest := func(s spoken) int64 { return d.revisions[s] }
		for _, s := range oldest(slices.Values(group), newest, spoken.compare, len(group)-maxKept) {
			delete(d.revisions, s)
		}
	}
}

// oldest returns the n keys that were last seen first. The order of keys seen at the same time is that of compare.
func oldest[K comparable](keys func(func(K) bool), seen func(K) int64, compare func(K, K) int, n int) []K {
	sorted := slices.SortedFunc(keys, func(a, b K) int { return cmp.Or(cmp.Compare(seen(a), seen(b)), compare(a, b)) })
	return sorted[:n]
}

func (p person) compare(o person) int {
	return cmp.Or(cmp.Compare(p.name, o.name), cmp.Compare(p.version, o.version), cmp.Compare(p.proxy, o.proxy))
}

func (s signOf) compare(o signOf) int {
	return cmp.Or(cmp.Compare(s.kind, o.kind), cmp.Compare(s.detail, o.detail))
}

func (s spoken) compare(o spoken) int {
	return cmp.Or(cmp.Compare(s.transport, o.transport), cmp.Compare(s.role, o.role), cmp.Compare(s.revision, o.revision))
}

// legacyLast returns when HTTP+SSE was used last, 0 if never.
func (d *dossier) legacyLast() int64 { return d.transports[exchange.HTTPSSE].last }

// anonymous reports whether the identity counts against the quota of those that nobody has verified.
func (who ident) anonymous() bool { return who.kind != KindPrincipal }

// addDossier adds d to the identity's. When there is no room for another one of its quota, the one is evicted that is
// missed least: what it did stays in the evicted record of each transport.
func (c *content) addDossier(d *dossier) {
	if old := c.identities[d.id]; old != nil {
		old.add(d)
		return
	}
	if c.quota(d.anonymous()) <= c.held[d.anonymous()] {
		c.evict(d.anonymous())
	}
	d = d.clone()
	d.trim()
	c.identities[d.id] = d
	c.held[d.anonymous()]++
}

// quota returns how many identities there may be.
func (c *content) quota(anonymous bool) int {
	if anonymous {
		return c.limits.anonymous
	}
	return c.limits.identities - c.limits.anonymous
}

// evictedAtOnce is the share of a quota that is freed when it is full, so that a flood does not cost a search each.
const evictedAtOnce = 16

// evict frees room: first identities without legacy use, the last seen ones last.
func (c *content) evict(anonymous bool) {
	var of []*dossier
	for _, d := range c.identities {
		if d.anonymous() == anonymous {
			of = append(of, d)
		}
	}
	slices.SortFunc(of, func(a, b *dossier) int {
		return cmp.Or(cmp.Compare(min(a.legacyLast(), 1), min(b.legacyLast(), 1)), cmp.Compare(a.last, b.last), cmp.Compare(a.id, b.id))
	})
	for _, d := range of[:min(len(of), c.quota(anonymous)/evictedAtOnce+1)] {
		delete(c.identities, d.id)
		c.held[anonymous]--
		c.dropped[d.kind]++
		c.addEvicted(d.transports)
	}
}

func (c *content) addEvicted(transports map[string]carried) {
	for transport, t := range transports {
		sum := c.evicted[transport]
		sum.add(t)
		c.evicted[transport] = sum
	}
}
