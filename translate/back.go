package translate

import (
	"context"
	"strconv"
	"sync"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
	"github.com/mcp-dualstack/bridge/negotiate"
)

// A driveBack is a handshake-era client as a modern server sees it during one call, which may be several rounds.
type driveBack struct {
	d  *drive
	to exchange.Peer

	mu       sync.Mutex
	progress float64 // the last that went to the client
	begun    bool
}

func newDriveBack(d *drive, to exchange.Peer) *driveBack {
	if to == nil {
		to = silent{}
	}
	return &driveBack{d: d, to: to}
}

// Call refuses: a server of 2026-07-28 sends no requests (translation.md 6.6).
func (b *driveBack) Call(_ context.Context, req exchange.Request) (exchange.Response, error) {
	b.d.h.log.Warn("request of a modern server refused", "method", req.Method)
	return exchange.Response{Error: negotiate.Refused(jsonrpc.CodeMethodNotFound, negotiate.ReasonUnknownMethod,
		"Method not found: a client of 2026-07-28 answers no requests")}, nil
}

// Notify passes on what the client knows.
func (b *driveBack) Notify(ctx context.Context, note exchange.Request) error {
	switch note.Method {
	case "notifications/progress":
		if !b.increases(jsonrpc.Get(note.Params, "progress")) {
			return nil
		}
	case "notifications/elicitation/complete", "notifications/subscriptions/acknowledged": // the ids are not the client's
		return nil
	}
	note.Params = withoutReserved(note.Params)
	return b.to.Notify(ctx, note)
}

// increases reports whether progress has grown since the last round's: the client has one token for all rounds, and its
// values only ever rise (translation.md 7.4 step 5).
func (b *driveBack) increases(raw []byte) bool {
	v, err := strconv.ParseFloat(string(raw), 64)
	if err != nil {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.begun && v <= b.progress {
		return false
	}
	b.begun, b.progress = true, v
	return true
}
