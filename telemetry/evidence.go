package telemetry

import (
	"strings"
	"sync"
	"time"

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

// Observe counts what a front has seen: by kind, transport and version in the evidence, and, when a
// client that named itself was refused, as a refusal in that client's row.
func (l *Ledger) Observe(o exchange.Observation) {
	l.evidence.count(fact{kind: o.Kind, transport: o.Transport, version: clean(o.Version)})
	if o.Kind != exchange.SeenRefused || len(o.Info) == 0 {
		return
	}
	r := l.clients.row(&exchange.Client{Info: o.Info, Transport: o.Transport, Requested: o.Version, Revision: negotiate.None})
	r.touch()
	r.count(&r.refusals)
}

func (e *evidence) count(f fact) {
	now := time.Now().UnixMilli()
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
