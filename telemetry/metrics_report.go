package telemetry

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/metric"

	"github.com/mcp-dualstack/bridge/exchange"
)

// What a report looks like in numbers, for the gauges of a server and for WriteProm alike.

// number is 1 for ready, 0 for blocked and -1 for insufficient evidence.
func (v Verdict) number() int64 {
	switch v {
	case Ready:
		return 1
	case Blocked:
		return 0
	}
	return -1
}

// findingCodes are the codes of blockers and doubts.
var findingCodes = []string{
	BlockBreaks, BlockNewURL, BlockIdentities, BlockShare,
	DoubtObservation, DoubtGap, DoubtOverflow, DoubtDamaged, DoubtCadence, DoubtClock, DoubtDivided,
}

// codes counts the reasons of the verdict.
func (r Report) codes() map[string]int64 {
	counts := make(map[string]int64, len(findingCodes))
	for _, code := range findingCodes {
		counts[code] = 0
	}
	for _, list := range [][]Finding{r.Blockers, r.Doubts} {
		for _, f := range list {
			counts[f.Code]++
		}
	}
	return counts
}

// legacyClasses counts the identities that used HTTP+SSE in the window, by class. Every class has a number.
func (r Report) legacyClasses() map[Class]int64 {
	since := r.GeneratedAt.Add(-r.Policy.QuietPeriod.Duration())
	counts := make(map[Class]int64, len(Classes))
	for _, c := range Classes {
		counts[c] = 0
	}
	for _, i := range r.Identities {
		if i.legacySince(since) {
			counts[i.Class]++
		}
	}
	return counts
}

// identityKinds are the kinds of identities.
var identityKinds = []string{KindPrincipal, KindClient, KindAddress, KindOther}

// kinds counts the identities by kind.
func (r Report) kinds() map[string]int64 {
	counts := make(map[string]int64, len(identityKinds))
	for _, k := range identityKinds {
		counts[k] = 0
	}
	for i := range r.Identities {
		counts[r.Identities[i].Kind]++
	}
	return counts
}

// An overflowed says what could not be kept of a conversation: its client (name and revision), its identity, or which one of a network's.
type overflowed struct{ kind, transport string }

// overflow counts the conversations that are only known together with others.
func (r Report) overflow() map[overflowed]int64 {
	counts := make(map[overflowed]int64)
	add := func(kind, transport string, c Counts) {
		counts[overflowed{kind, transport}] += c.Sessions + c.Uses + c.Reopened
	}
	for _, t := range r.Observation.Overflow {
		add("client", t.Transport, t.Counts)
	}
	for _, t := range r.Observation.Evicted {
		add("identity", t.Transport, t.Counts)
	}
	for _, i := range r.Identities {
		if i.Kind == KindOther {
			for _, transport := range []string{exchange.HTTPSSE, exchange.StreamableHTTP} {
				if t, ok := i.Transports[transport]; ok {
					add("network", transport, t.Counts)
				}
			}
		}
	}
	return counts
}

// instrumentCounters makes the counters that the ledger keeps while it runs.
func (s *Signals) instrumentCounters(m metric.Meter) error {
	if s.o.Counters == nil {
		return nil
	}
	failed, failedErr := m.Int64ObservableCounter("mcp.bridge.ledger.flush_errors", metric.WithDescription("Times that the ledger could not be written."))
	evicted, evictedErr := m.Int64ObservableCounter("mcp.bridge.ledger.evictions", metric.WithDescription("Identities that had to make room in the ledger, by kind."))
	if err := errors.Join(failedErr, evictedErr); err != nil {
		return err
	}
	_, err := m.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		c := s.o.Counters()
		o.ObserveInt64(failed, c.FlushErrors)
		for _, kind := range identityKinds { // those without any, too, so that an alert sees the first
			o.ObserveInt64(evicted, c.Evictions[kind], with(labelKind.String(kind)))
		}
		return nil
	}, failed, evicted)
	return err
}
