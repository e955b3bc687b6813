package upstream

import (
	"context"
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
