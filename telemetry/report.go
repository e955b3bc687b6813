package telemetry

import (
	"cmp"
	"encoding/json"
	"io"
	"slices"
	"time"

	"github.com/mcp-dualstack/bridge/exchange"
)

// ReportSchema is the schema member of a Report in JSON. It changes when a member changes its meaning
// or goes away; members may be added under the same one.
const ReportSchema = "bridge.report/1"

// A Report is what a ledger holds and what follows from it. The zero times are unknown.
type Report struct {
	Schema      string      `json:"schema"`
	GeneratedAt time.Time   `json:"generated_at"`
	Verdict     Verdict     `json:"verdict"`
	Target      string      `json:"target"` // the stage that the verdict is about
	Stage       Stage       `json:"stage"`
	Observation Observation `json:"observation"`
	Window      Window      `json:"window"`
	Identities  []Identity  `json:"identities"` // who would break first
	Blockers    []Finding   `json:"blockers"`
	Doubts      []Finding   `json:"doubts"` // what makes the evidence insufficient
	Warnings    []Finding   `json:"warnings"`
	Policy      Policy      `json:"policy"`
	Simulation  *Simulation `json:"simulation,omitempty"`
	Digest      string      `json:"digest"`     // SHA-256 in hexadecimal of all but generated_at and this
	Transports  []Total     `json:"transports"` // http_sse first
	Revisions   []Total     `json:"revisions"`  // per transport and negotiated revision, oldest first
	Clients     []Client    `json:"clients"`    // http_sse first, then the last seen first
	Evidence    []Evidence  `json:"evidence"`
}

// An Observation says what a report is based on.
type Observation struct {
	From      time.Time `json:"from,omitzero"` // when the ledger was begun
	To        time.Time `json:"to,omitzero"`   // when it was last written, or the moment of the report if it is a server's own
	LastFlush time.Time `json:"last_flush,omitzero"`

	Days     int       `json:"days"`     // whole days from From to To
	Gaps     []Gap     `json:"gaps"`     // of the last 400 days, oldest first
	Replicas []Replica `json:"replicas"` // the ledgers that were put together

	// Evicted has what identities did for which there was no room, per transport. Any of HTTP+SSE in the window voids the verdict.
	Evicted []Total `json:"evicted"`
	// Overflow has what clients beyond Options.MaxClients did, per transport. Empty: there was room for all.
	Overflow []Total `json:"overflow"`
	// MovedAside is the name of a damaged file whose place this one took, if any: what it recorded is not in here.
	MovedAside string `json:"moved_aside,omitempty"`
}

// Counts are what a client did.
type Counts struct {
	Sessions int64 `json:"sessions"` // conversations that began with a handshake
	Uses     int64 `json:"uses"`     // requests of stateless clients, which have no sessions
	Reopened int64 `json:"reopened"` // conversations that went on without a handshake (retirement.md R8)
	Calls    int64 `json:"calls"`
	Errors   int64 `json:"errors"`   // calls answered by an error or not at all, other than cancelled ones
	Refusals int64 `json:"refusals"` // conversations that the server or the bridge refused
	Failures int64 `json:"failures"` // conversations that failed because the server could not be had
}

// A Client is what one client did over one transport in one revision. The strings are the client's own
// words, cleaned (no control or bidi characters, at most 64 runes), and proof of nothing.
type Client struct {
	Name       string `json:"name"` // empty: no client info
	Version    string `json:"version"`
	Proxy      string `json:"proxy,omitempty"` // what it came through, such as "mcp-remote 0.15.1"
	Transport  string `json:"transport"`
	Requested  string `json:"requested"`       // the revision asked for
	Negotiated string `json:"negotiated"`      // the revision spoken
	Probe      bool   `json:"probe,omitempty"` // a test connection of a program, not a client in use
	Counts
	FirstSeen time.Time `json:"first_seen"`
	LastSeen  time.Time `json:"last_seen"`
}

// A Total sums up the clients of a transport, or of one revision on it.
type Total struct {
	Transport  string  `json:"transport"`
	Negotiated *string `json:"negotiated,omitempty"` // nil: all revisions; may be empty for conversations refused before one was agreed
	Clients    int     `json:"clients"`              // different name, version and proxy, without probes; unknown (0) for an overflow
	Counts
	FirstSeen time.Time `json:"first_seen"`
	LastSeen  time.Time `json:"last_seen"`
}

// Evidence is how often something was seen that is no conversation, such as a server/discover on the
// legacy stream (the Seen constants of package exchange).
type Evidence struct {
	Kind      string    `json:"kind"`
	Transport string    `json:"transport"`
	Version   string    `json:"version,omitempty"` // the revision named by it; "_OTHER" when there were too many
	Count     int64     `json:"count"`
	FirstSeen time.Time `json:"first_seen"`
	LastSeen  time.Time `json:"last_seen"`
}

// Report writes what is outstanding and reports all that the ledger holds, with the verdict on gone under the default policy. If the
// file cannot be written the report is complete all the same. The errors are ErrClosed and those of reading the file.
func (l *Ledger) Report() (Report, error) { return l.Answer(Question{}) }

// Answer is Report with a question of one's own, whose faults are errors too.
func (l *Ledger) Answer(q Question) (Report, error) {
	if err := q.Check(); err != nil {
		return Report{}, err
	}
	c, err := l.content()
	if err != nil {
		return Report{}, err
	}
	if q.Now.IsZero() {
		q.Now = l.o.clock()
	}
	return newReport([]*content{c}, q, true), nil
}

// content returns all that the ledger holds at this moment.
func (l *Ledger) content() (*content, error) {
	reply := make(chan answer, 1)
	select {
	case l.asks <- reply:
	case <-l.done:
		return nil, ErrClosed
	}
	a := <-reply
	return a.content, a.err
}

// WriteJSON writes r as one JSON object with a line break after it.
func (r Report) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(r)
}

// newReport answers q from ledgers; live says that they are of servers that run.
func newReport(ledgers []*content, q Question, live bool) Report {
	q = q.withDefaults()
	c := combine(ledgers, q.Now.UnixMilli(), live)
	r := Report{
		Schema:      ReportSchema,
		GeneratedAt: q.Now,
		Observation: Observation{
			From: moment(c.from), To: moment(c.to), LastFlush: moment(c.flushed), Days: int(max(0, c.to-c.from) / dayMillis),
			Gaps: c.gaps, Replicas: c.replicas, Evicted: []Total{}, Overflow: []Total{}, MovedAside: c.movedAside,
		},
		Identities: []Identity{}, Blockers: []Finding{}, Doubts: []Finding{}, Warnings: []Finding{},
		Transports: []Total{}, Revisions: []Total{}, Clients: []Client{}, Evidence: []Evidence{},
	}
	for k, t := range c.clients {
		r.Clients = append(r.Clients, Client{
			Name: k.name, Version: k.version, Proxy: k.proxy, Probe: k.probe(),
			Transport: k.transport, Requested: k.requested, Negotiated: k.negotiated,
			Counts: t.Counts, FirstSeen: moment(t.first), LastSeen: moment(t.last),
		})
	}
	slices.SortFunc(r.Clients, byLastSeen)
	r.Transports = totals(c.content, func(k key) place { return place{transport: k.transport} })
	r.Revisions = totals(c.content, func(k key) place { return place{k.transport, k.negotiated, true} })
	for transport, t := range c.overflow {
		r.Observation.Overflow = append(r.Observation.Overflow, place{transport: transport}.total(t, nil))
	}
	slices.SortFunc(r.Observation.Overflow, byPlace)
	for transport, t := range c.evicted {
		r.Observation.Evicted = append(r.Observation.Evicted, place{transport: transport}.total(t.tally, nil))
	}
	slices.SortFunc(r.Observation.Evicted, byPlace)
	for f, s := range c.evidence {
		r.Evidence = append(r.Evidence, Evidence{f.kind, f.transport, f.version, s.n, moment(s.first), moment(s.last)})
	}
	slices.SortFunc(r.Evidence, func(a, b Evidence) int {
		return cmp.Or(byTransport(a.Transport, b.Transport), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Version, b.Version))
	})
	newJudge(c, q).judge(&r)
	return r
}

// moment returns the time of Unix milliseconds, the zero time for 0.
func moment(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}

// byTransport puts http_sse, which is what a report is about, first.
func byTransport(a, b string) int {
	switch {
	case a == b:
		return 0
	case a == exchange.HTTPSSE:
		return -1
	case b == exchange.HTTPSSE:
		return 1
	}
	return cmp.Compare(a, b)
}

func byLastSeen(a, b Client) int {
	return cmp.Or(
		byTransport(a.Transport, b.Transport),
		b.LastSeen.Compare(a.LastSeen),
		cmp.Compare(a.Name, b.Name),
		cmp.Compare(a.Version, b.Version),
		cmp.Compare(a.Proxy, b.Proxy),
		cmp.Compare(a.Requested, b.Requested),
		cmp.Compare(a.Negotiated, b.Negotiated),
	)
}

// A place is what a total is for.
type place struct {
	transport  string
	negotiated string
	revision   bool // negotiated counts
}

// A person is what counts as one client in a total.
type person struct{ name, version, proxy string }

// totals sums up the clients by place, and with them, where only the transport counts, what overflowed.
func totals(c *content, of func(key) place) []Total {
	sums := make(map[place]tally)
	people := make(map[place]map[person]bool)
	for k, t := range c.clients {
		p := of(k)
		sum := sums[p]
		sum.add(t)
		sums[p] = sum
		if k.probe() {
			continue
		}
		if people[p] == nil {
			people[p] = make(map[person]bool)
		}
		people[p][person{k.name, k.version, k.proxy}] = true
	}
	for transport, t := range c.overflow {
		p := place{transport: transport}
		if p != of(key{transport: transport}) {
			continue
		}
		sum := sums[p]
		sum.add(t)
		sums[p] = sum
	}
	out := make([]Total, 0, len(sums))
	for p, sum := range sums {
		out = append(out, p.total(sum, people[p]))
	}
	slices.SortFunc(out, byPlace)
	return out
}

func (p place) total(t tally, people map[person]bool) Total {
	out := Total{
		Transport: p.transport, Clients: len(people),
		Counts: t.Counts, FirstSeen: moment(t.first), LastSeen: moment(t.last),
	}
	if p.revision {
		out.Negotiated = &p.negotiated
	}
	return out
}

func byPlace(a, b Total) int {
	return cmp.Or(byTransport(a.Transport, b.Transport), cmp.Compare(a.revision(), b.revision()))
}

func (t Total) revision() string {
	if t.Negotiated == nil {
		return ""
	}
	return *t.Negotiated
}
