package telemetry

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/metric"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/negotiate"
)

// A Retirement is the stage of the legacy routes as this replica applies it. The zero value is open, and never changed.
type Retirement struct {
	Stage    string    // open, announce, warn, brownout, closed, drain or gone; empty: open
	Version  int64     // of the state document
	Sunset   time.Time // zero: none
	Brownout string    // mode of the window that is active now: initialize, calls or hard; empty: none is
	NextAt   time.Time // when the next scheduled step is due; zero: none is scheduled
	Next     string    // the stage of that step
}

// stages in their order (retirement.md 6).
var stages = []string{"open", "announce", "warn", "brownout", "closed", "drain", "gone"}

var stageSet = wordSet(stages...)

func stageLabel(stage string) string { return oneOf(stage, stageSet) }

// removalDate is the day of the sunset, empty without one.
func (r Retirement) removalDate() string {
	if r.Sunset.IsZero() {
		return ""
	}
	return r.Sunset.UTC().Format(time.DateOnly)
}

// surfaces are the revisions that have been used over HTTP+SSE. Once used, for ever used (Kubernetes'
// requested_deprecated_apis).
type surfaces [len(revisionIndex)]atomic.Bool

// revisionIndex is as long as there are revisions, None among them.
var revisionIndex [negotiate.Rev20260728 + 1]struct{}

func (u *surfaces) use(r negotiate.Revision) {
	if int(r) < len(u) {
		u[r].Store(true)
	}
}

// gauges returns what makes a gauge that is read when somebody collects. What goes wrong is added to errs.
func gauges(m metric.Meter, errs *[]error) func(name, unit, help string) metric.Int64ObservableGauge {
	return func(name, unit, help string) metric.Int64ObservableGauge {
		g, err := m.Int64ObservableGauge(name, metric.WithUnit(unit), metric.WithDescription(help))
		*errs = append(*errs, err)
		return g
	}
}

// instrumentRetirement makes the gauges of the stage. They are read when somebody collects.
func (s *Signals) instrumentRetirement(m metric.Meter) error {
	var errs []error
	gauge := gauges(m, &errs)
	stage := gauge("mcp.bridge.retirement.stage", "", "1 for the stage that is applied, 0 for the others.")
	version := gauge("mcp.bridge.retirement.state.version", "", "Version of the retirement state that is applied.")
	sunset := gauge("mcp.bridge.retirement.sunset.timestamp", "s", "When the legacy routes are to be gone, in Unix time.")
	next := gauge("mcp.bridge.retirement.next_step.timestamp", "s", "When the next scheduled step is due, in Unix time.")
	brownout := gauge("mcp.bridge.brownout.active", "", "1 while a brownout window of that mode refuses.")
	surface := gauge("mcp.bridge.deprecated_surface_requested", "", "1 if the deprecated surface has ever been used in that revision.")
	if err := errors.Join(errs...); err != nil {
		return err
	}
	_, err := m.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		now := s.o.Retirement()
		current := now.Stage
		if current == "" {
			current = stages[0]
		}
		for _, name := range stages {
			o.ObserveInt64(stage, flag(name == current), with(labelStage.String(name)))
		}
		o.ObserveInt64(version, now.Version)
		if !now.Sunset.IsZero() {
			o.ObserveInt64(sunset, now.Sunset.Unix())
		}
		if !now.NextAt.IsZero() {
			o.ObserveInt64(next, now.NextAt.Unix(), with(labelStage.String(stageLabel(now.Next))))
		}
		for mode := range modes {
			o.ObserveInt64(brownout, flag(mode == now.Brownout), with(labelMode.String(mode)))
		}
		for _, r := range revisions[negotiate.Rev20241105:negotiate.Rev20260728] {
			o.ObserveInt64(surface, flag(s.surface[r].Load()),
				with(labelSurface.String(exchange.HTTPSSE), labelRevision.String(r.String()), labelRemoval.String(now.removalDate())))
		}
		return nil
	}, stage, version, sunset, next, brownout, surface)
	return err
}

// flag is a truth as a gauge.
func flag(b bool) int64 {
	if b {
		return 1
	}
	return 0
}
