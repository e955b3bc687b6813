package bridge

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
)

// A healthy handler can say whether the server behind it answers, as those of package upstream can. The error is why not, or the
// cause of ctx when that is not known in time.
type healthy interface {
	Health(ctx context.Context) error
}

// healthWait bounds what a health check waits for the server: less than the second after which Kubernetes gives a probe up.
const healthWait = 800 * time.Millisecond

// serveHealth answers GET /healthz: 200 as long as the process serves, whatever the server does. To start the bridge again
// helps against nothing that ails the server.
func (b *Bridge) serveHealth(w http.ResponseWriter, r *http.Request) {
	writeHealth(w, http.StatusOK, "ok", b.look(r.Context()))
}

// serveReady answers GET /readyz: 503 while the bridge shuts down and while the server cannot be had.
func (b *Bridge) serveReady(w http.ResponseWriter, r *http.Request) {
	if b.draining.Load() {
		status(w, http.StatusServiceUnavailable, "shutting down")
		return
	}
	s := b.look(r.Context())
	if s.state == "" || s.state == upstreamUp {
		writeHealth(w, http.StatusOK, "ready", s)
		return
	}
	writeHealth(w, http.StatusServiceUnavailable, "not ready", s)
}

// A sight is what a health check sees of the server.
type sight struct {
	state  string // empty: the handler cannot say
	reason string // why it is down, a word of translation.md; empty otherwise
}

// The states of the server behind the bridge, as /healthz and /readyz name them.
const (
	upstreamUp      = "up"
	upstreamDown    = "down"
	upstreamUnknown = "unknown" // it has not answered yet
)

func (b *Bridge) look(ctx context.Context) sight {
	h, ok := b.up.(healthy)
	if !ok || b.ended.Load() {
		return sight{}
	}
	ctx, cancel := context.WithTimeout(ctx, healthWait)
	defer cancel()
	err := h.Health(ctx)
	if err == nil {
		return sight{state: upstreamUp}
	}
	if f, ok := errors.AsType[*exchange.Failure](err); ok {
		return sight{state: upstreamDown, reason: f.Reason}
	}
	return sight{state: upstreamUnknown}
}

// writeHealth writes {"status", "upstream", "reason"}, the last two where they are known. What the server or its start said is in the
// log only.
func writeHealth(w http.ResponseWriter, code int, text string, s sight) {
	body := jsonrpc.Set(nil, jsonrpc.Quote(text), "status")
	if s.state != "" {
		body = jsonrpc.Set(body, jsonrpc.Quote(s.state), "upstream")
	}
	if s.reason != "" {
		body = jsonrpc.Set(body, jsonrpc.Quote(s.reason), "reason")
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = w.Write(append(body, '\n')) // nobody to tell: the client went away
}
