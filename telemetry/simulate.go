package telemetry

import (
	"cmp"
	"slices"

	"github.com/mcp-dualstack/bridge/exchange"
)

// simulate replays the days: who would have been refused had the target been in force. A day counts as a whole, and a brownout
// as one window.
func (j *judge) simulate(r *Report) {
	if j.q.Simulate <= 0 {
		return
	}
	days := int64((j.q.Simulate + Day - 1) / Day)
	s := &Simulation{Target: r.Target, Days: int(days), Identities: []SimulatedRefusal{}}
	r.Simulation = s
	if slices.Index(Targets, r.Target) < slices.Index(Targets, firstRefusing) {
		return // which refuses nobody
	}
	for _, i := range r.Identities {
		if i.Ignored || !i.ExemptUntil.IsZero() {
			continue
		}
		first := j.now/dayMillis - days + 1
		n := j.identities[i.ID].window(exchange.HTTPSSE, first*dayMillis)
		if n.Sessions+n.Refusals+n.Calls == 0 {
			continue
		}
		s.Identities = append(s.Identities, SimulatedRefusal{i.ID, i.Label, i.Class, n.Sessions + n.Refusals, n.Calls})
		s.Sessions += n.Sessions + n.Refusals
		s.Calls += n.Calls
	}
	slices.SortFunc(s.Identities, func(a, b SimulatedRefusal) int {
		return cmp.Or(cmp.Compare(b.Sessions, a.Sessions), cmp.Compare(b.Calls, a.Calls), cmp.Compare(a.ID, b.ID))
	})
}
