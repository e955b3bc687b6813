package telemetry

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/mcp-dualstack/bridge/exchange"
)

// Labels of the bridge's own metrics (retirement.md 7).
const (
	labelTransport = attribute.Key("transport")
	labelRevision  = attribute.Key("protocol_version")
	labelMethod    = attribute.Key("method")
	labelOutcome   = attribute.Key("outcome")
	labelClient    = attribute.Key("client")
	labelKind      = attribute.Key("kind")
	labelReason    = attribute.Key("reason")
	labelBound     = attribute.Key("bound")
	labelStage     = attribute.Key("stage")
	labelPoint     = attribute.Key("point")
	labelMode      = attribute.Key("mode")
	labelClass     = attribute.Key("class")
	labelCode      = attribute.Key("code")
	labelTarget    = attribute.Key("target_stage")
	labelSurface   = attribute.Key("surface")
	labelRemoval   = attribute.Key("removal_date")
)

// eventCounters are the instruments that are written when something happens.
type eventCounters struct {
	serverSession, clientSession metric.Float64Histogram
	active                       metric.Int64UpDownCounter
	streams                      metric.Int64UpDownCounter
	tombstones                   metric.Int64UpDownCounter

	// Series that are counted on the goroutine of a stream, made beforehand: making one goes so deep that the stack of an idle stream
	// would stay twice as large.
	streamSeries map[string]metric.MeasurementOption    // by transport
	observations map[[2]string]metric.MeasurementOption // by kind and transport

	opened, streamsOpened, observed, refused, dropped, bound, evidence, sameURL, legacyRefused, wouldRefuse, tombstone metric.Int64Counter
}

func (e *eventCounters) instrument(m metric.Meter) error {
	var errs []error
	histogram := func(field *metric.Float64Histogram, name, help string) {
		var err error
		*field, err = m.Float64Histogram(name, metric.WithUnit("s"), metric.WithDescription(help), metric.WithExplicitBucketBoundaries(seconds...))
		errs = append(errs, err)
	}
	counter := func(field *metric.Int64Counter, name, help string) {
		var err error
		*field, err = m.Int64Counter(name, metric.WithDescription(help))
		errs = append(errs, err)
	}
	gauge := func(field *metric.Int64UpDownCounter, name, help string) {
		var err error
		*field, err = m.Int64UpDownCounter(name, metric.WithDescription(help))
		errs = append(errs, err)
	}
	histogram(&e.serverSession, "mcp.server.session.duration", "How long sessions of clients lasted.")
	histogram(&e.clientSession, "mcp.client.session.duration", "How long sessions with the server lasted.")
	gauge(&e.active, "mcp.bridge.sessions.active", "Sessions of clients that are open.")
	gauge(&e.streams, "mcp.bridge.streams.open", "Streams of server-sent events that are open.")
	gauge(&e.tombstones, "mcp.bridge.tombstone.sessions.active", "Legacy streams open on which every request is refused.")
	counter(&e.opened, "mcp.bridge.sessions.opened", "Sessions of clients that began, or were to begin.")
	counter(&e.streamsOpened, "mcp.bridge.streams.opened", "Streams of server-sent events that were opened.")
	counter(&e.observed, "mcp.bridge.observations", "What the fronts saw that is no conversation.")
	counter(&e.refused, "mcp.bridge.requests.refused", "HTTP requests refused before they reached a conversation.")
	counter(&e.dropped, "mcp.bridge.messages.dropped", "Messages to clients that could not be delivered, streams of slow readers cut.")
	counter(&e.bound, "mcp.bridge.bound.reached", "Times that a bound of the options was reached.")
	counter(&e.evidence, "mcp.bridge.upgrade.evidence", "Signs on the legacy routes that a client could do without them.")
	counter(&e.sameURL, "mcp.bridge.same_url.upgrades", "Requests of Streamable HTTP without a session on the legacy URL.")
	counter(&e.legacyRefused, "mcp.bridge.legacy.refusals", "Legacy requests refused by a retirement stage.")
	counter(&e.wouldRefuse, "mcp.bridge.legacy.would_refuse", "Legacy handshakes that a later stage would have refused.")
	counter(&e.tombstone, "mcp.bridge.tombstone.sessions", "Legacy streams opened on which every request is refused.")
	if err := errors.Join(errs...); err != nil {
		return err
	}
	e.makeSeries()
	for _, stage := range []string{"closed", "drain", "gone"} {
		for point := range points {
			e.legacyRefused.Add(context.Background(), 0, refusal(stage, point, "")) // so that an alert sees the first
		}
	}
	return nil
}

// makeSeries makes the series that streams count in.
func (e *eventCounters) makeSeries() {
	e.streamSeries, e.observations = map[string]metric.MeasurementOption{}, map[[2]string]metric.MeasurementOption{}
	for _, t := range []string{exchange.HTTPSSE, exchange.StreamableHTTP, "", other} {
		e.streamSeries[t] = with(labelTransport.String(t))
		e.observations[[2]string{other, t}] = with(labelKind.String(other), labelTransport.String(t))
		for kind := range seen {
			e.observations[[2]string{kind, t}] = with(labelKind.String(kind), labelTransport.String(t))
		}
	}
}

// refusal is a series of refusals by a stage.
func refusal(stage, point, mode string) metric.MeasurementOption {
	return with(labelStage.String(stageLabel(stage)), labelPoint.String(oneOf(point, points)), labelMode.String(oneOf(mode, modes)))
}

// with returns the attributes of a series.
func with(kv ...attribute.KeyValue) metric.MeasurementOption {
	return metric.WithAttributeSet(attribute.NewSet(kv...))
}

// transportLabel returns a transport of clients as a label value; "" stays, which is no label.
func transportLabel(t string) string {
	switch t {
	case exchange.HTTPSSE, exchange.StreamableHTTP, "":
		return t
	}
	return other
}

// Bound counts that the bound of that name was reached. The transport is that of the clients, if the bound belongs to one of
// their fronts.
func (s *Signals) Bound(transport, name string) {
	attrs := []attribute.KeyValue{labelBound.String(s.bounds.admit(clean(name)))}
	if transport != "" {
		attrs = append(attrs, labelTransport.String(transportLabel(transport)))
	}
	s.events.bound.Add(context.Background(), 1, with(attrs...))
}

// StreamOpened counts a stream and returns what says that it has ended, which must be called once.
func (s *Signals) StreamOpened(transport string) (ended func()) {
	series := s.events.streamSeries[transportLabel(transport)]
	s.events.streamsOpened.Add(context.Background(), 1, series)
	s.events.streams.Add(context.Background(), 1, series)
	return func() { s.events.streams.Add(context.Background(), -1, series) }
}

// seen are the kinds of observations that are label values.
var seen = wordSet(
	exchange.SeenStream, exchange.SeenSilent, exchange.SeenDiscover, exchange.SeenVersionHeader, exchange.SeenSameURL, exchange.SeenRefused,
	exchange.SeenMismatch, exchange.SeenDuplicateID, exchange.SeenDropped, exchange.SeenReattached, exchange.SeenBound,
	exchange.SeenWouldRefuse, exchange.SeenExempt, exchange.SeenTombstone, exchange.SeenTombstoneEnd, exchange.SeenNotice,
)

// Observe counts and logs what a front has seen.
func (s *Signals) Observe(o exchange.Observation) {
	ctx, e := context.Background(), &s.events
	transport := labelTransport.String(transportLabel(o.Transport))
	kind := o.Kind
	if !seen[kind] {
		kind = other
	}
	e.observed.Add(ctx, 1, e.observations[[2]string{kind, transport.Value.AsString()}])
	switch o.Kind {
	case exchange.SeenRefused:
		s.refused(o, transport)
	case exchange.SeenDropped:
		e.dropped.Add(ctx, 1, with(labelReason.String(dropReason(o.Detail)), transport))
	case exchange.SeenBound:
		s.Bound(o.Transport, o.Detail)
	case exchange.SeenDiscover:
		e.evidence.Add(ctx, 1, with(labelKind.String(SignDiscover)))
	case exchange.SeenVersionHeader:
		e.evidence.Add(ctx, 1, with(labelKind.String(SignVersion)))
	case exchange.SeenSameURL:
		e.sameURL.Add(ctx, 1, with(labelRevision.String(revisionLabel(o.Version))))
	case exchange.SeenWouldRefuse:
		e.wouldRefuse.Add(ctx, 1, with(labelStage.String(stageLabel(o.Stage))))
	case exchange.SeenTombstone:
		e.tombstone.Add(ctx, 1)
		e.tombstones.Add(ctx, 1)
	case exchange.SeenTombstoneEnd:
		e.tombstones.Add(ctx, -1)
	}
	s.logObservation(o)
}

// refused counts a refusal: by a stage of the retirement, or for its own reason.
func (s *Signals) refused(o exchange.Observation, transport attribute.KeyValue) {
	ctx := context.Background()
	if o.Stage == "" {
		s.events.refused.Add(ctx, 1, with(labelReason.String(s.reasons.admit(clean(o.Detail))), transport))
		return
	}
	s.events.legacyRefused.Add(ctx, 1, refusal(o.Stage, o.Point, o.Mode))
}

// dropReason returns why or what was dropped: a reason of the bridge's, or the method of a notification, which is the server's word.
func dropReason(detail string) string {
	if methods[detail] || failures[detail] || detail == "log_full" {
		return detail
	}
	return other
}

var (
	points = wordSet("get", "initialize", "request", "message")
	modes  = wordSet("initialize", "calls", "hard")
)

// oneOf returns word if it is in the set or empty.
func oneOf(word string, set map[string]bool) string {
	if word == "" || set[word] {
		return word
	}
	return other
}
