package upstream

import (
	"context"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
)

// startWatching joins the session that everybody of the principal shares.
func (s *pooled) startWatching(ctx context.Context) error {
	if !s.p.admit() {
		s.p.o.reached(BoundWatchers)
		return &exchange.Failure{Reason: exchange.ReasonBusy, RetryAfter: busyRetryAfter}
	}
	sh, err := s.p.join(ctx, poolKey{principal: s.key.principal}, s.auth)
	s.p.mu.Lock()
	defer s.p.mu.Unlock()
	if err != nil {
		s.p.watching--
		return err
	}
	s.watch = sh
	all := s.p.watchers[s.key.principal]
	if all == nil {
		all = make(map[*pooled]struct{})
		s.p.watchers[s.key.principal] = all
	}
	all[s] = struct{}{}
	return nil
}

// admit makes room for a watcher.
func (p *pool) admit() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.watching >= p.o.MaxWatchers {
		return false
	}
	p.watching++
	return true
}

func (s *pooled) stopWatching() {
	s.p.mu.Lock()
	s.p.watching--
	all := s.p.watchers[s.key.principal]
	delete(all, s)
	if len(all) == 0 {
		delete(s.p.watchers, s.key.principal)
	}
	s.p.mu.Unlock()
	s.mu.Lock()
	uris := s.uris
	s.uris, s.left = nil, true
	s.mu.Unlock()
	if len(uris) == 0 || !s.p.spawn(func() { s.unsubscribeAll(uris) }) { // bounded by unsubscribeTime
		s.p.leave(s.watch)
	}
}

// fan tells everybody who watches for a principal of a change. The error is nil: who could not be told has a
// front that knows.
func (p *pool) fan(ctx context.Context, principal string, note exchange.Request) error {
	p.mu.Lock()
	all := make([]*pooled, 0, len(p.watchers[principal]))
	for s := range p.watchers[principal] {
		all = append(all, s)
	}
	p.mu.Unlock()
	uri := ""
	if note.Method == methodUpdated {
		uri, _ = jsonrpc.String(jsonrpc.Get(note.Params, "uri"))
	}
	for _, s := range all {
		if note.Method != methodUpdated || s.subscribed(uri) {
			_ = s.back.Notify(ctx, note)
		}
	}
	return nil
}
