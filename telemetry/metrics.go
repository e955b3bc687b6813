package telemetry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/otel/metric"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/mcp-dualstack/bridge/exchange"
)

// Defaults of SignalOptions.
const (
	DefaultMaxSeries   = 2_048
	DefaultMaxTools    = 256
	DefaultMaxNames    = 64
	DefaultReportEvery = 15 * time.Second
)

// SignalOptions change what is shown of a bridge while it runs. The zero value of each field is its default.
type SignalOptions struct {
	// MaxSeries is how many series the duration of operations may have, for each of the two legs; zero: 2048. What comes beyond is
	// counted with the tool and the error under "_OTHER".
	MaxSeries int
	// MaxTools is how many tools, and how many prompts, of the server's lists may be label values; zero: 256.
	MaxTools int
	// MaxNames is how many client names may ever be label values, ClientNames among them; zero: 64. All others are "other".
	MaxNames int
	// ClientNames are client names that are label values from the start.
	ClientNames []string
	// ReportEvery is how long a report may be shown before another is asked for; zero: 15 s.
	ReportEvery time.Duration

	// UpstreamName is the label that tells several bridges' servers apart; empty: "default".
	UpstreamName string
	// UpstreamTransport says how the server is reached now: stdio, pipe, http_sse or streamable_http; nil or "": unknown.
	UpstreamTransport func() string

	// Report is what the gauges of the ledger come from; nil: there are none. Errors are logged and leave the last values.
	Report func() (Report, error)
	// Counters are what has happened to the ledger, for its counters; nil: there are none.
	Counters func() Counters
	// Retirement is what the gauges of the stage come from; nil: the stage is open and nobody has ever changed it.
	Retirement func() Retirement

	// IDs are the ids of the identities that a client may be, the surest first, for the log; nil: nobody is known.
	IDs func(exchange.Client) []string

	// Export sends metrics and traces elsewhere, beside the handler.
	Export Export

	Version string       // of the program, as service.version; empty: unknown
	Logger  *slog.Logger // nil is silent
}

// An Export is where signals go beside the metrics handler. The zero value sends nothing and makes no spans.
type Export struct {
	// Readers collect the metrics, such as a periodic reader with an OTLP exporter. The Signals shut them down.
	Readers []sdkmetric.Reader
	// Tracer makes the spans; nil: there are none and no message is touched for their sake. Its owner shuts it down.
	Tracer trace.TracerProvider
}

func (o *SignalOptions) withDefaults() SignalOptions {
	var out SignalOptions
	if o != nil {
		out = *o
	}
	for _, n := range []struct {
		field *int
		value int
	}{{&out.MaxSeries, DefaultMaxSeries}, {&out.MaxTools, DefaultMaxTools}, {&out.MaxNames, DefaultMaxNames}} {
		if *n.field == 0 {
			*n.field = n.value
		}
	}
	if out.ReportEvery == 0 {
		out.ReportEvery = DefaultReportEvery
	}
	if out.UpstreamName == "" {
		out.UpstreamName = "default"
	}
	if out.UpstreamTransport == nil {
		out.UpstreamTransport = func() string { return "" }
	}
	if out.Retirement == nil {
		out.Retirement = func() Retirement { return Retirement{} }
	}
	if out.Logger == nil {
		out.Logger = slog.New(slog.DiscardHandler)
	}
	return out
}

// Check reports everything that is wrong with o, joined.
func (o *SignalOptions) Check() error {
	d := o.withDefaults()
	return d.check()
}

func (o *SignalOptions) check() error {
	var errs []error
	for _, n := range []struct {
		name  string
		value int64
	}{{"MaxSeries", int64(o.MaxSeries)}, {"MaxTools", int64(o.MaxTools)}, {"MaxNames", int64(o.MaxNames)}, {"ReportEvery", int64(o.ReportEvery)}} {
		if n.value < 0 {
			errs = append(errs, fmt.Errorf("signal option %s is negative", n.name))
		}
	}
	if len(o.ClientNames) > o.MaxNames {
		errs = append(errs, fmt.Errorf("signal option ClientNames has %d names, more than MaxNames (%d)", len(o.ClientNames), o.MaxNames))
	}
	return errors.Join(errs...)
}

// Signals are the metrics, spans and log events of one bridge (retirement.md 7). Methods may be called concurrently.
type Signals struct {
	o        SignalOptions
	provider *sdkmetric.MeterProvider
	handler  http.Handler
	tracer   trace.Tracer // nil: no spans

	server, client *operations
	tools, prompts listing
	names          *vocabulary // client*
	bounds         *vocabulary // names of bounds
	reasons        *vocabulary // of refusals

	events  eventCounters
	ledger  ledgerView
	surface surfaces

	reach    reach
	began    time.Time     // what clock counts from
	requests atomic.Uint64 // numbers in the log
}

// NewSignals returns the signals of a bridge. The error joins what is wrong with the options.
func NewSignals(o *SignalOptions) (*Signals, error) {
	opts := o.withDefaults()
	if err := opts.check(); err != nil {
		return nil, err
	}
	s := &Signals{o: opts, began: time.Now()}
	s.reach.ask = opts.UpstreamTransport
	registry := prometheus.NewRegistry()
	if err := s.provide(registry); err != nil {
		return nil, err
	}
	s.tools.member, s.tools.names = "tools", newVocabulary(other, opts.MaxTools, s.full(boundTools))
	s.prompts.member, s.prompts.names = "prompts", newVocabulary(other, opts.MaxTools, s.full(boundTools))
	s.names = newVocabulary(otherName, opts.MaxNames, s.full(boundNames))
	s.bounds = newVocabulary(other, maxWords, nil)
	s.reasons = newVocabulary(other, maxWords, nil)
	for _, name := range []string{boundSeries, boundTools, boundNames} {
		s.bounds.admit(name)
	}
	for _, name := range opts.ClientNames {
		s.names.admit(clean(name))
	}
	if opts.Export.Tracer != nil {
		s.tracer = opts.Export.Tracer.Tracer(scope)
	}
	if err := s.instrument(s.provider.Meter(scope)); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	s.handler = promhttp.HandlerFor(registry, promhttp.HandlerOpts{
		Registry: registry, EnableOpenMetrics: true, MaxRequestsInFlight: 4, ErrorLog: scrapeLog{opts.Logger},
	})
	return s, nil
}

// scope is the name of what the instruments and spans come from.
const scope = "github.com/mcp-dualstack/bridge"

// instrument makes every instrument.
func (s *Signals) instrument(m metric.Meter) error {
	return errors.Join(s.instrumentOperations(m), s.events.instrument(m), s.instrumentLedger(m), s.instrumentRetirement(m))
}

// Names of bounds of SignalOptions, for the counter of bounds reached.
const (
	boundSeries = "max_series"
	boundTools  = "max_tools"
	boundNames  = "max_names"
)

// clock is the time since the signals began. It costs half of what time.Now does.
func (s *Signals) clock() time.Duration { return time.Since(s.began) }

// full returns a function that counts that the bound of that name was reached.
func (s *Signals) full(bound string) func() { return func() { s.Bound("", bound) } }

// ServeHTTP answers with all metrics in the text format of Prometheus or in OpenMetrics, as the request asks for.
func (s *Signals) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.handler.ServeHTTP(w, r) }

// Close sends what is outstanding to the readers of Export and shuts them down. What is recorded afterwards is lost. It may be
// called more than once.
func (s *Signals) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	err := s.provider.Shutdown(ctx)
	if errors.Is(err, sdkmetric.ErrReaderShutdown) {
		return nil // it was closed before
	}
	return err
}

// closeTimeout is how long a collector that does not answer may hold up the end.
const closeTimeout = 3 * time.Second

// A scrapeLog takes what goes wrong with a scrape to the log.
type scrapeLog struct{ log *slog.Logger }

func (l scrapeLog) Println(v ...any) {
	l.log.Warn("metrics are incomplete", "err", fmt.Sprint(v...))
}
