package upstream

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/negotiate"
)

// A pool lends sessions of a handshake-era server to clients that have none of their own
// (translation.md 12). Clients that can be asked nothing share one session per principal; a request
// of the others has a session for itself as long as it lasts, because what the server asks says
// nothing of the request it asks for. Methods may be called concurrently.
type pool struct {
	o      *Options
	open   func(context.Context, exchange.Client) (exchange.Session, error) // connects and shakes hands
	linked bool                                                             // what the server says because of a call comes with it: no call needs a session for itself

	ctx    context.Context // ends with close
	cancel context.CancelFunc
	wg     sync.WaitGroup // every goroutine that the pool started

	mu       sync.Mutex
	closed   bool
	lastID   uint64
	groups   map[poolKey]*group
	shares   map[poolKey]*share
	waiting  []*waiter // first come first
	watchers map[string]map[*pooled]struct{}
	watching int              // all watchers
	snapshot *exchange.Server // as the newest handshake shows it
	sweeper  *time.Timer      // set while a session is idle
}

// A poolKey says which clients may use the same session. The revision offered is the same for all.
type poolKey struct {
	principal string
	class     class
}

// poolRevision is what the pool offers (translation.md 4, Offer to a legacy upstream).
const poolRevision = negotiate.Rev20251125

// A group is the sessions of one key. The mutex of the pool guards it.
type group struct {
	members map[uint64]*member
	making  int
	idle    []*member // the last used at the end
}

// A waiter is a call for which there is no session yet. The mutex of the pool guards all but wake.
type waiter struct {
	key     poolKey
	want    uint64        // the one member that will do; 0: any of the key
	foreign bool          // wants room for a session that is not the pool's
	starved bool          // there is no room for a further session
	member  *member       // handed over
	wake    chan struct{} // holds an element when member is set or trying again makes sense
}

func newPool(o *Options, open func(context.Context, exchange.Client) (exchange.Session, error), linked bool) *pool {
	p := &pool{
		o: o, open: open, linked: linked,
		groups: make(map[poolKey]*group), shares: make(map[poolKey]*share), watchers: make(map[string]map[*pooled]struct{}),
	}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	return p
}

// close lets go of every session.
func (p *pool) close() {
	p.mu.Lock()
	p.closed = true
	if p.sweeper != nil {
		p.sweeper.Stop()
	}
	var all []*member
	for _, g := range p.groups {
		for _, m := range g.members {
			all = append(all, m)
		}
	}
	p.mu.Unlock()
	p.cancel()
	closeMembers(all)
	p.wg.Wait()
}

// spawn runs f in a goroutine that close waits for. It returns false when the pool has been closed.
func (p *pool) spawn(f func()) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return false
	}
	p.wg.Go(f)
	return true
}

var errPoolClosed error = exchange.Fail(exchange.ReasonClosed, nil)

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
	if m := p.enqueue(w); m != nil {
		return m, nil
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

// enqueue returns an idle member, or puts w into the queue.
func (p *pool) enqueue(w *waiter) *member {
	p.mu.Lock()
	m, lost := p.takeIdle(w)
	if m == nil {
		p.waiting = append(p.waiting, w)
	}
	p.mu.Unlock()
	closeMembers(lost)
	return m
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

// takeIdle takes an idle member that will do for w, and those out that have ended. The caller holds mu and
// closes these.
func (p *pool) takeIdle(w *waiter) (m *member, lost []*member) {
	g := p.groups[w.key]
	if g == nil {
		return nil, nil
	}
	for i := len(g.idle) - 1; i >= 0 && m == nil; i-- {
		candidate := g.idle[i]
		switch {
		case candidate.lost():
			p.remove(candidate)
			lost = append(lost, candidate)
		case w.want == 0 || w.want == candidate.id:
			m = candidate
		default:
			continue
		}
		g.idle = slices.Delete(g.idle, i, i+1)
	}
	return m, lost
}

// make opens a session for which reserve made room.
func (p *pool) make(ctx context.Context, key poolKey, auth string) (*member, error) {
	m := &member{p: p, key: key}
	sess, err := p.open(ctx, exchange.Client{
		Revision: poolRevision, Requested: poolRevision.String(), Capabilities: key.class.capabilities(),
		Principal: key.principal, Authorization: auth, Back: m,
	})
	p.mu.Lock()
	g := p.groups[key]
	g.making--
	if err == nil && p.closed {
		err = errPoolClosed
	}
	if err != nil {
		p.tidy(key)
		if !isBusy(err) { // otherwise there is room for nobody
			p.poke()
		}
		p.mu.Unlock()
		if sess != nil {
			_ = sess.Close() // nobody has used it
		}
		return nil, err
	}
	defer p.mu.Unlock()
	p.lastID++
	m.id, m.sess, m.done = p.lastID, sess, sess.Done()
	g.members[m.id] = m
	server := p.annotated(sess.Server())
	p.snapshot = &server
	return m, nil
}

// put takes a member back from the caller of acquire. One that is not fit ends.
func (p *pool) put(m *member, fit bool) {
	p.mu.Lock()
	if fit && !p.closed && !m.lost() {
		if w := p.next(m); w != nil {
			w.member = m
			w.nudge()
			p.mu.Unlock()
			return
		}
		if !p.starving() {
			m.since = time.Now()
			g := p.groups[m.key]
			g.idle = append(g.idle, m)
			p.watchIdle()
			p.mu.Unlock()
			return
		}
	}
	p.remove(m)
	p.poke()
	p.mu.Unlock()
	closeMembers([]*member{m})
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

// remove takes a member out of its group. The caller holds mu.
func (p *pool) remove(m *member) {
	if g := p.groups[m.key]; g != nil {
		delete(g.members, m.id)
		p.tidy(m.key)
	}
}

// tidy forgets a group without members. The caller holds mu.
func (p *pool) tidy(key poolKey) {
	if g := p.groups[key]; len(g.members)+g.making == 0 {
		delete(p.groups, key)
	}
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
