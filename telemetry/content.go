package telemetry

import (
	"encoding/hex"
	"math"
)

// A key says which row a use is counted in. Every part is clean (see clean). The transport and the
// revisions are independent: 2024-11-05 is spoken over Streamable HTTP and 2025-11-25 over HTTP+SSE.
type key struct {
	name, version string // of clientInfo; empty when it was not given
	proxy         string // "mcp-remote VERSION" or empty
	transport     string
	requested     string // the revision as sent
	negotiated    string // the revision spoken
}

// A tally is what has been counted in one row. Times are Unix milliseconds, zero when unknown.
type tally struct {
	Counts
	first, last int64
}

func (t *tally) add(o tally) {
	t.Sessions += o.Sessions
	t.Uses += o.Uses
	t.Reopened += o.Reopened
	t.Calls += o.Calls
	t.Errors += o.Errors
	t.Refusals += o.Refusals
	t.Failures += o.Failures
	t.first, t.last = span(t.first, t.last, o.first, o.last)
}

// span joins two spans of time; zero is unknown.
func span(first, last, otherFirst, otherLast int64) (int64, int64) {
	if first == 0 || otherFirst != 0 && otherFirst < first {
		first = otherFirst
	}
	return first, max(last, otherLast)
}

// A fact is what an evidence row is about.
type fact struct {
	kind      string
	transport string
	version   string // clean; other when there was no room
}

// other stands for every version that found no room (retirement.md 7, Admission).
const other = "_OTHER"

// A sight is how often and when a fact was seen.
type sight struct {
	n           int64
	first, last int64
}

// content is a ledger or a part of one. Contents are joined by merge, in any order, with the same
// result as long as the bounds are not reached.
type content struct {
	clients  map[key]tally
	overflow map[string]tally // by transport: what found no room in clients
	evidence map[fact]sight

	identities map[string]*dossier // by id
	evicted    map[string]carried  // by transport: what identities did for which there was no room
	dropped    evictions           // how many they were; for the counters, and not kept
	gaps       []gap
	totals     map[totalOf]dayCounts // at most retentionDays of each transport and revision

	replica    string // the file's own name for itself
	from       int64  // Unix milliseconds since when is observed; zero: not said
	flushed    int64  // Unix milliseconds of the last flush; zero: never
	movedAside string // the name a damaged file before this one was given

	limits limits
	named  int          // evidence rows of a version by name, which limits.evidence counts
	held   map[bool]int // identities, by whether they are anonymous
}

// limits are the bounds of a content.
type limits struct {
	clients, evidence     int
	identities, anonymous int // in total, and those of them that nobody has verified
}

// unlimited is for what has been kept within bounds by whoever wrote it.
var unlimited = limits{clients: math.MaxInt, evidence: math.MaxInt, identities: math.MaxInt, anonymous: math.MaxInt / 2}

func newContent(l limits) *content {
	return &content{
		clients: make(map[key]tally), overflow: make(map[string]tally), evidence: make(map[fact]sight),
		identities: make(map[string]*dossier), evicted: make(map[string]carried), dropped: make(evictions), held: make(map[bool]int), totals: make(map[totalOf]dayCounts),
		limits: l,
	}
}

// merge adds what o has to c. Rows beyond the bounds of c are folded.
func (c *content) merge(o *content) {
	for k, t := range o.clients {
		c.addClient(k, t)
	}
	for transport, t := range o.overflow {
		c.addOverflow(transport, t)
	}
	for f, s := range o.evidence {
		c.addEvidence(f, s)
	}
	for _, d := range o.identities {
		c.addDossier(d)
	}
	c.addEvicted(o.evicted)
	for k, n := range o.totals {
		c.addTotal(k, n)
	}
	for _, g := range o.gaps {
		c.addGap(g)
	}
	c.from, c.flushed = span(c.from, c.flushed, o.from, o.flushed)
	if c.movedAside == "" {
		c.movedAside = o.movedAside
	}
}

func (c *content) addClient(k key, t tally) {
	old, ok := c.clients[k]
	if !ok && len(c.clients) >= c.limits.clients {
		c.addOverflow(k.transport, t)
		return
	}
	old.add(t)
	c.clients[k] = old
}

func (c *content) addOverflow(transport string, t tally) {
	old := c.overflow[transport]
	old.add(t)
	c.overflow[transport] = old
}

func (c *content) addEvidence(f fact, s sight) {
	old, ok := c.evidence[f]
	switch {
	case ok || f.version == other: // which has a row of its own, beyond the bound
	case c.named < c.limits.evidence:
		c.named++
	default:
		f.version = other
		old = c.evidence[f]
	}
	old.n += s.n
	old.first, old.last = span(old.first, old.last, s.first, s.last)
	c.evidence[f] = old
}

// memory is the store of a ledger without a file.
type memory struct{ content *content }

func newMemory(l limits, from int64) *memory {
	m := &memory{newContent(l)}
	m.content.from = from
	m.content.replica = hex.EncodeToString(newKey()[:8])
	return m
}

func (m *memory) add(batch *content) error {
	m.content.merge(batch)
	batch.dropped.join(m.content.dropped)
	clear(m.content.dropped)
	return nil
}

func (m *memory) read() (*content, error) {
	c := newContent(m.content.limits)
	c.merge(m.content)
	c.replica = m.content.replica
	return c, nil
}

func (m *memory) prune(before int64) error {
	m.content.prune(before)
	return nil
}

func (m *memory) forget(id string) (bool, error) {
	return m.content.remove(id), nil
}

func (m *memory) close() error { return nil }
