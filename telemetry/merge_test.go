package telemetry

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mcp-dualstack/bridge/exchange"
)

// randomContent is what some replica may hold.
func randomContent(rng *rand.Rand, replica string) *content {
	c := newContent(unlimited)
	base := time.Date(2026, 10, 1, 0, 0, 0, 0, time.UTC).UnixMilli()
	moment := func() int64 { return base + rng.Int64N(60*dayMillis) }
	c.replica, c.from, c.flushed = replica, base-100*dayMillis, base+61*dayMillis
	transports := []string{exchange.HTTPSSE, exchange.StreamableHTTP}
	for range rng.IntN(30) {
		who := ident{id: fmt.Sprint("c", rng.IntN(10), "@;"), kind: KindClient}
		d := newDossier(who)
		for range rng.IntN(5) {
			at, transport := moment(), transports[rng.IntN(2)]
			d.first, d.last = span(d.first, d.last, at, at)
			d.describe(key{name: who.id[:2], version: fmt.Sprint(rng.IntN(12)), transport: transport, requested: fmt.Sprint("r", rng.IntN(10))}, at)
			d.transports[transport] = carried{tally{Counts{Sessions: 1, Calls: 2}, at, at}, 7}
			d.days[dayOf{transport, at / dayMillis}] = dayCounts{sessions: 1, calls: 2}
			d.signs[signOf{SignDiscover, fmt.Sprint("r", rng.IntN(10))}] = sight{1, at, at}
		}
		c.addDossier(d)
		c.addClient(key{name: who.id, transport: exchange.HTTPSSE}, tally{Counts{Calls: 1}, d.first, d.last})
	}
	for range rng.IntN(4) {
		from := moment()
		c.addGap(gap{from, from + rng.Int64N(3*dayMillis), []string{GapDowntime, GapClock, GapDamaged}[rng.IntN(3)]})
	}
	c.addEvicted(map[string]carried{exchange.HTTPSSE: {tally{Counts{Calls: rng.Int64N(3)}, moment(), moment()}, 1}})
	return c
}

// The ledgers of replicas give the same report in any order, and however often one of them is there.
func TestCombine(t *testing.T) {
	for seed := range uint64(50) {
		rng := rand.New(rand.NewPCG(seed, 1))
		a, b, c := randomContent(rng, "a"), randomContent(rng, "b"), randomContent(rng, "c")
		old := randomContent(rng, "a") // a, before it knew most of whom it knows
		old.flushed--
		old.gaps, old.identities, old.evicted = nil, map[string]*dossier{}, map[string]carried{}
		for id, d := range a.identities {
			if rng.IntN(2) == 0 {
				before := *d
				before.last--
				old.identities[id] = &before
			}
		}
		q := Question{Now: time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)}
		want := newReport([]*content{a, b, c}, q, false)
		for _, order := range [][]*content{{c, b, a}, {b, a, c}, {a, b, c, a, c}, {b, old, c, a, old}} {
			got := newReport(order, q, false)
			if got.Digest != want.Digest {
				t.Errorf("seed %d: another digest; (- got, + want):\n%s", seed, cmp.Diff(got, want))
			}
		}
		if alone := newReport([]*content{a}, q, false); alone.Digest == want.Digest {
			t.Errorf("seed %d: the digest is that of one replica alone", seed)
		}
	}
}

// Two servers that began with copies of one file have its replica id both. What either of them recorded counts.
func TestCombineOfADividedLedger(t *testing.T) {
	q := Question{Now: time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)}
	base := q.Now.UnixMilli() - 40*dayMillis
	record := func(flushed int64, ids map[string]int64) *content {
		c := newContent(unlimited)
		c.replica, c.from, c.flushed = "a", base-100*dayMillis, flushed
		for id, last := range ids {
			d := newDossier(ident{id: id, kind: KindClient})
			d.first, d.last = base, last
			d.transports[exchange.HTTPSSE] = carried{tally{Counts{Sessions: 1}, base, last}, 1}
			c.addDossier(d)
		}
		return c
	}
	now := q.Now.UnixMilli()
	one := record(now, map[string]int64{"both@;": base, "mine@;": base})
	for name, test := range map[string]struct {
		other    map[string]int64
		replicas int
	}{
		"an older copy":           {map[string]int64{"both@;": base - 1}, 1},
		"a client of its own":     {map[string]int64{"both@;": base, "daily@;": now - 5}, 2},
		"a later use of the same": {map[string]int64{"both@;": now - 5}, 2},
	} {
		other := record(now-1, test.other)
		r := newReport([]*content{one, other}, q, false)
		back := newReport([]*content{other, one, other}, q, false)
		if len(r.Observation.Replicas) != test.replicas || r.Digest != back.Digest {
			t.Errorf("%s: %d replicas, want %d; digests %s, %s", name, len(r.Observation.Replicas), test.replicas, r.Digest, back.Digest)
		}
		doubtful := slices.ContainsFunc(r.Doubts, func(f Finding) bool { return f.Code == DoubtDivided })
		if doubtful != (test.replicas == 2) || doubtful && r.Verdict == Ready {
			t.Errorf("%s: %s with doubts %v", name, r.Verdict, r.Doubts)
		}
	}
}

// What a ledger writes in parts adds up to the same as what it writes at once.
func TestMergeInParts(t *testing.T) {
	for seed := range uint64(50) {
		rng := rand.New(rand.NewPCG(seed, 2))
		parts := []*content{randomContent(rng, ""), randomContent(rng, ""), randomContent(rng, "")}
		sum := func(order ...int) *content {
			c := newContent(unlimited)
			for _, i := range order {
				c.merge(parts[i])
			}
			return c
		}
		opts := cmp.AllowUnexported(content{}, dossier{}, ident{}, tally{}, carried{}, dayCounts{}, sight{}, gap{}, key{}, person{}, spoken{}, dayOf{}, signOf{}, totalOf{}, fact{}, limits{})
		want := sum(0, 1, 2)
		for _, got := range []*content{sum(2, 1, 0), sum(1, 0, 2)} {
			if diff := cmp.Diff(got, want, opts); diff != "" {
				t.Errorf("seed %d (- got, + want):\n%s", seed, diff)
			}
		}
	}
}

func TestIntervals(t *testing.T) {
	tests := []struct {
		name         string
		a, b         []interval
		joined, both []interval
	}{
		{"none", nil, []interval{{1, 9}}, nil, nil},
		{"apart", []interval{{1, 2}, {5, 6}}, []interval{{2, 5}}, []interval{{1, 2}, {5, 6}}, nil},
		{"touching", []interval{{3, 5}, {1, 3}}, []interval{{0, 9}}, []interval{{1, 5}}, []interval{{1, 5}}},
		{"inside", []interval{{1, 9}, {2, 3}}, []interval{{2, 3}, {8, 20}}, []interval{{1, 9}}, []interval{{2, 3}, {8, 9}}},
		{"empty and backwards", []interval{{4, 4}, {9, 1}}, []interval{{0, 9}}, nil, nil},
		{"staggered", []interval{{0, 4}, {6, 9}}, []interval{{3, 7}}, []interval{{0, 4}, {6, 9}}, []interval{{3, 4}, {6, 7}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a := joined(slices.Clone(tt.a))
			if !slices.Equal(a, tt.joined) {
				t.Errorf("joined: got %v, want %v", a, tt.joined)
			}
			if got := common(a, tt.b); !slices.Equal(got, tt.both) {
				t.Errorf("common: got %v, want %v", got, tt.both)
			}
			if got := common(tt.b, a); !slices.Equal(got, tt.both) {
				t.Errorf("common the other way: got %v, want %v", got, tt.both)
			}
		})
	}
}

// There are never more gaps than the bound, and none of the time is lost that they covered.
func TestManyGaps(t *testing.T) {
	c := newContent(unlimited)
	const n = 3 * maxGaps
	for i := range int64(n) {
		c.addGap(gap{10 * i, 10*i + 5, GapDowntime})
	}
	c.addGap(gap{10 * (n - 1), 10*(n-1) + 5, GapDowntime}) // once more
	if len(c.gaps) != maxGaps {
		t.Errorf("got %d gaps, want %d", len(c.gaps), maxGaps)
	}
	all := c.unwatched(10*n, 10*n)
	for i := range int64(n) {
		if got := within(all, interval{10 * i, 10*i + 5}); len(got) != 1 || got[0].length() != 5 {
			t.Fatalf("gap %d is in %v", i, got)
		}
	}
}

// Replicas make up for each other's downtime, but not for a ledger that was lost.
func TestGapsOfReplicas(t *testing.T) {
	now := time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)
	day := func(n int) int64 { return now.Add(time.Duration(n) * 24 * time.Hour).UnixMilli() }
	replica := func(id string, from, to int, gaps ...gap) *content {
		c := newContent(unlimited)
		c.replica, c.from, c.flushed, c.gaps = id, day(from), day(to), gaps
		return c
	}
	tests := []struct {
		name    string
		ledgers []*content
		doubts  []string
	}{
		{"one", []*content{replica("a", -60, 0)}, nil},
		{"one that was down", []*content{replica("a", -60, 0, gap{day(-10), day(-9), GapDowntime})}, []string{DoubtGap}},
		{"one that was down long ago", []*content{replica("a", -99, 0, gap{day(-80), day(-50), GapDowntime})}, nil},
		{"one that ended", []*content{replica("a", -60, -1)}, []string{DoubtGap}},
		{"another that was there", []*content{replica("a", -60, 0, gap{day(-10), day(-9), GapDowntime}), replica("b", -11, -8)}, nil},
		{"another that was there for a part", []*content{replica("a", -60, 0, gap{day(-10), day(-8), GapDowntime}), replica("b", -9, 0)}, []string{DoubtGap}},
		{"one after the other", []*content{replica("a", -60, -20), replica("b", -20, 0)}, nil},
		{"both down", []*content{replica("a", -60, 0, gap{day(-10), day(-8), GapDowntime}), replica("b", -60, 0, gap{day(-9), day(-7), GapDowntime})}, []string{DoubtGap}},
		{"young", []*content{replica("a", -44, 0)}, []string{DoubtObservation}},
		{"young and not", []*content{replica("a", -3, 0), replica("b", -60, 0)}, nil},
		{"lost", []*content{replica("a", -3, 0, gap{0, day(-3), GapDamaged}), replica("b", -60, 0)}, []string{DoubtDamaged}},
		{"lost long ago", []*content{replica("a", -61, 0, gap{0, day(-61), GapDamaged})}, nil},
		{"of the future", []*content{replica("a", -60, 1)}, []string{DoubtClock}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newReport(tt.ledgers, Question{Now: now}, false)
			var got []string
			for _, f := range r.Doubts {
				got = append(got, f.Code)
			}
			if !slices.Equal(got, tt.doubts) {
				t.Errorf("got %v, want %v", r.Doubts, tt.doubts)
			}
			if ready := r.Verdict == Ready; ready != (len(tt.doubts) == 0) {
				t.Errorf("got %s with %v", r.Verdict, r.Doubts)
			}
		})
	}
}

// What a ledger has and a newer one of the same replica lacks makes a doubt, whatever it is, and the same one in any order.
func TestDividedLedgers(t *testing.T) {
	q := Question{Now: time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)}
	now := q.Now.UnixMilli()
	record := func(fill func(*content)) *content {
		c := newContent(unlimited)
		c.replica, c.from, c.flushed = "a", now-100*dayMillis, now
		fill(c)
		return c
	}
	seen := func(transport string, last int64) func(*content) {
		return func(c *content) {
			d := newDossier(ident{id: "desk@;", kind: KindClient})
			d.first, d.last = now-90*dayMillis, last
			d.transports[transport] = carried{tally{Counts{Sessions: 1}, d.first, last}, 1}
			c.addDossier(d)
		}
	}
	evicted := func(c *content) {
		c.addEvicted(map[string]carried{exchange.HTTPSSE: {tally{Counts{Sessions: 1}, now - dayMillis, now - dayMillis}, 1}})
	}
	tests := []struct {
		name    string
		newer   func(*content)
		other   func(*content)
		divided bool
	}{
		{"the same", seen(exchange.HTTPSSE, now-dayMillis), seen(exchange.HTTPSSE, now-dayMillis), false},
		{"less", seen(exchange.HTTPSSE, now-dayMillis), seen(exchange.HTTPSSE, now-2*dayMillis), false},
		{"one that had to make room in the newer", evicted, seen(exchange.HTTPSSE, now-2*dayMillis), false},
		{"one that the newer let go of", func(*content) {}, seen(exchange.HTTPSSE, now-80*dayMillis), false},
		{"legacy use of one that the newer saw elsewhere", seen(exchange.StreamableHTTP, now-1), seen(exchange.HTTPSSE, now-dayMillis), true},
		{"one that had to make room", func(*content) {}, evicted, true},
		{"a loss", func(*content) {}, func(c *content) { c.addGap(gap{0, now - dayMillis, GapDamaged}) }, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			newer, other := record(tt.newer), record(tt.other)
			other.flushed--
			r, back := newReport([]*content{newer, other}, q, false), newReport([]*content{other, newer}, q, false)
			divided := slices.ContainsFunc(r.Doubts, func(f Finding) bool { return f.Code == DoubtDivided })
			if divided != tt.divided || divided && r.Verdict == Ready || r.Digest != back.Digest {
				t.Errorf("got %s with doubts %v, digests %s and %s", r.Verdict, r.Doubts, r.Digest, back.Digest)
			}
		})
	}
}
