package upstream

import (
	"context"
	"time"

	"github.com/mcp-dualstack/bridge/exchange"
)

// A share is one session that many calls use at once.
type share struct {
	key   poolKey
	turn  chan struct{} // held by whoever changes subscriptions
	ready chan struct{} // closed when m or err is set
	err   error

	m      *member        // set before ready; read without a lock after it
	users  int            // calls and watchers; the mutex of the pool guards it
	topics map[string]int // subscribers of a URI; whoever has the turn
}

// over reports whether the share can be used no more.
func (sh *share) over() bool {
	select {
	case <-sh.ready:
		return sh.err != nil || sh.m.lost()
	default:
		return false
	}
}

// join returns the share of a key, a new one if there is none. The errors are those of acquire. The
// caller calls leave.
func (p *pool) join(ctx context.Context, key poolKey, auth string) (*share, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return nil, errPoolClosed
	}
	sh, lost := p.shares[key], []*member(nil)
	if sh != nil && sh.over() {
		if sh.m != nil {
			lost = append(lost, sh.m)
			p.drop(sh.m)
		}
		sh = nil
	}
	if sh == nil {
		sh = &share{key: key, turn: make(chan struct{}, 1), ready: make(chan struct{}), topics: make(map[string]int)}
		p.shares[key] = sh
		p.wg.Go(func() { p.fill(sh, auth) }) // bounded by LeaseWait and OpenTimeout
	}
	sh.users++
	p.mu.Unlock()
	closeMembers(lost)
	select {
	case <-sh.ready:
		if sh.err == nil {
			return sh, nil
		}
		p.leave(sh)
		return nil, sh.err
	case <-ctx.Done():
		p.leave(sh)
		return nil, context.Cause(ctx)
	}
}

// fill opens the session of a share. Nobody's ctx governs that: many may wait for it.
func (p *pool) fill(sh *share, auth string) {
	m, err := p.acquire(p.ctx, sh.key, 0, auth)
	p.mu.Lock()
	defer p.mu.Unlock()
	if sh.m, sh.err = m, err; err != nil && p.shares[sh.key] == sh {
		delete(p.shares, sh.key)
	}
	close(sh.ready)
	p.unused(sh)
}

func (p *pool) leave(sh *share) {
	p.mu.Lock()
	defer p.mu.Unlock()
	sh.users--
	p.unused(sh)
}

// unused notes since when nobody uses a share. The caller holds mu.
func (p *pool) unused(sh *share) {
	if sh.users > 0 || sh.m == nil || p.shares[sh.key] != sh {
		return
	}
	sh.m.since = time.Now()
	p.watchIdle()
	if p.starving() {
		p.poke() // somebody may evict it
	}
}

// exclusive reports whether a call of a key needs a session for itself. Nobody's roots (anon) are kept for
// the next one, so those sessions are not shared either.
func (p *pool) exclusive(key poolKey) bool {
	return key.class != "" && (!p.linked || key.single())
}

// single reports whether a session of the key serves one call only (translation.md 12).
func (key poolKey) single() bool { return key.principal == "" && key.class.has(capRoots) }

var _ exchange.Peer = (*sharedCall)(nil)
