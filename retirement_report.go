package bridge

import (
	"slices"
	"time"

	"github.com/mcp-dualstack/bridge/retire"
	"github.com/mcp-dualstack/bridge/telemetry"
)

// Report answers whether the legacy routes can step to target, and who breaks if they do; target empty: to gone. simulate, if set, is how
// long target is taken to have been in force already. The errors are those of telemetry.Ledger.Answer.
func (b *Bridge) Report(target retire.Stage, simulate telemetry.Period) (telemetry.Report, error) {
	return b.report(b.retirement, target, simulate)
}

func (b *Bridge) report(t *retirement, target retire.Stage, simulate telemetry.Period) (telemetry.Report, error) {
	s := t.state()
	policy := telemetry.DefaultPolicy()
	if p := b.s.Retirement.Readiness; p != nil {
		policy = *p
	}
	policy.Exemptions = slices.Concat(policy.Exemptions, exemptions(s))
	return b.ledger.Answer(telemetry.Question{
		Policy: &policy, Target: string(target), Simulate: simulate,
		Stage: telemetry.Stage{Name: string(s.Stage), Since: s.Since, Version: s.Version, Sunset: s.Sunset},
	})
}

// ready is the readiness check of a step (retirement.md 6).
func (b *Bridge) ready(t *retirement, target retire.Stage) (retire.Readiness, error) {
	r, err := b.report(t, target, 0)
	if err != nil {
		return retire.Readiness{}, err
	}
	return retire.Readiness{Ready: r.Verdict == telemetry.Ready, Digest: r.Digest, Detail: r.Why()}, nil
}

// forGood is the end of an exemption that has none, for a policy, which needs one.
var forGood = time.Date(9998, 1, 1, 0, 0, 0, 0, time.UTC)

// exemptions returns those of the state as a policy has them.
func exemptions(s *retire.State) []telemetry.Exemption {
	var list []telemetry.Exemption
	for _, e := range s.Exemptions {
		until := e.Until
		if until.IsZero() {
			until = forGood
		}
		list = append(list, telemetry.Exemption{ID: e.ID, Until: until, Owner: e.Owner, Reason: e.Reason})
	}
	return list
}
