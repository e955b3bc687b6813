package upstream

import (
	"context"
	"errors"
	"strconv"

	"github.com/mcp-dualstack/bridge/exchange"
)

// acquireNear is acquire for a call that may prefer a session (exchange.Affinity), and tells it which one it got. A preference
// is no need: where that session has ended, or stays in use, another one serves.
func (p *pool) acquireNear(ctx context.Context, key poolKey, want uint64, auth string) (*member, error) {
	a := exchange.AffinityOf(ctx)
	preferred := uint64(0)
	if a != nil && want == 0 {
		preferred, _ = strconv.ParseUint(a.Want, 10, 64) // what is no number is no session either
		want = preferred
	}
	m, err := p.acquire(ctx, key, want, auth)
	if preferred != 0 && (errors.Is(err, errMemberGone) || isBusy(err)) {
		m, err = p.acquire(ctx, key, 0, auth)
	}
	if a != nil && err == nil && !key.single() {
		a.Served = strconv.FormatUint(m.id, 10)
	}
	return m, err
}
