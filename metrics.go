package bridge

import (
	"context"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/retire"
	"github.com/mcp-dualstack/bridge/telemetry"
	"github.com/mcp-dualstack/bridge/upstream"
)

// openSignals returns the metrics, spans and log events of b. They are what Options.Signals says, and what they show of the
// bridge comes from the bridge.
func (b *Bridge) openSignals() (*telemetry.Signals, error) {
	o := b.s.Signals
	o.Logger, o.Version = b.s.Logger, b.s.Version
	o.Report, o.Counters, o.IDs = b.nextReport, b.ledger.Counters, b.ledger.IDs
	o.UpstreamTransport = transportOf(b.up)
	o.Retirement = b.retirement.shown
	return telemetry.NewSignals(&o)
}

// shown is the stage as the gauges show it.
func (t *retirement) shown() telemetry.Retirement {
	now, state := time.Now(), t.state()
	r := telemetry.Retirement{Stage: string(state.Stage), Version: state.Version, Sunset: state.Sunset}
	if w := state.Active(now); w != nil {
		r.Brownout = string(w.Mode)
	}
	for _, step := range state.Schedule {
		if step.Held == "" && (r.NextAt.IsZero() || step.At.Before(r.NextAt)) {
			r.Next, r.NextAt = string(step.Stage), step.At
		}
	}
	return r
}

// nextReport is the report on the next scheduled step, or on gone if none is.
func (b *Bridge) nextReport() (telemetry.Report, error) {
	return b.Report(retire.Stage(b.retirement.shown().Next), 0)
}

// BoundReached counts that a bound of the server's connector was reached. It is for upstream.Options.Bound.
func (b *Bridge) BoundReached(name string) { b.signals.Bound("", name) }

// transportOf returns what says how up is reached, "" as long as that is not known. It asks nobody but up itself.
func transportOf(up exchange.Handler) func() string {
	c, ok := up.(upstream.Connector)
	if !ok {
		return nil
	}
	ended, end := context.WithCancel(context.Background())
	end()
	return func() string {
		v, err := c.Probe(ended)
		if err != nil {
			return ""
		}
		return v.Transport
	}
}

// countStreams counts the responses that are streams as long as they last.
func (b *Bridge) countStreams(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := &countedResponse{ResponseWriter: w, b: b, r: r}
		defer c.end()
		next.ServeHTTP(c, r)
	})
}

// A countedResponse looks at the type of an answer when its header is written.
type countedResponse struct {
	http.ResponseWriter

	b     *Bridge
	r     *http.Request
	begun bool
	ended func() // nil: no stream
}

// WriteHeader writes the header; a stream begins with it.
func (c *countedResponse) WriteHeader(status int) {
	if !c.begun && status >= http.StatusOK {
		c.begun = true
		if strings.HasPrefix(c.Header().Get("Content-Type"), "text/event-stream") {
			c.ended = c.b.signals.StreamOpened(c.b.transport(c.r))
		}
	}
	c.ResponseWriter.WriteHeader(status)
}

// Write writes the header, if that has not been done, and the bytes.
func (c *countedResponse) Write(p []byte) (int, error) {
	if !c.begun {
		c.WriteHeader(http.StatusOK)
	}
	return c.ResponseWriter.Write(p)
}

// Unwrap returns the writer below, for http.ResponseController.
func (c *countedResponse) Unwrap() http.ResponseWriter { return c.ResponseWriter }

func (c *countedResponse) end() {
	if c.ended != nil {
		c.ended()
	}
}

// metrics serves GET /metrics to operators who name the listener by its address, as a collector does, or by a name that the
// client routes may be called by. A web page can do neither: it has a name of its own, which its browser sends (DNS rebinding).
func (b *Bridge) metrics() http.Handler {
	asked := http.Handler(byMethod{http.MethodGet: b.signals})
	named := b.operators(asked)
	if b.s.operator != nil {
		asked = b.s.operator.Handler(asked)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if len(r.Header["Origin"]) == 0 && isAddress(r.Host) {
			asked.ServeHTTP(w, r)
			return
		}
		named.ServeHTTP(w, r)
	})
}

// isAddress reports whether a Host header is an IP address, with or without a port.
func isAddress(host string) bool {
	if _, err := netip.ParseAddrPort(host); err == nil {
		return true
	}
	_, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil
}
