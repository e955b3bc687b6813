package telemetry

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/negotiate"
)

// startServed begins the span of a client's request. Its parent is what the request's _meta names (SEP-414), and the span around
// the HTTP request, if there is one, is linked; without such a parent it is the parent itself. The span is nil when there are none.
func (s *Signals) startServed(ctx context.Context, op operation, l *leg, params []byte, session string) (context.Context, trace.Span) {
	if s.tracer == nil {
		return ctx, nil
	}
	options := []trace.SpanStartOption{trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(append(op.attributes(), l.attrs...)...)}
	if session != "" {
		options = append(options, trace.WithAttributes(keySession.String(short(session))))
	}
	ambient := trace.SpanContextFromContext(ctx)
	carrier := new(traceCarrier(negotiate.ReadTrace(params)))
	if remote := trace.SpanContextFromContext(propagation.TraceContext{}.Extract(context.Background(), carrier)); remote.IsValid() {
		ctx = trace.ContextWithRemoteSpanContext(ctx, remote)
		if ambient.IsValid() {
			options = append(options, trace.WithLinks(trace.Link{SpanContext: ambient}))
		}
	}
	if carrier.Baggage != "" {
		ctx = propagation.Baggage{}.Extract(ctx, carrier)
	}
	return s.tracer.Start(ctx, op.spanName(), options...)
}

// startAsked begins the span of a request to the server and, if it is recorded, puts it into the request's _meta. The span is nil
// when there are none.
func (s *Signals) startAsked(ctx context.Context, op operation, l *leg, req *exchange.Request) (context.Context, trace.Span) {
	if s.tracer == nil {
		return ctx, nil
	}
	ctx, span := s.tracer.Start(ctx, op.spanName(), trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(append(op.attributes(), l.attrs...)...))
	if span.IsRecording() {
		var carrier traceCarrier
		propagation.TraceContext{}.Inject(ctx, &carrier)
		req.Params = negotiate.WithTrace(req.Params, negotiate.Trace(carrier))
	}
	return ctx, span
}

// spanName is "{method} {tool}", or the method alone where the tool is none that the server lists.
func (op operation) spanName() string {
	if op.subject == "" || op.subject == other {
		return op.method
	}
	return op.method + " " + op.subject
}

// endSpan ends span, if there is one, with what came of the operation. No text of an error goes into it: it may hold what
// a client said.
func endSpan(span trace.Span, op operation) {
	if span == nil {
		return
	}
	span.SetAttributes(op.outcomeAttributes()...)
	span.SetAttributes(attribute.String("mcp.bridge.outcome", op.outcome))
	if op.outcome == outcomeError || op.outcome == outcomeFailed || op.outcome == outcomeToolError {
		span.SetStatus(codes.Error, op.fault)
	}
	span.End()
}

// A traceCarrier is a negotiate.Trace as OpenTelemetry reads and writes it.
type traceCarrier negotiate.Trace

func (c *traceCarrier) field(key string) *string {
	switch key {
	case negotiate.MetaTraceParent:
		return &c.Parent
	case negotiate.MetaTraceState:
		return &c.State
	case negotiate.MetaBaggage:
		return &c.Baggage
	}
	return new(string)
}

// Get returns the value of a key.
func (c *traceCarrier) Get(key string) string { return *c.field(key) }

// Set sets the value of a key.
func (c *traceCarrier) Set(key, value string) { *c.field(key) = value }

// Keys returns the keys that have a value.
func (c *traceCarrier) Keys() []string {
	var keys []string
	for _, key := range []string{negotiate.MetaTraceParent, negotiate.MetaTraceState, negotiate.MetaBaggage} {
		if *c.field(key) != "" {
			keys = append(keys, key)
		}
	}
	return keys
}
