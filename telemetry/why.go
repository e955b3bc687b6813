package telemetry

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mcp-dualstack/bridge/exchange"
)

// maxWhy is how many reasons a line names.
const maxWhy = 3

// Why returns the verdict and its first reasons in one line, such as "blocked: reporting-tool 0.9.1 breaks; and 2 more".
func (r Report) Why() string {
	reasons := slices.Concat(r.Blockers, r.Doubts)
	if len(reasons) == 0 {
		return string(r.Verdict)
	}
	var details []string
	for _, f := range reasons[:min(maxWhy, len(reasons))] {
		details = append(details, f.Detail)
	}
	if more := len(reasons) - maxWhy; more > 0 {
		details = append(details, fmt.Sprintf("and %d more", more))
	}
	return string(r.Verdict) + ": " + strings.Join(details, "; ")
}

// moved returns since when i seems to have left HTTP+SSE: it has not been there for longer than was usual for it, and on Streamable HTTP
// since. It counts all the same until free, when the silence is long enough (judge.maybeBack).
func (i Identity) moved(p Policy, now time.Time) (since, free time.Time, ok bool) {
	legacy, streamable := i.Transports[exchange.HTTPSSE], i.Transports[exchange.StreamableHTTP]
	since = legacy.LastSeen
	usual := time.Duration(p.CadenceFactor * float64(max(1, i.Cadence.LongestGapDays)) * float64(Day))
	ok = i.Class == ClassProven && i.Cadence.ActiveDays > 1 && now.Sub(since) > usual && streamable.LastSeen.After(since)
	silence := p.QuietPeriod
	if both := since.UnixMilli()/dayMillis > streamable.FirstSeen.UnixMilli()/dayMillis; both {
		silence = Period(i.Cadence.NeedsDays) * Day
	}
	return since, since.Add(silence.Duration()), ok
}

// movers returns how many identities seem to have moved and block only until the date.
func (r Report) movers() (n int, until time.Time) {
	for _, i := range r.Identities {
		if _, free, ok := i.moved(r.Policy, r.GeneratedAt); ok && i.Blocks {
			n++
			if free.After(until) {
				until = free
			}
		}
	}
	return n, until
}
