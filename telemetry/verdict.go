package telemetry

import "time"

// A Verdict answers whether the legacy routes can go.
type Verdict string

// Verdicts.
const (
	Ready        Verdict = "ready"        // nobody who counts breaks
	Blocked      Verdict = "blocked"      // somebody does, and the report says who
	Insufficient Verdict = "insufficient" // that cannot be told
)

// A Stage is the retirement stage as a report shows it. Its zero value is open.
type Stage struct {
	Name    string    `json:"name"`
	Since   time.Time `json:"since,omitzero"`
	Version int64     `json:"version"`
	Sunset  time.Time `json:"sunset,omitzero"`
}

// A Question is what a report is to answer. The zero value asks about gone under the default policy, now.
type Question struct {
	Policy   *Policy   // nil: DefaultPolicy
	Stage    Stage     // the present one, for show
	Target   string    // the stage to step to: open, announce, warn, brownout, closed, drain or gone; empty: gone
	Simulate Period    // if set, the report says what would have happened had Target been in force for this long
	Now      time.Time // zero: time.Now
}

// A Finding is one reason of a verdict. Code is one of the constants below and ID an identity's, if it is about one.
type Finding struct {
	Code   string `json:"code"`
	ID     string `json:"id,omitempty"`
	Detail string `json:"detail"`
}

// Codes of blockers.
const (
	BlockBreaks     = "breaks"        // the identity cannot do without, as far as is known
	BlockNewURL     = "new_url"       // the identity still uses HTTP+SSE and needs nothing but another URL
	BlockIdentities = "identities"    // more legacy identities than the policy tolerates
	BlockShare      = "traffic_share" // more legacy calls than the policy tolerates
)

// Codes of doubts, each of which makes the evidence insufficient.
const (
	DoubtObservation = "observation" // has not watched for long enough
	DoubtGap         = "gap"         // was not watching for too long
	DoubtOverflow    = "overflow"    // legacy use of somebody for whom there was no room
	DoubtDamaged     = "damaged"     // an earlier ledger was lost
	DoubtCadence     = "cadence"     // an identity may be between two of its visits
	DoubtClock       = "clock"       // something was seen in the future
	DoubtDivided     = "divided"     // two ledgers have one replica id, and neither is a copy of the other
)

// Codes of warnings; a stage that refuses nobody for good has the blockers and doubts of later ones as warnings, too.
const (
	WarnExempt    = "exempt"    // somebody exempt still uses HTTP+SSE
	WarnTolerated = "tolerated" // somebody would break, and the policy allows for so many
	WarnCadence   = "cadence"   // somebody who was just there comes more seldom than the quiet period can tell
)

// A Gap is a time in which nothing was recorded.
type Gap struct {
	From    time.Time `json:"from"`
	To      time.Time `json:"to"`
	Kind    string    `json:"kind"` // downtime, clock or damaged
	Replica string    `json:"replica,omitempty"`
}

// Kinds of gaps.
const (
	GapDowntime = "downtime" // from the last write of a server to the start of the next
	GapClock    = "clock"    // the clock was set forward, the machine slept, or the clock was set back while no server ran
	GapDamaged  = "damaged"  // a damaged ledger was moved aside: what it knew is unknown
)

// A Replica is one ledger of those that a report is made of.
type Replica struct {
	ID        string    `json:"id"`
	From      time.Time `json:"from"`
	LastFlush time.Time `json:"last_flush"`
}

// A Window is the policy's quiet period up to now, in whole days.
type Window struct {
	Days        int     `json:"days"`
	LegacyCalls int64   `json:"legacy_calls"`
	TotalCalls  int64   `json:"total_calls"`
	Share       float64 `json:"share"` // 0 to 1
	// LegacyIdentities used HTTP+SSE in the window; Identities are all that the ledger knows. Probes are in neither.
	LegacyIdentities int `json:"legacy_identities"`
	Identities       int `json:"identities"`
}

// A Simulation says who would have been refused had a stage been in force.
type Simulation struct {
	Target     string             `json:"target"`
	Days       int                `json:"days"` // whole days up to now, today among them
	Sessions   int64              `json:"sessions"`
	Calls      int64              `json:"calls"`
	Identities []SimulatedRefusal `json:"identities"`
}

// A SimulatedRefusal is what one identity would have missed.
type SimulatedRefusal struct {
	ID       string `json:"id"`
	Label    string `json:"label"`
	Class    Class  `json:"class"`
	Sessions int64  `json:"sessions"`
	Calls    int64  `json:"calls"`
}
