package bridge

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/internal/guard"
	"github.com/mcp-dualstack/bridge/retire"
)

// A retirement applies the stage of the legacy routes to what clients ask (retirement.md 6). What the stage means is decided in
// package retire; here it becomes statuses, headers and bodies, and legacy is told the rest.
type retirement struct {
	s       *settings
	keeper  *retire.Keeper
	fixed   bool                           // gone, whatever the document says: by configuration, or because the transport is not in this build
	who     func(exchange.Client) []string // identities of the ledger that may be meant, the surest first
	observe func(exchange.Observation)
	watch   *windowWatch
}

// openRetirement opens the state document and stands ready for the legacy routes.
func (b *Bridge) openRetirement() (*retirement, error) {
	t := &retirement{s: b.s, fixed: !LegacyBuilt || b.s.LegacyOff, who: b.ledger.IDs, observe: b.observe}
	opened := make(chan struct{}) // closed when t can be asked: a step may be due at once
	defer close(opened)
	ready := func(ctx context.Context, target retire.Stage) (retire.Readiness, error) {
		select {
		case <-opened:
			return b.ready(t, target)
		case <-ctx.Done():
			return retire.Readiness{}, context.Cause(ctx)
		}
	}
	var err error
	if t.keeper, err = retire.OpenKeeper(b.s.State, &retire.Options{Logger: b.s.Logger, Ready: ready, PollOnly: b.s.Retirement.PollOnly}); err != nil {
		return nil, fmt.Errorf("open the retirement state: %w", err)
	}
	t.watch = &windowWatch{guard: b.s.Retirement.Guard, keeper: t.keeper}
	return t, nil
}

// close ends the keeper and what the guard has begun.
func (t *retirement) close() error {
	err := t.keeper.Close()
	t.watch.close()
	return err
}

// Retirement returns the keeper of the stage of the HTTP+SSE routes. It is closed with the bridge. Where the routes are off by
// Options.LegacyOff, or not in this build, they are gone whatever it holds.
func (b *Bridge) Retirement() *retire.Keeper { return b.retirement.keeper }

// state returns the document in force.
func (t *retirement) state() *retire.State {
	s := t.keeper.State()
	if !t.fixed {
		return s
	}
	gone := *s
	gone.Stage, gone.Tombstone, gone.Schedule, gone.Exemptions = retire.Gone, false, nil, nil
	return &gone
}

// links are what the answer to r names.
func (t *retirement) links(r *http.Request) retire.Links {
	return retire.Links{Successor: t.s.successor(r), Docs: t.s.Retirement.Docs, Policy: t.s.Retirement.Policy}
}

// header writes what every legacy response has from announce on (retirement.md R6).
func (t *retirement) header(w http.ResponseWriter, r *http.Request, s *retire.State) {
	if !s.Stage.Reached(retire.Announce) {
		return
	}
	l := t.links(r)
	s.Header(w.Header(), l)
	if t.s.Retirement.WarningHeader {
		w.Header().Add("Warning", `299 - "`+warningText(s.Sentence(retire.Decision{Stage: s.Stage, Refuse: s.Stage == retire.Gone}, l))+`"`)
	}
}

// warningText is text as the quoted string of a Warning header (RFC 7234, section 5.5).
func warningText(text string) string {
	b := make([]byte, 0, len(text))
	for _, c := range []byte(text) {
		switch {
		case c < ' ' || c >= 0x7f:
			continue
		case c == '"' || c == '\\':
			b = append(b, '\\')
		}
		b = append(b, c)
	}
	return string(b)
}

// decide asks s about a request of c, and reports an exemption that saves it.
func (t *retirement) decide(s *retire.State, p retire.Point, c exchange.Client, fresh bool) retire.Decision {
	d := t.ask(s, p, c, fresh)
	if d.Exempt {
		t.seen(exchange.SeenExempt, p, d, c)
	}
	return d
}

// known returns the ids of the identity that c belongs to.
func (t *retirement) known(c exchange.Client) []string {
	c.Principal, _ = t.s.rules.of(c.Principal) // as the ledger knows it
	return t.who(c)
}

func (t *retirement) ask(s *retire.State, p retire.Point, c exchange.Client, fresh bool) retire.Decision {
	a := retire.Ask{Point: p, Fresh: fresh, Now: time.Now()}
	if w := s.Active(a.Now); len(s.Exemptions) > 0 || w != nil && w.Percent > 0 {
		a.IDs = t.known(c) // the rest needs no identity, and this is the hot path
	}
	return s.Decide(a)
}

// seen reports what the stage did to a request of c.
func (t *retirement) seen(kind string, p retire.Point, d retire.Decision, c exchange.Client) {
	o := exchange.Observation{
		Kind: kind, Transport: exchange.HTTPSSE, Session: c.Session, Version: c.Requested, Info: c.Info, Principal: c.Principal, Addr: c.Addr, UserAgent: c.UserAgent,
		Detail: string(d.Stage) + ": " + string(p), Stage: string(d.Stage), Point: string(p), Mode: string(d.Mode),
	}
	if d.Mode != "" {
		o.Detail += " " + o.Mode
	}
	t.observe(o)
	if d.Window != "" && (kind == exchange.SeenRefused || kind == exchange.SeenExempt) {
		t.watch.met(t.keeper.State(), t.known(c), kind == exchange.SeenRefused)
	}
}

// client is what a request says about who sends it, before any message is read.
func (t *retirement) client(r *http.Request) exchange.Client {
	return exchange.Client{
		Transport: exchange.HTTPSSE, Requested: r.Header.Get(headerVersion), Addr: t.s.addr(r), UserAgent: r.UserAgent(),
		Principal: guard.IdentityOf(r).Principal,
	}
}
