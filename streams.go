package bridge

import (
	"context"
	"net/http"
	"time"

	"github.com/mcp-dualstack/bridge/negotiate"
)

// mayBeLong reports whether the answer may be a stream that no call ends, as far as the head of a request tells: that of a GET, or
// of a subscriptions/listen (2026-07-28 basic/patterns/subscriptions).
func mayBeLong(r *http.Request) bool {
	return r.Method == http.MethodGet || r.Method == http.MethodPost && r.Header.Get(negotiate.HeaderMethod) == "subscriptions/listen"
}

// endWrites is how long the ends of streams may take to be written when the bridge is closed.
const endWrites = time.Second

// letGo waits for the streams that net/http does not know of, all of which are ending.
func (b *Bridge) letGo() {
	if b.taken == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), endWrites)
	defer cancel()
	if err := b.taken.Shutdown(ctx); err != nil {
		b.s.Logger.Warn("streams were cut before their end was written", "within", endWrites.String())
	}
}
