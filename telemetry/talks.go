package telemetry

import (
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/negotiate"
)

// talks tells whose it is what a front sees of a legacy stream before, or apart from, the conversation on it.
type talks struct {
	ledger *Ledger

	lastTried atomic.Int64 // Unix milliseconds of the last entry of attempts

	mu       sync.Mutex
	sessions *lru.Cache[string, *talk] // by session id, at most maxTalks
	attempts *lru.Cache[string, int64] // by caller: when Streamable HTTP was tried and refused; at most maxTalks
}

// A talk is a legacy stream.
type talk struct {
	user    *user // nil until the conversation is open
	began   int64 // Unix milliseconds
	info    []byte
	who     string // principal; empty: nobody
	addr    netip.Addr
	agent   string
	pending []signOf // to be noted once it is known of whom; at most maxKept
	claimed bool     // it was asked for something before a conversation, which is a use even if none follows
}

const (
	maxTalks = 4096

	fallbackWithin = 10 * 1000 // from a refused POST to the legacy stream, in milliseconds (retirement.md 4)
	silentFor      = 30 * 1000 // after which a stream without a conversation is not going to have one (R9)
)

func newTalks(l *Ledger) *talks {
	t := &talks{ledger: l}
	var err, err2 error
	t.sessions, err = lru.New[string, *talk](maxTalks)
	t.attempts, err2 = lru.New[string, int64](maxTalks)
	if err != nil || err2 != nil {
		panic("a cache of a fixed size cannot be made")
	}
	return t
}

// caller is the identity of an observation that tells no name: its principal, or its address.
func (t *talks) caller(o *exchange.Observation) ident {
	return t.ledger.naming.ident(caller{principal: o.Principal, addr: o.Addr, userAgent: o.UserAgent})
}

// tried notes that somebody tried Streamable HTTP and was refused.
func (t *talks) tried(o *exchange.Observation, now int64) {
	t.attempts.Add(t.caller(o).id, now)
	t.lastTried.Store(now)
}

// connected takes back what tried noted: a client that can connect does not fall back.
func (t *talks) connected(c *exchange.Client, now int64) {
	if now-t.lastTried.Load() <= fallbackWithin { // the usual case is that nobody has
		t.attempts.Remove(t.ledger.naming.ident(caller{principal: c.Principal, addr: c.Addr, userAgent: c.UserAgent}).id)
	}
}

// stream begins a talk.
func (t *talks) stream(o *exchange.Observation, now int64) {
	if o.Session == "" {
		return
	}
	k := &talk{began: now, who: strings.Clone(o.Principal), addr: o.Addr, agent: strings.Clone(o.UserAgent)}
	if at, ok := t.attempts.Get(t.caller(o).id); ok && now-at <= fallbackWithin {
		k.pending = append(k.pending, signOf{kind: SignFallback})
		t.attempts.Remove(t.caller(o).id)
	}
	t.sessions.Add(strings.Clone(o.Session), k)
}

// sign notes a piece of evidence about a talk.
func (t *talks) sign(o *exchange.Observation, s signOf, now int64) {
	t.mu.Lock()
	k, ok := t.sessions.Get(o.Session)
	if !ok {
		t.mu.Unlock()
		return
	}
	if s.kind == SignDiscover && k.user == nil {
		k.claimed = true
		if len(o.Info) <= maxInfoBytes {
			k.info = append(k.info[:0], o.Info...)
		}
	}
	u := k.user
	if u == nil && len(k.pending) < maxKept {
		k.pending = append(k.pending, s)
	}
	t.mu.Unlock()
	if u != nil {
		u.sign(s.kind, s.detail, now)
		t.ledger.mark()
	}
}

// opened tells whose talk it is.
func (t *talks) opened(c *exchange.Client, u *user, now int64) {
	t.mu.Lock()
	k, ok := t.sessions.Get(c.Session)
	var pending []signOf
	if ok {
		k.user, pending, k.pending, k.claimed = u, k.pending, nil, false
	}
	t.mu.Unlock()
	for _, s := range pending {
		u.sign(s.kind, s.detail, now)
	}
	if c.Reopened {
		u.sign(SignReattached, "", now)
	}
	if r, ok := negotiate.Parse(c.Requested); ok && r != negotiate.Rev20241105 {
		u.sign(SignRequested, r.String(), now)
	}
}

// closed ends a talk.
func (t *talks) closed(session string) { t.sessions.Remove(session) }

// silent records a stream on which nothing was ever said.
func (t *talks) silent(o *exchange.Observation, now int64) {
	t.sessions.Remove(o.Session)
	t.ledger.users.admit(t.caller(o), key{}, func(u *user) { u.sign(signSilent, "", now) })
	t.ledger.mark()
}

// settle records, of talks that have no conversation by now, those that asked for something: that is a use which did not get far, such as
// of a client that gives up when its first request is refused.
func (t *talks) settle(now int64) {
	t.mu.Lock()
	var late []*talk
	for _, id := range t.sessions.Keys() {
		k, ok := t.sessions.Peek(id)
		if ok && k.user == nil && k.claimed && now-k.began >= silentFor {
			late = append(late, k)
			t.sessions.Remove(id)
		}
	}
	t.mu.Unlock()
	for _, k := range late {
		c := exchange.Client{Info: k.info, Transport: exchange.HTTPSSE, Principal: k.who, Addr: k.addr, UserAgent: k.agent}
		t.ledger.attempt(&c, k.began, func(u *user) {
			for _, s := range k.pending {
				u.sign(s.kind, s.detail, k.began)
			}
		})
	}
}

// signSilent is the sign of a probe: a stream without a message.
const signSilent = "silent"

// detailOf returns a revision as a sign has it.
func detailOf(version string) string {
	if version == "" {
		return ""
	}
	if _, ok := negotiate.Parse(version); ok {
		return version
	}
	return other
}
