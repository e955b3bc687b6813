package telemetry

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/metric"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/negotiate"
)

const (
	topNames      = 20          // of the ledger that may become label values each time it is looked at
	minNameCalls  = 10          // of a name, so that one that was made up once takes no place
	namesFirst    = time.Minute // after the start the ledger is looked at for names, then after twice as long each time
	namesInterval = time.Hour   // but at least so often

	reportShare = 20 // at most the twentieth part of the time goes into reports: one of a full ledger takes a second
)

// ledgerView is what the gauges show of the ledger. It is made from a report when somebody collects, at most every
// SignalOptions.ReportEvery and, where reports take long, less often.
type ledgerView struct {
	shown atomic.Pointer[shownReport] // nil: there has been none

	mu      sync.Mutex // whoever makes a report; others who collect wait for it, and nobody else
	due     time.Time  // when another is asked for; zero: at once
	namesAt time.Time  // when the ledger is looked at for names again
	wait    time.Duration
}

type shownReport struct {
	*Report
	classes map[string]Class // of its identities, by id
}

// report returns the last report, nil if there has been none.
func (v *ledgerView) report() *Report {
	if s := v.shown.Load(); s != nil {
		return s.Report
	}
	return nil
}

// instrumentLedger makes the gauges of the ledger. Without a report there are none.
func (s *Signals) instrumentLedger(m metric.Meter) error {
	if s.o.Report == nil {
		return nil
	}
	var errs []error
	gauge := gauges(m, &errs)
	legacy := gauge("mcp.bridge.legacy.identities", "", "Identities that used HTTP+SSE within the quiet period, by class.")
	lastSeen := gauge("mcp.bridge.legacy.last_seen.timestamp", "s", "When a client last used HTTP+SSE, in Unix time.")
	ready := gauge("mcp.bridge.retirement.ready", "", "1 if the stage can be stepped to, 0 if somebody breaks, -1 if that cannot be told.")
	blockers := gauge("mcp.bridge.retirement.blockers", "", "Reasons of the verdict, blockers and doubts, by code.")
	identities := gauge("mcp.bridge.ledger.identities", "", "Identities in the ledger, by kind.")
	overflow, overflowErr := m.Int64ObservableCounter("mcp.bridge.ledger.overflow", metric.WithDescription("Conversations that the ledger had no room to keep by client, by network or by identity, whose kind that is."))
	errs = append(errs, overflowErr, s.instrumentCounters(m))
	flushed := gauge("mcp.bridge.ledger.last_flush.timestamp", "s", "When the ledger was last written, in Unix time.")
	exempt := gauge("mcp.bridge.legacy.exempt_refused", "", "Exempt identities that were refused over HTTP+SSE all the same.")
	ratio, err := m.Float64ObservableGauge("mcp.bridge.legacy.traffic", metric.WithUnit("1"), metric.WithDescription("Share of HTTP+SSE in the calls of the quiet period, 0 to 1."))
	if err := errors.Join(append(errs, err)...); err != nil {
		return err
	}
	_, err = m.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		r := s.view()
		if r == nil {
			return nil
		}
		observeCounts(o, legacy, r.legacyClasses(), func(c Class) metric.MeasurementOption { return with(labelClass.String(string(c))) })
		observeCounts(o, identities, r.kinds(), func(k string) metric.MeasurementOption { return with(labelKind.String(k)) })
		observeCounts(o, blockers, r.codes(), func(c string) metric.MeasurementOption { return with(labelCode.String(c)) })
		for name, seen := range s.lastSeen(r) {
			o.ObserveInt64(lastSeen, seen.Unix(), with(labelClient.String(name)))
		}
		o.ObserveInt64(ready, r.Verdict.number(), with(labelTarget.String(stageLabel(r.Target))))
		o.ObserveFloat64(ratio, r.Window.Share)
		o.ObserveInt64(exempt, exemptRefused(r))
		for of, n := range r.overflow() {
			o.ObserveInt64(overflow, n, with(labelKind.String(of.kind), labelTransport.String(transportLabel(of.transport))))
		}
		if !r.Observation.LastFlush.IsZero() {
			o.ObserveInt64(flushed, r.Observation.LastFlush.Unix())
		}
		return nil
	}, legacy, lastSeen, ready, blockers, identities, overflow, flushed, exempt, ratio)
	return err
}

func observeCounts[K comparable](o metric.Observer, g metric.Int64ObservableGauge, counts map[K]int64, series func(K) metric.MeasurementOption) {
	for k, n := range counts {
		o.ObserveInt64(g, n, series(k))
	}
}

// view returns the report to show, nil if there never was one. It must not be changed.
func (s *Signals) view() *Report {
	v := &s.ledger
	v.mu.Lock()
	defer v.mu.Unlock()
	now := time.Now()
	if now.Before(v.due) {
		return v.report()
	}
	r, err := s.o.Report()
	v.due = now.Add(max(s.o.ReportEvery, reportShare*time.Since(now)))
	if err != nil {
		if !errors.Is(err, ErrClosed) {
			s.o.Logger.LogAttrs(context.Background(), slog.LevelWarn, "gauges of the ledger are old: it gives no report", slog.Any("err", err))
		}
		return v.report()
	}
	classes := make(map[string]Class, len(r.Identities))
	for i := range r.Identities {
		classes[r.Identities[i].ID] = r.Identities[i].Class
	}
	v.shown.Store(&shownReport{&r, classes})
	s.learnLedger(&r)
	if !now.Before(v.namesAt) {
		v.wait = min(max(2*v.wait, namesFirst), namesInterval)
		v.namesAt = now.Add(v.wait)
		s.admitNames(&r)
	}
	return &r
}

// class returns the class of the first of the ids that the last report knows.
func (v *ledgerView) class(ids []string) (Class, bool) {
	s := v.shown.Load()
	if s == nil {
		return "", false
	}
	for _, id := range ids {
		if c, ok := s.classes[id]; ok {
			return c, true
		}
	}
	return "", false
}

// learnLedger takes from the ledger what was used over HTTP+SSE before this program began.
func (s *Signals) learnLedger(r *Report) {
	for _, t := range r.Revisions {
		if revision, ok := negotiate.Parse(t.revision()); ok && t.Transport == exchange.HTTPSSE && t.Sessions+t.Reopened > 0 {
			s.surface.use(revision)
		}
	}
}

// admitNames makes the names that the ledger has most calls of label values, as long as there is room.
func (s *Signals) admitNames(r *Report) {
	calls := make(map[string]int64)
	for _, c := range r.Clients {
		if c.Name != "" && !c.Probe {
			calls[c.Name] += c.Calls
		}
	}
	names := make([]string, 0, len(calls))
	for name, n := range calls {
		if n >= minNameCalls {
			names = append(names, name)
		}
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(cmp.Compare(calls[b], calls[a]), cmp.Compare(a, b)) })
	for _, name := range names[:min(len(names), topNames)] {
		s.names.admit(name)
	}
}

// lastSeen is when each client name that is a label value last used HTTP+SSE, and when any of the others did.
func (s *Signals) lastSeen(r *Report) map[string]time.Time {
	out := make(map[string]time.Time)
	for _, c := range r.Clients {
		if c.Transport != exchange.HTTPSSE || c.Probe {
			continue
		}
		if name := s.names.has(c.Name); c.LastSeen.After(out[name]) {
			out[name] = c.LastSeen
		}
	}
	return out
}

// exemptRefused counts the identities that are exempt now and were refused over HTTP+SSE in the window.
func exemptRefused(r *Report) int64 {
	var n int64
	for i := range r.Identities {
		if id := &r.Identities[i]; id.ExemptUntil.After(r.GeneratedAt) && id.Window.Refusals > 0 {
			n++
		}
	}
	return n
}
