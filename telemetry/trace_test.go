package telemetry_test

import (
	"bytes"
	"context"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/baggage"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/negotiate"
	"github.com/mcp-dualstack/bridge/telemetry"
)

const (
	traceID      = "0af7651916cd43dd8448eb211c80319c"
	parentSpan   = "b7ad6b7169203331"
	traceparent  = "00-" + traceID + "-" + parentSpan + "-01"
	notSampled   = "00-" + traceID + "-" + parentSpan + "-00"
	calledEcho   = "tools/call echo"
	calledOthers = "tools/call"
)

// A tracedServer keeps the params that came to it and the context they came in.
type tracedServer struct {
	server
	params []byte
	ctx    context.Context
}

func (s *tracedServer) Open(_ context.Context, c exchange.Client) (exchange.Session, error) {
	return &tracedConversation{conversation{&s.server, c}, s}, nil
}

type tracedConversation struct {
	conversation
	s *tracedServer
}

func (c *tracedConversation) Call(ctx context.Context, req exchange.Request, back exchange.Peer) (exchange.Response, error) {
	c.s.params, c.s.ctx = req.Params, ctx
	if req.Method == "tools/list" {
		return exchange.Response{Result: []byte(`{"tools":[{"name":"echo"}]}`)}, nil
	}
	return c.conversation.Call(ctx, req, back)
}

// traced calls echo once with params in ctx and returns the spans, the server's first, and what came to the server.
func traced(ctx context.Context, t *testing.T, c exchange.Client, params string, resp exchange.Response, o ...sdktrace.TracerProviderOption) (spans tracetest.SpanStubs, s *tracedServer) {
	t.Helper()
	into := tracetest.NewInMemoryExporter()
	provider := sdktrace.NewTracerProvider(append(o, sdktrace.WithSyncer(into))...)
	signals := newSignals(t, &telemetry.SignalOptions{Export: telemetry.Export{Tracer: provider}})
	s = &tracedServer{server: server{call: func(context.Context) (exchange.Response, error) { return resp, nil }}}
	sess, err := signals.Served(signals.Upstream(s)).Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := sess.Call(t.Context(), exchange.Request{Method: "tools/list"}, nil); err != nil {
		t.Fatal(err)
	}
	into.Reset()
	if _, err := sess.Call(ctx, exchange.Request{Method: "tools/call", Params: []byte(params)}, nil); err != nil {
		t.Fatal(err)
	}
	spans = into.GetSpans()
	if len(spans) == 2 { // they are exported as they end, the inner one first
		spans[0], spans[1] = spans[1], spans[0]
	}
	return spans, s
}

// The span of a client's request continues the trace that its _meta names, the one to the server is its child, and the server is
// told of that one and nothing else has changed (SEP-414).
func TestTraceGoesOn(t *testing.T) {
	params := `{"_meta":{"traceparent":"` + traceparent + `","tracestate":"vendor=1","baggage":"k=v","progressToken":1.0},"name":"echo","arguments":{"n":1e0}}`
	spans, s := traced(t.Context(), t, legacyClient("c"), params, exchange.Response{Result: []byte(`{}`)})
	if len(spans) != 2 {
		t.Fatalf("got %d spans, want 2", len(spans))
	}
	served, asked := spans[0], spans[1]
	for _, tt := range []struct {
		span   tracetest.SpanStub
		kind   trace.SpanKind
		parent string
	}{{served, trace.SpanKindServer, parentSpan}, {asked, trace.SpanKindClient, served.SpanContext.SpanID().String()}} {
		if tt.span.Name != calledEcho || tt.span.SpanKind != tt.kind || tt.span.SpanContext.TraceID().String() != traceID || tt.span.Parent.SpanID().String() != tt.parent {
			t.Errorf("got span %s, %v, in %s below %s", tt.span.Name, tt.span.SpanKind, tt.span.SpanContext.TraceID(), tt.span.Parent.SpanID())
		}
	}
	wantParams := `{"_meta":{"traceparent":"00-` + traceID + `-` + asked.SpanContext.SpanID().String() + `-01","tracestate":"vendor=1","baggage":"k=v","progressToken":1.0},"name":"echo","arguments":{"n":1e0}}`
	if string(s.params) != wantParams {
		t.Errorf("the server got %s, want %s", s.params, wantParams)
	}
	if got := baggage.FromContext(s.ctx).Member("k").Value(); got != "v" {
		t.Errorf("got baggage %q in the context, want v", got)
	}
	attrs := attribute.NewSet(served.Attributes...)
	for key, value := range map[attribute.Key]string{
		"mcp.method.name": "tools/call", "gen_ai.tool.name": "echo", "gen_ai.operation.name": "execute_tool", "mcp.protocol.version": "2025-11-25",
		"mcp.bridge.transport": "http_sse", "network.transport": "tcp", "mcp.session.id": "s1", "mcp.bridge.outcome": "ok",
	} {
		if got, _ := attrs.Value(key); got.AsString() != value {
			t.Errorf("%s: got %q, want %q", key, got.AsString(), value)
		}
	}
}

func TestTraceBegins(t *testing.T) {
	long := legacyClient("c")
	long.Session = "0123456789abcdef"
	spans, s := traced(t.Context(), t, long, `{"name":"nobody","arguments":{}}`, exchange.Response{Error: &exchange.Error{Code: -32602, Message: "secret words"}})
	served := spans[0]
	if served.Parent.IsValid() || served.Name != calledOthers {
		t.Errorf("got span %q below %v, want a root called by the method alone", served.Name, served.Parent)
	}
	if served.Status.Code != codes.Error || served.Status.Description != "-32602" || len(served.Events) != 0 {
		t.Errorf("got status %+v and events %v, want the code and no words", served.Status, served.Events)
	}
	attrs := attribute.NewSet(served.Attributes...)
	if id, _ := attrs.Value("mcp.session.id"); id.AsString() != "01234567" {
		t.Errorf("got session %q, want it shortened", id.AsString())
	}
	if got := negotiate.ReadTrace(s.params); got.Parent == "" {
		t.Errorf("the server got no parent: %s", s.params)
	}
}

// The span around the HTTP request is linked if the message has a parent of its own, and is the parent if it has none.
func TestAmbientSpan(t *testing.T) {
	ambient := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}, TraceFlags: trace.FlagsSampled})
	ctx := trace.ContextWithSpanContext(t.Context(), ambient)
	spans, _ := traced(ctx, t, legacyClient("c"), `{"_meta":{"traceparent":"`+traceparent+`"}}`, exchange.Response{})
	if got := spans[0].Links; len(got) != 1 || got[0].SpanContext.SpanID() != ambient.SpanID() || spans[0].Parent.SpanID().String() != parentSpan {
		t.Errorf("got links %v below %v, want the ambient span linked below the message's", got, spans[0].Parent.SpanID())
	}
	spans, _ = traced(ctx, t, legacyClient("c"), `{}`, exchange.Response{})
	if len(spans[0].Links) != 0 || spans[0].Parent.SpanID() != ambient.SpanID() {
		t.Errorf("got links %v below %v, want the ambient span as parent", spans[0].Links, spans[0].Parent.SpanID())
	}
}

// Where no span is recorded every byte stays as it came: without a tracer, and when nobody samples the trace.
func TestUntracedBytes(t *testing.T) {
	params := `{ "_meta" : {"traceparent":"` + notSampled + `"},"name":"echo" }`
	spans, s := traced(t.Context(), t, legacyClient("c"), params, exchange.Response{})
	if len(spans) != 0 || string(s.params) != params {
		t.Errorf("not sampled: got %d spans and %s", len(spans), s.params)
	}
	spans, s = traced(t.Context(), t, legacyClient("c"), `{"name":"echo"}`, exchange.Response{}, sdktrace.WithSampler(sdktrace.NeverSample()))
	if len(spans) != 0 || string(s.params) != `{"name":"echo"}` {
		t.Errorf("never sampled: got %d spans and %s", len(spans), s.params)
	}

	signals := newSignals(t, nil)
	untouched := &tracedServer{}
	sess, err := signals.Served(signals.Upstream(untouched)).Open(t.Context(), legacyClient("c"))
	if err != nil {
		t.Fatal(err)
	}
	raw := []byte(params)
	if _, err := sess.Call(t.Context(), exchange.Request{Method: "tools/call", Params: raw}, nil); err != nil {
		t.Fatal(err)
	}
	if &untouched.params[0] != &raw[0] || !bytes.Equal(raw, []byte(params)) {
		t.Error("without a tracer the params are not those that came")
	}
}

// What a client sends as a parent must not end up in anything but a trace, however it looks.
func TestBadParent(t *testing.T) {
	for _, parent := range []string{`"x"`, `7`, `""`, `"00-00000000000000000000000000000000-0000000000000000-01"`, `"` + traceparent + traceparent + `"`} {
		spans, s := traced(t.Context(), t, legacyClient("c"), `{"_meta":{"traceparent":`+parent+`,"tracestate":",,,","baggage":"=;="}}`, exchange.Response{})
		if len(spans) != 2 || spans[0].Parent.IsValid() {
			t.Errorf("%s: got %d spans, the first below %v; want a trace of its own", parent, len(spans), spans[0].Parent)
			continue
		}
		if got := negotiate.ReadTrace(s.params); got.Parent == "" || got.State != "" {
			t.Errorf("%s: the server got %s", parent, s.params)
		}
	}
}
