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
	policy := b.s.policy()
	return b.ledger.Answer(AsOf(t.state(), telemetry.Question{Policy: &policy, Target: string(target), Simulate: simulate}))
}

// policy is what the readiness check goes by.
func (s *settings) policy() telemetry.Policy {
	if p := s.Retirement.Readiness; p != nil {
		return *p
	}
	return telemetry.DefaultPolicy()
}

// ready is the readiness check of a step (retirement.md 6).
func (b *Bridge) ready(t *retirement, target retire.Stage) (retire.Readiness, error) {
	r, err := b.report(t, target, 0)
	if err != nil {
		return retire.Readiness{}, err
	}
	return Readiness(r), nil
}

// Readiness is what a report means for a step to the stage that it is about.
func Readiness(r telemetry.Report) retire.Readiness {
	return retire.Readiness{Ready: r.Verdict == telemetry.Ready, Digest: r.Digest, Detail: r.Why()}
}

// AsOf returns q as it is to be asked while s is in force: with the stage, and with the exemptions of s beside those of the policy. The
// policy of q must be set; it is not changed.
func AsOf(s *retire.State, q telemetry.Question) telemetry.Question {
	q.Stage = telemetry.Stage{Name: string(s.Stage), Since: s.Since, Version: s.Version, Sunset: s.Sunset}
	policy := *q.Policy
	policy.Exemptions = slices.Clone(policy.Exemptions)
	for _, e := range s.Exemptions {
		until := e.Until
		if until.IsZero() {
			until = forGood
		}
		policy.Exemptions = append(policy.Exemptions, telemetry.Exemption{ID: e.ID, Until: until, Owner: e.Owner, Reason: e.Reason})
	}
	q.Policy = &policy
	return q
}

// forGood is the end of an exemption that has none, for a policy, which needs one.
var forGood = time.Date(9998, 1, 1, 0, 0, 0, 0, time.UTC)
