package telemetry

import (
	"context"
	"errors"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/negotiate"
)

// Attribute names (OpenTelemetry semantic conventions for MCP, and our own under mcp.bridge).
const (
	keyMethod      = attribute.Key("mcp.method.name")
	keyRevision    = attribute.Key("mcp.protocol.version")
	keySession     = attribute.Key("mcp.session.id")
	keyErrorType   = attribute.Key("error.type")
	keyStatusCode  = attribute.Key("rpc.response.status_code")
	keyTool        = attribute.Key("gen_ai.tool.name")
	keyPrompt      = attribute.Key("gen_ai.prompt.name")
	keyOperation   = attribute.Key("gen_ai.operation.name")
	keyNetwork     = attribute.Key("network.transport")
	keyNetProtocol = attribute.Key("network.protocol.name")
	keyTransport   = attribute.Key("mcp.bridge.transport")
	keyUpstream    = attribute.Key("mcp.bridge.upstream")
)

// seconds are the bounds of the buckets of all four durations (retirement.md 7).
var seconds = []float64{0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300}

// operations records the durations of one leg of the bridge: of what clients ask, or of what the server is asked.
type operations struct {
	duration metric.Float64Histogram
	max      int
	reached  func(transport string)
	legs     []*leg
}

// A leg is the operations over one transport in one revision.
type leg struct {
	ops                 *operations
	transport, revision string
	attrs               []attribute.KeyValue     // of every operation
	session             metric.MeasurementOption // series of the sessions that are open

	cells atomic.Pointer[map[operation]*cell] // immutable; replaced under mu
	mu    sync.Mutex
}

// A cell is one series of the duration.
type cell struct {
	attrs []metric.RecordOption
	n     atomic.Int64
}

// revisions are what a conversation may speak; None is that of one refused before it spoke any.
var revisions = []negotiate.Revision{
	negotiate.None, negotiate.Rev20241105, negotiate.Rev20250326, negotiate.Rev20250618, negotiate.Rev20251125, negotiate.Rev20260728,
}

func newOperations(max int, reached func(string), transports []string, more ...attribute.KeyValue) *operations {
	ops := &operations{max: max, reached: reached}
	for _, t := range append(transports, other) {
		for _, r := range revisions {
			l := &leg{ops: ops, transport: t, revision: revisionLabel(r.String())}
			l.attrs = append(network(t), keyRevision.String(l.revision), keyTransport.String(t))
			l.attrs = append(l.attrs, more...)
			l.session = with(labelTransport.String(t), labelRevision.String(l.revision))
			l.cells.Store(&map[operation]*cell{})
			ops.legs = append(ops.legs, l)
		}
	}
	return ops
}

// network returns the attributes of the network below a transport.
func network(transport string) []attribute.KeyValue {
	switch transport {
	case exchange.HTTPSSE, exchange.StreamableHTTP:
		return []attribute.KeyValue{keyNetwork.String("tcp"), keyNetProtocol.String("http")}
	case transportStdio, transportInProcess:
		return []attribute.KeyValue{keyNetwork.String("pipe")}
	}
	return nil
}

// Values of mcp.bridge.transport beside those of package exchange.
const (
	transportStdio     = "stdio"
	transportInProcess = "inprocess"
)

// leg returns the leg of a transport and a revision.
func (ops *operations) leg(transport string, r negotiate.Revision) *leg {
	if int(r) >= len(revisions) {
		r = negotiate.None
	}
	at := len(ops.legs) - len(revisions) // the last transport stands for all others
	for i := 0; i < at; i += len(revisions) {
		if ops.legs[i].transport == transport {
			at = i
			break
		}
	}
	return ops.legs[at+int(r)]
}

// record records an operation that took d. ctx may carry a span, of which the series then keeps an example.
func (l *leg) record(ctx context.Context, op operation, d time.Duration) {
	c, ok := (*l.cells.Load())[op]
	if !ok {
		c = l.admit(op)
	}
	c.n.Add(1)
	l.ops.duration.Record(ctx, d.Seconds(), c.attrs...)
}

// admit returns the cell of op, which it makes if there is room, else the one of what op is without its tool and its error.
// Of those there are at most one for each method and outcome, and they are always made.
func (l *leg) admit(op operation) *cell {
	if c := l.make(op); c != nil {
		return c
	}
	l.ops.reached(l.transport)
	return l.make(op.folded())
}

// make returns the cell of op; nil if there is none and no room for it.
func (l *leg) make(op operation) *cell {
	l.mu.Lock()
	defer l.mu.Unlock()
	cells := *l.cells.Load()
	if c := cells[op]; c != nil {
		return c
	}
	if op != op.folded() && l.ops.series() >= l.ops.max {
		return nil
	}
	c := &cell{attrs: []metric.RecordOption{metric.WithAttributeSet(attribute.NewSet(append(op.attributes(), l.attrs...)...))}}
	more := maps.Clone(cells)
	more[op] = c
	l.cells.Store(&more)
	return c
}

// series counts the series of all legs.
func (ops *operations) series() int {
	n := 0
	for _, l := range ops.legs {
		n += len(*l.cells.Load())
	}
	return n
}

// instrumentOperations makes the durations of both legs and the count of requests, which is made of the same.
func (s *Signals) instrumentOperations(m metric.Meter) error {
	reached := func(transport string) { s.Bound(transport, boundSeries) }
	s.server = newOperations(s.o.MaxSeries, reached, []string{exchange.HTTPSSE, exchange.StreamableHTTP})
	s.client = newOperations(s.o.MaxSeries, func(string) { reached("") },
		[]string{transportStdio, transportInProcess, exchange.HTTPSSE, exchange.StreamableHTTP}, keyUpstream.String(s.o.UpstreamName))
	var err, clientErr error
	s.server.duration, err = m.Float64Histogram("mcp.server.operation.duration", metric.WithUnit("s"), metric.WithExplicitBucketBoundaries(seconds...),
		metric.WithDescription("How long requests and notifications of clients took."))
	s.client.duration, clientErr = m.Float64Histogram("mcp.client.operation.duration", metric.WithUnit("s"), metric.WithExplicitBucketBoundaries(seconds...),
		metric.WithDescription("How long requests and notifications to the server took."))
	requests, requestsErr := m.Int64ObservableCounter("mcp.bridge.requests", metric.WithDescription("Requests and notifications of clients."))
	if err := errors.Join(err, clientErr, requestsErr); err != nil {
		return err
	}
	_, err = m.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		for _, l := range s.server.legs {
			for what, n := range l.requests() {
				o.ObserveInt64(requests, n, with(labelTransport.String(l.transport), labelRevision.String(l.revision),
					labelMethod.String(what.method), labelOutcome.String(what.outcome)))
			}
		}
		return nil
	}, requests)
	return err
}

// requests sums up the series of a leg by method and outcome.
func (l *leg) requests() map[operation]int64 {
	sums := make(map[operation]int64)
	for op, c := range *l.cells.Load() {
		sums[operation{method: op.method, outcome: op.outcome}] += c.n.Load()
	}
	return sums
}
