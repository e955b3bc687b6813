package telemetry

import (
	"context"
	"log/slog"
	"strconv"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/mcp-dualstack/bridge/exchange"
)

// Log events (retirement.md 7): the event attribute of log lines. Their names do not change. The ones of the
// retirement itself are in package retire, ledger.overflow and legacy.identity.new come from the ledger.
const (
	EventOpen       = "legacy.session.open"
	EventClose      = "legacy.session.close"
	EventRefused    = "legacy.session.refused"
	EventReattached = "legacy.session.reattached"
	EventEvidence   = "upgrade.evidence"
	EventSameURL    = "same_url.upgrade"
	EventCall       = "call"          // of a client; debug only
	EventAsked      = "upstream.call" // of the server; debug only
)

// short is a session id as logs and spans may have it: enough to tell sessions apart, and not enough to use one.
func short(session string) string { return session[:min(len(session), 8)] }

// A requestKey is where a context has the number of what a client asked. It joins the lines of the log that are about the same
// request. Nothing has one unless the log shows debug.
type requestKey struct{}

// numbered returns ctx with a number for what a client asks now.
func (s *Signals) numbered(ctx context.Context) context.Context {
	if !s.o.Logger.Enabled(ctx, slog.LevelDebug) {
		return ctx
	}
	return context.WithValue(ctx, requestKey{}, strconv.FormatUint(s.requests.Add(1), 36))
}

// number returns the number that ctx has, or a fresh one.
func (s *Signals) number(ctx context.Context) slog.Attr {
	n, ok := ctx.Value(requestKey{}).(string)
	if !ok {
		n = strconv.FormatUint(s.requests.Add(1), 36)
	}
	return slog.String("request", n)
}

// deprecated are the attributes that every event about a legacy session has, as audit annotations.
func (s *Signals) deprecated() []slog.Attr {
	a := []slog.Attr{slog.Bool("deprecated", true)}
	if date := s.o.Retirement().removalDate(); date != "" {
		a = append(a, slog.String("removal_date", date))
	}
	return a
}

func (s *Signals) logOpened(ctx context.Context, l *leg, c *exchange.Client, name, result string) {
	event, message := EventOpen, "legacy session opened"
	switch result {
	case openedReattached:
		event, message = EventReattached, "legacy session opened for a client that came back without a handshake"
	case openedRefused, openedFailed:
		event, message = EventRefused, "legacy session not opened"
	}
	s.o.Logger.LogAttrs(ctx, slog.LevelInfo, message, append([]slog.Attr{
		slog.String("event", event), s.number(ctx), slog.String("session", short(c.Session)), slog.String("transport", c.Transport),
		slog.String("revision", l.revision), slog.String("requested", revisionLabel(c.Requested)), slog.String("client", name), slog.String("outcome", result),
	}, append(s.deprecated(), s.who(c)...)...)...)
}

// logEvidence tells of a sign that a client gives by beginning a legacy session.
func (s *Signals) logEvidence(ctx context.Context, sign string, c *exchange.Client) {
	s.o.Logger.LogAttrs(ctx, slog.LevelInfo, evidenceMessage, append([]slog.Attr{
		slog.String("event", EventEvidence), s.number(ctx), slog.String("session", short(c.Session)), slog.String("transport", c.Transport),
		slog.String("revision", revisionLabel(c.Requested)), slog.String("kind", sign),
	}, append(s.deprecated(), s.who(c)...)...)...)
}

const evidenceMessage = "a client on the legacy route shows that it could do without it"

// who is the identity of a client and its class, as far as they are known.
func (s *Signals) who(c *exchange.Client) []slog.Attr {
	if s.o.IDs == nil {
		return nil
	}
	ids := s.o.IDs(*c)
	if len(ids) == 0 {
		return nil
	}
	a := []slog.Attr{slog.String("identity", ids[0])}
	if class, ok := s.ledger.class(ids); ok {
		a = append(a, slog.String("class", string(class)))
	}
	return a
}

func (s *Signals) logClosed(ctx context.Context, c *servedSession, fault string) {
	if c.leg.transport != exchange.HTTPSSE {
		return
	}
	attrs := append([]slog.Attr{
		slog.String("event", EventClose), slog.String("session", short(c.id)), slog.String("transport", c.leg.transport),
		slog.String("revision", c.leg.revision), slog.Int64("calls", c.calls.Load()), slog.Duration("lasted", time.Since(c.begun)),
	}, s.deprecated()...)
	if fault != "" {
		attrs = append(attrs, slog.String("error_type", fault))
	}
	s.o.Logger.LogAttrs(ctx, slog.LevelInfo, "legacy session closed", attrs...)
}

// logCall tells of one request, without anything that was said in it.
func (s *Signals) logCall(ctx context.Context, c *servedSession, op operation, took time.Duration) {
	if s.o.Logger.Enabled(ctx, slog.LevelDebug) {
		s.logOperation(ctx, EventCall, c.leg, op, took, slog.String("session", short(c.id)))
	}
}

// logAsked tells of one request to the server.
func (s *Signals) logAsked(ctx context.Context, l *leg, op operation, took time.Duration) {
	if s.o.Logger.Enabled(ctx, slog.LevelDebug) {
		s.logOperation(ctx, EventAsked, l, op, took)
	}
}

func (s *Signals) logOperation(ctx context.Context, event string, l *leg, op operation, took time.Duration, attrs ...slog.Attr) {
	attrs = append(attrs, slog.String("event", event), s.number(ctx), slog.String("transport", l.transport), slog.String("revision", l.revision),
		slog.String("method", op.method), slog.String("outcome", op.outcome), slog.Duration("took", took))
	if op.fault != "" {
		attrs = append(attrs, slog.String("error_type", op.fault))
	}
	if span := trace.SpanContextFromContext(ctx); span.IsValid() {
		attrs = append(attrs, slog.String("trace_id", span.TraceID().String()))
	}
	s.o.Logger.LogAttrs(ctx, slog.LevelDebug, "request ended", attrs...)
}

// logObservation tells of what a front has seen: of the events at info, of the rest at debug under its kind.
func (s *Signals) logObservation(o exchange.Observation) {
	level, event, message := slog.LevelDebug, o.Kind, "observed"
	switch {
	case o.Kind == exchange.SeenRefused && o.Transport == exchange.HTTPSSE:
		level, event, message = slog.LevelInfo, EventRefused, "legacy request refused"
	case o.Kind == exchange.SeenReattached:
		level, event, message = slog.LevelInfo, EventReattached, "a client that lost its legacy stream has its session again"
	case o.Kind == exchange.SeenDiscover, o.Kind == exchange.SeenVersionHeader:
		level, event, message = slog.LevelInfo, EventEvidence, evidenceMessage
	case o.Kind == exchange.SeenSameURL:
		event, message = EventSameURL, "Streamable HTTP on the legacy URL" // one per request of a stateless client
	}
	if !s.o.Logger.Enabled(context.Background(), level) {
		return
	}
	attrs := []slog.Attr{
		slog.String("event", event), s.number(context.Background()), slog.String("session", short(o.Session)), slog.String("transport", o.Transport),
		slog.String("revision", revisionLabel(o.Version)), slog.String("kind", o.Kind), slog.String("reason", clean(o.Detail)),
	}
	for _, a := range []slog.Attr{slog.String("stage", o.Stage), slog.String("point", o.Point), slog.String("mode", o.Mode)} {
		if a.Value.String() != "" {
			attrs = append(attrs, a)
		}
	}
	if o.Transport == exchange.HTTPSSE {
		attrs = append(attrs, s.deprecated()...)
		attrs = append(attrs, s.who(&exchange.Client{Info: o.Info, Transport: o.Transport, Session: o.Session, Principal: o.Principal, Addr: o.Addr, UserAgent: o.UserAgent})...)
	}
	s.o.Logger.LogAttrs(context.Background(), level, message, attrs...)
}
