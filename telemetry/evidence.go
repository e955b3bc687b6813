package telemetry

import (
	"strings"
	"sync"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/negotiate"
)

// evidence counts what never becomes a conversation.
type evidence struct {
	ledger *Ledger

	// Counts since the last flush, and which facts there have been since the start, at most
	// Options.MaxEvidence and one more per kind and transport.
	mu    sync.Mutex
	facts map[fact]*sight
}

func newEvidence(l *Ledger) *evidence {
	return &evidence{ledger: l, facts: make(map[fact]*sight)}
}

// Observe counts what a front has seen: by kind, transport and version in the evidence; as a sign of the identity it is about;
// and, when a client was refused that named itself or that retirement refused, as a refusal of that client.
func (l *Ledger) Observe(o exchange.Observation) {
	l.evidence.count(fact{kind: o.Kind, transport: o.Transport, version: clean(o.Version)})
	now := l.now()
	switch {
	case o.Kind == exchange.SeenStream:
		l.talks.stream(&o, now)
	case o.Kind == exchange.SeenSilent:
		l.talks.silent(&o, now)
	case o.Kind == exchange.SeenDiscover:
		l.talks.sign(&o, signOf{SignDiscover, detailOf(o.Version)}, now)
	case o.Kind == exchange.SeenVersionHeader:
		l.talks.sign(&o, signOf{SignVersion, detailOf(o.Version)}, now)
	case o.Kind == exchange.SeenReattached:
		l.talks.sign(&o, signOf{kind: SignReattached}, now)
	case o.Kind == exchange.SeenSameURL, o.Kind == exchange.SeenRefused && o.Transport == exchange.StreamableHTTP && len(o.Info) == 0:
		l.talks.tried(&o, now)
	case o.Kind == exchange.SeenRefused && (len(o.Info) > 0 || o.Transport == exchange.HTTPSSE && o.Stage != ""):
		l.refused(&o, now)
	}
}

// refused counts a conversation that was refused before it began.
func (l *Ledger) refused(o *exchange.Observation, now int64) {
	c := exchange.Client{Info: o.Info, Transport: o.Transport, Session: o.Session, Requested: o.Version, Revision: negotiate.None, Principal: o.Principal, Addr: o.Addr, UserAgent: o.UserAgent}
	if len(o.Info) > 0 {
		r, _ := l.clients.row(&c)
		r.touch(now)
		r.count(&r.refusals)
	}
	if o.Transport == exchange.StreamableHTTP {
		l.talks.tried(o, now)
	}
	l.attempt(&c, now, func(u *user) {
		u.over(o.Transport).refusals.Add(1)
		if r, ok := negotiate.Parse(c.Requested); ok && r != negotiate.Rev20241105 && o.Transport == exchange.HTTPSSE {
			u.sign(SignRequested, r.String(), now)
		}
	})
}

// attempt records a use of c that became no conversation.
func (l *Ledger) attempt(c *exchange.Client, now int64, count func(*user)) {
	name, version, proxy := readInfo(c.Info)
	k := key{name: name, version: version, proxy: proxy, transport: c.Transport, requested: clean(c.Requested)}
	l.users.admit(l.naming.ident(caller{c.Principal, name, c.Addr, c.UserAgent}), k, func(u *user) {
		u.over(c.Transport).touch(now)
		u.speak(k.clone(), now)
		count(u)
	})
	l.mark()
}

func (e *evidence) count(f fact) {
	now := e.ledger.now()
	e.mu.Lock()
	s := e.facts[f]
	if s == nil && len(e.facts) >= e.ledger.o.MaxEvidence {
		f.version = other
		s = e.facts[f]
	}
	if s == nil {
		f.version = strings.Clone(f.version)
		s = &sight{first: now}
		e.facts[f] = s
	}
	s.n++
	s.last = now
	e.mu.Unlock()
	e.ledger.mark()
}

// take moves what has been counted into the batch.
func (e *evidence) take(batch *content) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for f, s := range e.facts {
		if s.n > 0 {
			batch.addEvidence(f, *s)
			s.n = 0
		}
	}
}
