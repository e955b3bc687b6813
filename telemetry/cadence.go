package telemetry

import (
	"math"
	"math/bits"

	"github.com/mcp-dualstack/bridge/exchange"
)

// A bitmap has a bit for each of the last days, up to and with its last one.
type bitmap struct {
	bits [(retentionDays + 63) / 64]uint64 // bit 0 is the last day, bit 1 the one before
	last int64                             // days since 1970-01-01 UTC
}

func newBitmap(last int64, days []int64) *bitmap {
	b := &bitmap{last: last}
	for _, day := range days {
		if ago := last - day; ago >= 0 && ago < retentionDays {
			b.bits[ago/64] |= 1 << (ago % 64)
		}
	}
	return b
}

// count returns how many days have their bit set.
func (b *bitmap) count() int {
	n := 0
	for _, w := range b.bits {
		n += bits.OnesCount64(w)
	}
	return n
}

// gaps returns the days from the first to the last bit that is set, and the longest way from one to the next.
func (b *bitmap) gaps() (span, longest int) {
	first, before := -1, -1
	for ago := range retentionDays {
		if b.bits[ago/64]&(1<<(ago%64)) == 0 {
			continue
		}
		if first < 0 {
			first = ago
		} else {
			longest = max(longest, ago-before)
		}
		before = ago
	}
	return before - first, longest
}

// cadence says how often an identity uses HTTP+SSE, and for how long it has to be silent before it counts as gone: for the quiet period,
// and for CadenceFactor times the longest gap that it made before. Of one that was not there for longer than the quiet period no gap
// is known: it may be one that comes every so often and was seen once, so it has to be silent for CadenceFactor times the quiet period. So has one that
// may be several: their visits lie between each other's, and the gaps of none of them are known.
func (j *judge) cadence(d *dossier) Cadence {
	b := newBitmap(max(j.now, d.legacyLast())/dayMillis, d.activeDays(exchange.HTTPSSE))
	span, longest := b.gaps()
	quiet := float64(j.policy.QuietPeriod) / float64(Day)
	usual := float64(longest)
	if float64(span) < quiet || d.several() {
		usual = max(usual, quiet)
	}
	return Cadence{
		ActiveDays: b.count(), LongestGapDays: longest,
		NeedsDays: int(math.Ceil(max(quiet, j.policy.CadenceFactor*usual))),
	}
}

// several reports whether the identity may well be more than one client: nobody's name is known, or more than one name or version is. An
// update looks the same, and only makes the wait longer.
func (d *dossier) several() bool {
	return d.kind == KindAddress || d.kind == KindOther || len(d.names) > 1
}

// maybeBack reports whether an identity that was silent for the quiet period may come back all the same. A migrated one is gone, unless
// it used both transports for a time: then there are two of it, and the one that has not migrated may be the one that comes seldom.
func (j *judge) maybeBack(d *dossier, i Identity) bool {
	last := d.legacyLast()
	if last == 0 || last > j.since || i.Ignored || i.Class == ClassMigrated && !d.overlaps() {
		return false
	}
	return j.now-last < int64(i.Cadence.NeedsDays)*dayMillis
}

// overlaps reports whether HTTP+SSE was used on a day after one on which Streamable HTTP was.
func (d *dossier) overlaps() bool {
	streamable := d.activeDays(exchange.StreamableHTTP)
	legacy := d.activeDays(exchange.HTTPSSE)
	return len(streamable) > 0 && len(legacy) > 0 && legacy[len(legacy)-1] > streamable[0]
}
