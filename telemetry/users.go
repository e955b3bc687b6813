package telemetry

import (
	"cmp"
	"context"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"sync"

	"github.com/mcp-dualstack/bridge/exchange"
)

// users is the identities in memory. What is let go of here has been, or will be, written: only the store forgets.
type users struct {
	ledger *Ledger

	mu     sync.RWMutex
	by     map[string]*user  // by id, at most limits.identities and those with an open conversation
	seen   map[seenKey]*user // what needs no more reading; emptied when it reaches Options.MaxInfos
	known  map[string]bool   // ids that are in the store, as far as is known
	fresh  map[string]int    // by prefix: how many identities are new today, at most maxPrefixes
	day    int64             // of fresh
	parked *content          // what users did that had to be let go of since the last flush
}

// A seenKey is what says who a client is, unread but for the row.
type seenKey struct {
	row       *row
	principal string
	addr      netip.Addr
	agent     string
}

// maxPrefixes is of how many prefixes new identities are counted.
const maxPrefixes = 4096

func newUsers(l *Ledger) *users {
	return &users{
		ledger: l, by: make(map[string]*user), seen: make(map[seenKey]*user), known: make(map[string]bool),
		fresh: make(map[string]int), parked: newContent(l.o.limits()),
	}
}

// preload learns who is in the store, so that nobody is new after a restart.
func (us *users) preload(c *content, now int64) {
	us.mu.Lock()
	defer us.mu.Unlock()
	us.day = now / dayMillis
	for id, d := range c.identities {
		us.known[id] = true
		if d.anonymous() && d.first/dayMillis == us.day && len(us.fresh) < maxPrefixes {
			us.fresh[d.prefix]++
		}
	}
}

// pin returns the use that c is counted in, which stays in memory until its open is counted down. k is what c says of itself. For a client
// seen before it allocates nothing.
func (us *users) pin(c *exchange.Client, r *row, k key) *use {
	sk := seenKey{r, c.Principal, c.Addr, c.UserAgent}
	us.mu.RLock()
	if u := us.seen[sk]; u != nil && !r.folded {
		t := u.over(c.Transport)
		t.open.Add(1)
		us.mu.RUnlock()
		return t
	}
	us.mu.RUnlock()
	u := us.admit(us.ledger.naming.ident(caller{c.Principal, k.name, c.Addr, c.UserAgent}), k, func(u *user) {
		u.over(c.Transport).open.Add(1)
		if !r.folded && len(c.Principal)+len(c.UserAgent) <= maxInfoBytes {
			us.remember(sk, u)
		}
	})
	return u.over(c.Transport)
}

func (us *users) remember(k seenKey, u *user) {
	if len(us.seen) >= us.ledger.o.MaxInfos {
		clear(us.seen)
	}
	k.principal, k.agent = strings.Clone(k.principal), strings.Clone(k.agent)
	us.seen[k] = u
}

// admit returns the user of who, which it makes if there is none, and calls with on it under the lock.
func (us *users) admit(who ident, k key, with func(*user)) *user {
	us.mu.Lock()
	u, fresh := us.find(who)
	with(u)
	us.mu.Unlock()
	if !fresh {
		return u
	}
	us.ledger.hurry()
	log := us.ledger.o.Logger
	switch {
	case u.kind == KindOther:
		log.LogAttrs(context.Background(), slog.LevelWarn, "too many new clients of one network today; further ones are counted together",
			slog.String("event", "ledger.overflow"), slog.String("identity", u.id), slog.Int("max_new_per_prefix", us.ledger.o.MaxNewPerPrefix))
	case k.transport == exchange.HTTPSSE:
		log.LogAttrs(context.Background(), slog.LevelInfo, "first use of HTTP+SSE by this client",
			slog.String("event", "legacy.identity.new"), slog.String("identity", u.id), slog.String("client", k.name),
			slog.String("version", k.version), slog.String("revision", k.negotiated))
	}
	return u
}

// find returns the user of who. fresh says that it was neither in memory nor in the store.
func (us *users) find(who ident) (u *user, fresh bool) {
	if u := us.by[who.id]; u != nil {
		return u, false
	}
	fresh = !us.known[who.id]
	if fresh && who.anonymous() && !us.admits(who.prefix) {
		who = who.rest()
		if u := us.by[who.id]; u != nil {
			return u, false
		}
		fresh = !us.known[who.id]
	}
	if len(us.by) >= us.ledger.o.MaxIdentities {
		us.release()
	}
	who.id, who.prefix, who.agent = strings.Clone(who.id), strings.Clone(who.prefix), strings.Clone(who.agent)
	u = newUser(who)
	us.by[who.id] = u
	if len(us.known) >= 2*us.ledger.o.MaxIdentities {
		clear(us.known) // most of them have been evicted from the store
		for id := range us.by {
			us.known[id] = true
		}
	}
	us.known[who.id] = true
	return u, fresh
}

// admits reports whether another anonymous identity of prefix may be new today, and counts it. Where no prefix is kept there is no
// bound but that of all.
func (us *users) admits(prefix string) bool {
	if prefix == "" {
		return true
	}
	if day := us.ledger.now() / dayMillis; day != us.day {
		us.day = day
		clear(us.fresh)
	}
	if len(us.fresh) >= maxPrefixes {
		clear(us.fresh)
	}
	us.fresh[prefix]++
	return us.fresh[prefix] <= us.ledger.o.MaxNewPerPrefix
}

// release lets go of those users that have been idle for the longest time, a share of them at once.
func (us *users) release() {
	var idle []*user
	for _, u := range us.by {
		if u.idle() {
			idle = append(idle, u)
		}
	}
	slices.SortFunc(idle, func(a, b *user) int { return cmp.Compare(a.used.Load(), b.used.Load()) })
	for _, u := range idle[:min(len(idle), us.ledger.o.MaxIdentities/evictedAtOnce+1)] {
		if d := u.take(us.ledger.now()); d != nil {
			us.parked.addDossier(d)
		}
		delete(us.by, u.id)
	}
	clear(us.seen)
}

// forget lets go of an identity whatever it is doing; what an open conversation does from now on is not recorded. It reports whether
// there was anything.
func (us *users) forget(id string) bool {
	us.mu.Lock()
	defer us.mu.Unlock()
	u := us.by[id]
	delete(us.by, id)
	delete(us.known, id)
	clear(us.seen)
	return us.parked.remove(id) || u != nil
}

// take moves what has been counted into the batch.
func (us *users) take(batch *content) {
	now := us.ledger.now()
	us.mu.Lock()
	all := make([]*user, 0, len(us.by))
	for _, u := range us.by {
		all = append(all, u)
	}
	parked := us.parked
	us.parked = newContent(us.ledger.o.limits())
	us.mu.Unlock()
	for _, d := range parked.identities {
		batch.addDossier(d)
	}
	batch.addEvicted(parked.evicted)
	batch.dropped.join(parked.dropped)
	for _, u := range all {
		if d := u.take(now); d != nil {
			batch.addDossier(d)
		}
	}
}
