package upstream

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/mcp-dualstack/bridge/exchange"
)

// evict takes the session out that has been idle longest, because w found no room. The caller closes it.
func (p *pool) evict(w *waiter) []*member {
	p.o.reached(BoundSessions)
	p.mu.Lock()
	defer p.mu.Unlock()
	w.starved = true
	var oldest *member
	for _, m := range p.idlers() {
		if oldest == nil || m.since.Before(oldest.since) {
			oldest = m
		}
	}
	if oldest == nil {
		return nil
	}
	p.drop(oldest)
	return []*member{oldest}
}

// makingRoom opens a session that is not the pool's. While there is no room for it and the pool has sessions that
// nobody uses, these make room.
func (p *pool) makingRoom(ctx context.Context, open func() (exchange.Session, error)) (exchange.Session, error) {
	sess, err := open()
	if !isBusy(err) {
		return sess, err
	}
	w := &waiter{wake: make(chan struct{}, 1), foreign: true}
	if _, full := p.enqueue(w); full != nil {
		return nil, full
	}
	defer p.dequeue(w)
	timeout := time.NewTimer(p.o.LeaseWait)
	defer timeout.Stop()
	for isBusy(err) {
		victims := p.evict(w)
		if len(victims) == 0 {
			return sess, err
		}
		closeMembers(victims)
		select {
		case <-w.wake:
		case <-timeout.C:
			return sess, err
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		sess, err = open()
	}
	return sess, err
}

func isBusy(err error) bool {
	f, ok := errors.AsType[*exchange.Failure](err)
	return ok && f.Reason == exchange.ReasonBusy
}

// idlers returns the members that nobody uses. The caller holds mu.
func (p *pool) idlers() []*member {
	var all []*member
	for _, g := range p.groups {
		all = append(all, g.idle...)
	}
	for _, sh := range p.shares {
		if sh.m != nil && sh.users == 0 {
			all = append(all, sh.m)
		}
	}
	return all
}

// drop takes an idle member out. The caller holds mu.
func (p *pool) drop(m *member) {
	if g := p.groups[m.key]; g != nil {
		if i := slices.Index(g.idle, m); i >= 0 {
			g.idle = slices.Delete(g.idle, i, i+1)
		}
	}
	if sh := p.shares[m.key]; sh != nil && sh.m == m {
		delete(p.shares, m.key)
	}
	p.remove(m)
}

// sweeps is how often in an idle life the pool looks for sessions whose life is over.
const sweeps = 10

// watchIdle sees to it that idle sessions end. The caller holds mu.
func (p *pool) watchIdle() {
	if p.sweeper == nil && !p.closed {
		p.sweeper = time.AfterFunc(p.o.IdleLife/sweeps, p.sweep)
	}
}

func (p *pool) sweep() {
	p.mu.Lock()
	p.sweeper = nil
	var over []*member
	idlers := p.idlers()
	for _, m := range idlers {
		if m.lost() || time.Since(m.since) >= p.o.IdleLife {
			p.drop(m)
			over = append(over, m)
		}
	}
	if len(over) < len(idlers) {
		p.watchIdle()
	}
	p.poke()
	p.mu.Unlock()
	closeMembers(over)
}

func closeMembers(members []*member) {
	for _, m := range members {
		m.close()
	}
}

// A parter is a session whose news may come after the answers they belong to.
type parter interface {
	// part is Close once what the server has said is heard. It does not wait for that.
	part()
}

func (m *member) close() {
	if s, ok := m.sess.(parter); ok && m.heard.Load() {
		s.part()
		return
	}
	if err := m.sess.Close(); err != nil {
		m.p.o.Logger.Debug("close session of the pool", "err", err)
	}
}
