package telemetry

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/mcp-dualstack/bridge/exchange"
)

// Targets are the stages that a question may be about (retirement.md 6).
var Targets = []string{"open", "announce", "warn", "brownout", "closed", "drain", "gone"}

const (
	defaultTarget = "gone"

	// Of stages before this one nobody breaks for good, and stages before brownout refuse nobody.
	firstHardTarget = "closed"
	firstRefusing   = "brownout"
)

// Check reports what is wrong with q, joined.
func (q Question) Check() error {
	if q.Target != "" && !slices.Contains(Targets, q.Target) {
		return fmt.Errorf("stage: %q is none of %v", q.Target, Targets)
	}
	if q.Simulate < 0 || q.Simulate > retentionDays*Day {
		return fmt.Errorf("simulate: %v is longer than the %dd that are kept", q.Simulate, retentionDays)
	}
	if q.Policy == nil {
		return nil
	}
	return q.Policy.Check()
}

func (q Question) withDefaults() Question {
	q.Target = cmp.Or(q.Target, defaultTarget)
	q.Stage.Name = cmp.Or(q.Stage.Name, Targets[0])
	if q.Now.IsZero() {
		q.Now = time.Now()
	}
	q.Now = q.Now.UTC().Truncate(time.Millisecond)
	return q
}

// judge fills in what r does not have yet: the identities, the verdict and its reasons.
func (j *judge) judge(r *Report) {
	r.Policy, r.Target, r.Stage = j.policy, j.q.Target, j.q.Stage
	r.Window.Days = int(j.policy.QuietPeriod / Day)
	for _, d := range j.identities {
		i := j.identity(d)
		j.weigh(r, d, &i)
		r.Identities = append(r.Identities, i)
	}
	slices.SortFunc(r.Identities, byWeight)
	if r.Window.TotalCalls > 0 {
		r.Window.Share = float64(r.Window.LegacyCalls) / float64(r.Window.TotalCalls)
	}
	j.block(r)
	j.doubt(r)
	r.Verdict = verdict(r)
	j.simulate(r)
	r.Digest = r.digest()
}

// weigh adds what i did to the window.
func (j *judge) weigh(r *Report, d *dossier, i *Identity) {
	if i.Class == ClassProbe {
		return
	}
	r.Window.Identities++
	r.Window.LegacyCalls += i.Window.Calls
	r.Window.TotalCalls += i.Window.Calls + d.window(exchange.StreamableHTTP, j.since).Calls
	if d.legacyLast() > j.since {
		r.Window.LegacyIdentities++
	}
}

// byWeight puts first who blocks, then who was there last.
func byWeight(a, b Identity) int {
	rank := func(i Identity) int {
		if i.Blocks {
			return 0
		}
		return 1
	}
	legacy := func(i Identity) time.Time { return i.Transports[exchange.HTTPSSE].LastSeen }
	return cmp.Or(
		cmp.Compare(rank(a), rank(b)),
		cmp.Compare(slices.Index(Classes, a.Class), slices.Index(Classes, b.Class)),
		legacy(b).Compare(legacy(a)), b.LastSeen.Compare(a.LastSeen), cmp.Compare(a.ID, b.ID),
	)
}

// block names who breaks, and warns of those who are exempt or tolerated.
func (j *judge) block(r *Report) {
	var found []Finding
	for _, i := range r.Identities {
		switch {
		case i.Blocks:
			found = append(found, j.blocker(i))
		case !i.ExemptUntil.IsZero() && i.Transports[exchange.HTTPSSE].LastSeen.UnixMilli() > j.since:
			r.Warnings = append(r.Warnings, Finding{WarnExempt, i.ID, fmt.Sprintf("%s still uses HTTP+SSE and is exempt until %s", i.Label, i.ExemptUntil.Format(time.DateOnly))})
		}
	}
	p := j.policy
	few := len(found) <= p.MaxIdentities && r.Window.Share <= p.MaxTrafficShare
	switch {
	case few:
		for _, f := range found {
			r.Warnings = append(r.Warnings, Finding{WarnTolerated, f.ID, f.Detail})
		}
		return
	case len(found) == 0:
		return // the share is that of the exempt
	}
	r.Blockers = append(r.Blockers, found...)
	if p.MaxIdentities > 0 && len(found) > p.MaxIdentities {
		r.Blockers = append(r.Blockers, Finding{BlockIdentities, "", fmt.Sprintf("%d identities still use HTTP+SSE and the policy tolerates %d", len(found), p.MaxIdentities)})
	}
	if p.MaxTrafficShare > 0 && r.Window.Share > p.MaxTrafficShare {
		r.Blockers = append(r.Blockers, Finding{BlockShare, "", fmt.Sprintf("%s of the calls are legacy and the policy tolerates %s", percent(r.Window.Share), percent(p.MaxTrafficShare))})
	}
}

func (j *judge) blocker(i Identity) Finding {
	if since, free, ok := i.moved(j.policy, j.q.Now); ok {
		return Finding{BlockNewURL, i.ID, fmt.Sprintf("%s used HTTP+SSE until %s and seems to have moved; it counts until %s", i.Label, since.Format(time.DateOnly), free.Format(time.DateOnly))}
	}
	if i.NewURL() {
		return Finding{BlockNewURL, i.ID, i.Label + " still uses HTTP+SSE; another URL is enough"}
	}
	return Finding{BlockBreaks, i.ID, i.Label + " breaks"}
}

// legacySince reports whether HTTP+SSE was used after t by somebody who is no probe.
func (i Identity) legacySince(t time.Time) bool {
	return i.Class != ClassProbe && i.Transports[exchange.HTTPSSE].LastSeen.After(t)
}

// NewURL reports whether the identity needs nothing but another URL.
func (i Identity) NewURL() bool {
	return i.Class == ClassProven || i.Class == ClassProbing || i.Class == ClassCapable
}

// doubt names what makes the evidence insufficient, and warns of what does not but might.
func (j *judge) doubt(r *Report) {
	add := func(code, id, format string, args ...any) {
		r.Doubts = append(r.Doubts, Finding{code, id, fmt.Sprintf(format, args...)})
	}
	watched := time.Duration(j.now-j.from) * time.Millisecond
	switch {
	case j.from == 0 || len(j.replicas) == 0:
		add(DoubtObservation, "", "nothing has been observed yet")
	case watched < time.Duration(j.policy.MinObservation):
		add(DoubtObservation, "", "observed for %s, the policy asks for %v", age(max(0, watched)), j.policy.MinObservation)
	}
	if j.to > j.now+smallestStep.Milliseconds() {
		add(DoubtClock, "", "the ledger was written at %s, which is in the future", moment(j.to).Format(time.DateTime))
	}
	if j.divided > j.horizon() {
		add(DoubtDivided, "", "two ledgers have the same replica id and one has what the other lacks: a server began with a copy of the other's file")
	}
	j.doubtGaps(add)
	j.doubtOverflow(add)
	for _, i := range r.Identities {
		d := j.identities[i.ID]
		rare := j.policy.CadenceFactor*float64(i.Cadence.LongestGapDays)*float64(Day) > float64(j.policy.QuietPeriod)
		switch {
		case j.maybeBack(d, i) && i.ExemptUntil.IsZero():
			add(DoubtCadence, i.ID, "%s", i.mayComeBack(j.now-d.legacyLast()))
		case rare && d.legacyLast() > j.since && !i.Ignored:
			r.Warnings = append(r.Warnings, Finding{WarnCadence, i.ID, fmt.Sprintf("%s stays away for up to %d d, quiet period %v < %d d", i.Label, i.Cadence.LongestGapDays, j.policy.QuietPeriod, i.Cadence.NeedsDays)})
		}
	}
}

func (i Identity) mayComeBack(silent int64) string {
	if i.Cadence.LongestGapDays == 0 {
		return fmt.Sprintf("%s was seen on one day only, %s ago: how often it comes is not known, so wait for %d d", i.Label, age(time.Duration(silent)*time.Millisecond), i.Cadence.NeedsDays)
	}
	if i.Kind == KindAddress || len(i.Clients) > 1 {
		return fmt.Sprintf("%s may be several clients, so that its gaps of up to %d d say little; it is silent for %s, wait for %d d", i.Label, i.Cadence.LongestGapDays, age(time.Duration(silent)*time.Millisecond), i.Cadence.NeedsDays)
	}
	return fmt.Sprintf("%s is silent for %s after gaps of up to %d d; wait for %d d", i.Label, age(time.Duration(silent)*time.Millisecond), i.Cadence.LongestGapDays, i.Cadence.NeedsDays)
}

// manyGaps is how many times the longest tolerated gap all gaps together may be.
const manyGaps = 4

func (j *judge) doubtGaps(add func(code, id, format string, args ...any)) {
	span := max(j.policy.QuietPeriod, j.policy.MinObservation)
	window := interval{max(j.from, j.now-time.Duration(span).Milliseconds()), j.now}
	var total, longest time.Duration
	for _, i := range within(j.blind, window) {
		d := time.Duration(i.length()) * time.Millisecond
		total, longest = total+d, max(longest, d)
	}
	limit := time.Duration(j.policy.MaxGap)
	switch {
	case longest > limit:
		add(DoubtGap, "", "nobody watched for %s at a time, the policy tolerates %v", age(longest), j.policy.MaxGap)
	case total > manyGaps*limit:
		add(DoubtGap, "", "nobody watched for %s in all, in gaps that are short by themselves", age(total))
	}
	horizon := j.horizon()
	if len(within(j.lost(), interval{horizon, j.now})) > 0 {
		add(DoubtDamaged, "", "a damaged ledger was moved aside, or a wrong clock had it pruned; what it knew of the time before is lost")
	}
}

// horizon is since when an identity must have been silent of which nothing is known.
func (j *judge) horizon() int64 {
	wait := max(j.policy.CadenceFactor*float64(j.policy.QuietPeriod), float64(j.policy.MinObservation))
	return j.now - time.Duration(wait).Milliseconds()
}

func (j *judge) doubtOverflow(add func(code, id, format string, args ...any)) {
	if t := j.evicted[exchange.HTTPSSE]; t.last > j.horizon() {
		add(DoubtOverflow, "", "there was no room for everybody: %s calls over HTTP+SSE, the last at %s, of identities that were evicted", count(t.Calls), moment(t.last).Format(time.DateTime))
	}
	for _, d := range sortedDossiers(j.identities) {
		if d.kind == KindOther && d.legacyLast() > j.horizon() {
			add(DoubtOverflow, d.id, "too many new clients of %s on one day: some are only known together", d.prefix)
		}
	}
}

func sortedDossiers(m map[string]*dossier) []*dossier {
	out := make([]*dossier, 0, len(m))
	for _, d := range m {
		out = append(out, d)
	}
	slices.SortFunc(out, func(a, b *dossier) int { return cmp.Compare(a.id, b.id) })
	return out
}

// verdict weighs the reasons. Who is known to break is known to, however little else is; but where some are not known by name, the list
// of those who are would be taken for all.
func verdict(r *Report) Verdict {
	if slices.Index(Targets, r.Target) < slices.Index(Targets, firstHardTarget) {
		r.soften()
		return Ready
	}
	overflow := slices.ContainsFunc(r.Doubts, func(f Finding) bool { return f.Code == DoubtOverflow })
	switch {
	case overflow:
		return Insufficient
	case len(r.Blockers) > 0:
		return Blocked
	case len(r.Doubts) > 0:
		return Insufficient
	}
	return Ready
}

// soften turns blockers and doubts into warnings: the stage refuses nobody, or not for long.
func (r *Report) soften() {
	r.Warnings = slices.Concat(r.Blockers, r.Doubts, r.Warnings)
	r.Blockers, r.Doubts = []Finding{}, []Finding{}
}

// digest returns the SHA-256 of r without the moment at which it was made.
func (r Report) digest() string {
	r.GeneratedAt, r.Digest = time.Time{}, ""
	text, err := json.Marshal(r)
	if err != nil {
		panic("a report is no JSON: " + err.Error())
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

func percent(share float64) string { return fmt.Sprintf("%.2f %%", 100*share) }
