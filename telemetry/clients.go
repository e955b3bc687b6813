package telemetry

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/negotiate"
)

// A row counts one client over one transport in one revision since the last flush. It is bound to a
// session when that opens, and is never removed.
type row struct {
	ledger *Ledger
	key    key
	folded bool // an overflow record: only key.transport counts

	sessions, uses, reopened, calls, errors, refusals, failures atomic.Int64

	// Unix milliseconds. first is that of this process; last is zero when not used since the last
	// flush; day is the last day on which a legacy row was used.
	first, last, day atomic.Int64

	lastDay int64 // of the last use, for what is counted after it; the flusher's

	settled atomic.Bool // the outcome of the first Open has been counted
}

// settle asks for a flush when the first Open of the row has been counted: an Open may take longer than
// the flush that the new row itself called for, and a client without a session would look odd.
func (r *row) settle() {
	if !r.settled.Load() && !r.settled.Swap(true) {
		r.ledger.hurry()
	}
}

const dayMillis = 24 * 60 * 60 * 1000

// touch notes that the row is used at now, in Unix milliseconds. It comes before the counting, so that a flush in between
// never finds counts without a time.
func (r *row) touch(now int64) {
	if r.first.Load() == 0 {
		r.first.CompareAndSwap(0, now)
	}
	r.last.Store(now)
	if r.key.transport != exchange.HTTPSSE {
		return
	}
	if day := now / dayMillis; r.day.Load() != day && r.day.Swap(day) != day {
		r.ledger.hurry()
	}
}

// count adds one to a counter of the row.
func (r *row) count(n *atomic.Int64) {
	n.Add(1)
	r.ledger.mark()
}

// take moves what has been counted into a tally; ok is false if that is nothing.
func (r *row) take() (t tally, ok bool) {
	t.Counts = Counts{
		Sessions: r.sessions.Swap(0),
		Uses:     r.uses.Swap(0),
		Reopened: r.reopened.Swap(0),
		Calls:    r.calls.Swap(0),
		Errors:   r.errors.Swap(0),
		Refusals: r.refusals.Swap(0),
		Failures: r.failures.Swap(0),
	}
	t.first, t.last = r.first.Load(), r.last.Swap(0)
	return t, t.last != 0 || t.Counts != Counts{}
}

// An infoKey is what a client said, unread.
type infoKey struct {
	info      string
	transport string
	requested string
	revision  negotiate.Revision
}

// Longer descriptions are read each time.
const maxInfoBytes = 1 << 10

// clients is the rows of a ledger.
type clients struct {
	ledger *Ledger

	// The rows that exist. They are only ever added to, up to Options.MaxClients; infos is emptied when
	// it reaches Options.MaxInfos.
	mu       sync.RWMutex
	rows     map[key]*row
	overflow map[string]*row // by transport
	all      []*row          // both of the above
	infos    map[infoKey]*row
}

func newClients(l *Ledger) *clients {
	return &clients{ledger: l, rows: make(map[key]*row), overflow: make(map[string]*row), infos: make(map[infoKey]*row)}
}

// preload makes the rows that the file has, so that they keep their place in a flood of new ones.
func (cs *clients) preload(known *content) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	for k := range known.clients {
		cs.add(&row{ledger: cs.ledger, key: k})
	}
}

func (cs *clients) add(r *row) {
	if r.folded {
		cs.overflow[r.key.transport] = r
	} else {
		cs.rows[r.key] = r
	}
	cs.all = append(cs.all, r)
}

// row returns the row that c is counted in, and what c says of itself. For a client seen before it allocates nothing.
func (cs *clients) row(c *exchange.Client) (*row, key) {
	cs.mu.RLock()
	r := cs.infos[infoKey{string(c.Info), c.Transport, c.Requested, c.Revision}]
	cs.mu.RUnlock()
	if r != nil && !r.folded {
		return r, r.key
	}
	name, version, proxy := readInfo(c.Info)
	k := key{
		name: name, version: version, proxy: proxy,
		transport: c.Transport, requested: clean(c.Requested), negotiated: c.Revision.String(),
	}
	r = cs.admit(k)
	if len(c.Info)+len(c.Requested) <= maxInfoBytes {
		cs.remember(infoKey{string(c.Info), c.Transport, strings.Clone(c.Requested), c.Revision}, r)
	}
	return r, k.clone()
}

func (cs *clients) remember(k infoKey, r *row) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if len(cs.infos) >= cs.ledger.o.MaxInfos {
		clear(cs.infos)
	}
	cs.infos[k] = r
}

// admit returns the row of k, which it makes if there is room, else the overflow row of its transport.
func (cs *clients) admit(k key) *row {
	r, fresh := cs.find(k)
	if !fresh {
		return r
	}
	cs.ledger.hurry()
	if r.folded {
		cs.ledger.o.Logger.LogAttrs(context.Background(), slog.LevelWarn, "ledger is full; further clients are counted without their names",
			slog.String("event", "ledger.overflow"), slog.String("transport", k.transport), slog.Int("max_clients", cs.ledger.o.MaxClients))
	}
	return r
}

func (cs *clients) find(k key) (r *row, fresh bool) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if r := cs.rows[k]; r != nil {
		return r, false
	}
	if len(cs.rows) < cs.ledger.o.MaxClients {
		r = &row{ledger: cs.ledger, key: k.clone()}
		cs.add(r)
		return r, true
	}
	if r := cs.overflow[k.transport]; r != nil {
		return r, false
	}
	r = &row{ledger: cs.ledger, key: key{transport: k.transport}, folded: true}
	cs.add(r)
	return r, true
}

// clone copies the strings that may be part of a larger message.
func (k key) clone() key {
	k.name, k.version, k.requested = strings.Clone(k.name), strings.Clone(k.version), strings.Clone(k.requested)
	return k
}

// take moves what has been counted into the batch.
func (cs *clients) take(batch *content) {
	cs.mu.RLock()
	all := cs.all // is only appended to
	cs.mu.RUnlock()
	for _, r := range all {
		t, ok := r.take()
		if ok {
			if t.last != 0 {
				r.lastDay = t.last / dayMillis
			}
			batch.addRow(r.key, t.Counts, r.lastDay)
		}
		switch {
		case !ok:
		case r.folded:
			batch.addOverflow(r.key.transport, t)
		default:
			batch.addClient(r.key, t)
		}
	}
}
