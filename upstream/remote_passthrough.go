package upstream

import (
	"context"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/mcp-dualstack/bridge/exchange"
)

// In pass-through mode (translation.md 13) the server sees each caller's own credentials, and what it says to one is nobody
// else's: neither the verdict of a probe without credentials, nor who the server says it is, nor a session.

// countsFor reports whether what is known of the server counts for a caller with that authorization. A server may hide from those
// who show none. The caller holds mu.
func (r *Remote) countsFor(auth string) bool { return !r.nobodys || auth == "" }

// unseen begins anew with what callers have seen, after a probe with that authorization. The caller holds mu.
func (r *Remote) unseen(auth string) {
	if r.views != nil {
		r.nobodys = auth == ""
		r.views.cache.Purge()
	}
}

// seenBy returns the server of a modern verdict as it shows itself to a caller, whom it may refuse.
func (r *Remote) seenBy(ctx context.Context, auth string, v Verdict) (exchange.Server, error) {
	if r.views == nil {
		return v.Server, nil
	}
	key := view(auth)
	if seen, ok := r.views.cache.Get(key); ok && time.Since(seen.at) < verdictLife {
		return seen.server, nil
	}
	ctx, stop := r.opening(ctx)
	defer stop()
	rep, err := r.askDiscover(ctx, auth)
	if err != nil {
		return exchange.Server{}, r.l.sendFailure(err)
	}
	d, _, err := r.weigh(rep)
	if err != nil {
		return exchange.Server{}, r.l.sendFailure(err)
	}
	if d.Server.Discover == nil {
		return v.Server, nil // it says so to nobody
	}
	r.views.cache.Add(key, sight{d.Server, time.Now()})
	return d.Server, nil
}

// Views are how the server of 2026-07-28 shows itself to callers, by a hash of their authorization.
type views struct{ cache *lru.Cache[viewer, sight] }

type sight struct {
	server exchange.Server
	at     time.Time
}

func newViews(size int) *views {
	cache, err := lru.New[viewer, sight](max(size, 1))
	if err != nil {
		panic("upstream: " + err.Error()) // only for a size below one
	}
	return &views{cache}
}
