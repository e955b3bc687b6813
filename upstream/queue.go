package upstream

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/mcp-dualstack/bridge/exchange"
)

// A waiter is a call for which there is no session yet. The mutex of the pool guards all but wake.
type waiter struct {
	key     poolKey
	want    uint64        // the one member that will do; 0: any of the key
	foreign bool          // wants room for a session that is not the pool's
	starved bool          // there is no room for a further session
	member  *member       // handed over
	wake    chan struct{} // holds an element when member is set or trying again makes sense
}

// errMemberGone says that the one session that would do has ended.
var errMemberGone = errors.New("session of the pool is gone")

// acquire returns a session of a key that nobody else uses, a new one if there is room. auth is for
// the handshake of a new one. The error is upstream_busy after Options.LeaseWait, errMemberGone, the cause of
// ctx, or one of open. The caller gives the member back with put or finish.
func (p *pool) acquire(ctx context.Context, key poolKey, want uint64, auth string) (*member, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	w := &waiter{key: key, want: want, wake: make(chan struct{}, 1)}
	if m, err := p.enqueue(w); m != nil || err != nil {
		return m, err
	}
	defer p.dequeue(w)
	timeout := time.NewTimer(p.o.LeaseWait)
	defer timeout.Stop()
	for {
		m, err := p.try(ctx, w, auth)
		if m != nil || err != nil {
			return m, err
		}
		select {
		case <-w.wake:
		case <-timeout.C:
			p.o.reached(BoundLeaseWait)
			return nil, &exchange.Failure{Reason: exchange.ReasonBusy, RetryAfter: busyRetryAfter}
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// enqueue returns an idle member, or puts w into the queue. The error is upstream_busy at Options.MaxWaiting.
func (p *pool) enqueue(w *waiter) (*member, error) {
	p.mu.Lock()
	m, lost := p.takeIdle(w)
	full := m == nil && len(p.waiting) >= p.o.MaxWaiting
	if m == nil && !full {
		p.waiting = append(p.waiting, w)
	}
	p.mu.Unlock()
	closeMembers(lost)
	if full {
		p.o.reached(BoundWaiting)
		return nil, &exchange.Failure{Reason: exchange.ReasonBusy, RetryAfter: busyRetryAfter}
	}
	return m, nil
}

// dequeue takes w out of the queue. A member that was handed over too late goes to the next one.
func (p *pool) dequeue(w *waiter) {
	p.mu.Lock()
	m := w.member
	w.member = nil
	if i := slices.Index(p.waiting, w); i >= 0 {
		p.waiting = slices.Delete(p.waiting, i, i+1)
	}
	p.mu.Unlock()
	if m != nil {
		p.put(m, true)
	}
}

// try makes one attempt for a waiter in the queue. It returns nothing when w has to wait.
func (p *pool) try(ctx context.Context, w *waiter, auth string) (*member, error) {
	p.mu.Lock()
	m, lost := w.member, []*member(nil)
	w.member = nil
	if m == nil {
		m, lost = p.takeIdle(w)
	}
	err := p.reserve(w, m)
	p.mu.Unlock()
	closeMembers(lost)
	if m != nil || err != nil {
		switch {
		case errors.Is(err, errFull):
			p.o.reached(BoundLeases)
			err = nil
		case errors.Is(err, errWait):
			err = nil
		}
		return m, err
	}
	m, err = p.make(ctx, w.key, auth)
	if isBusy(err) {
		closeMembers(p.evict(w))
		return nil, nil
	}
	return m, err
}

// Why a waiter has to go on waiting.
var (
	errWait = errors.New("the session is in use")
	errFull = errors.New("all sessions of the key are in use")
)

// reserve makes room in the group of w for a new member unless m is there already. The caller holds mu.
func (p *pool) reserve(w *waiter, m *member) error {
	g := p.groups[w.key]
	switch {
	case m != nil:
		return nil
	case p.closed:
		return errPoolClosed
	case w.want != 0 && (g == nil || g.members[w.want] == nil):
		return errMemberGone
	case w.want != 0:
		return errWait
	case g != nil && len(g.members)+g.making >= p.o.MaxLeases:
		return errFull
	}
	if g == nil {
		g = &group{members: make(map[uint64]*member)}
		p.groups[w.key] = g
	}
	g.making++
	return nil
}

// next takes the first waiter out of the queue for which m will do. The caller holds mu.
func (p *pool) next(m *member) *waiter {
	for i, w := range p.waiting {
		if w.member == nil && !w.foreign && w.key == m.key && (w.want == 0 || w.want == m.id) {
			p.waiting = slices.Delete(p.waiting, i, i+1)
			return w
		}
	}
	return nil
}

// starving reports whether somebody waits for room that an idle session takes up. The caller holds mu.
func (p *pool) starving() bool {
	return slices.ContainsFunc(p.waiting, func(w *waiter) bool { return w.starved })
}

// room tells the pool that a connection has gone, so that there is room for another.
func (p *pool) room() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.poke()
}

// poke lets everybody who waits try again. The caller holds mu.
func (p *pool) poke() {
	for _, w := range p.waiting {
		w.nudge()
	}
}

func (w *waiter) nudge() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}
