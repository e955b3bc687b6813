package telemetry

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/mcp-dualstack/bridge/exchange"
)

// A judge answers one question about one record.
type judge struct {
	*record

	q      Question
	policy Policy
	now    int64 // Unix milliseconds
	since  int64 // of the window
	known  []known

	exempt   map[string]Exemption
	attested map[string]Attestation
	owners   map[string]Owner
}

func newJudge(r *record, q Question) *judge {
	j := &judge{record: r, q: q, policy: DefaultPolicy(), known: readKnown(knownText),
		exempt: make(map[string]Exemption), attested: make(map[string]Attestation), owners: make(map[string]Owner)}
	if q.Policy != nil {
		j.policy = *q.Policy
	}
	j.now = q.Now.UnixMilli()
	j.since = j.now - time.Duration(j.policy.QuietPeriod).Milliseconds()
	for _, e := range j.policy.Exemptions {
		if e.Until.After(j.exempt[e.ID].Until) {
			j.exempt[e.ID] = e
		}
	}
	for _, a := range j.policy.Attested {
		j.attested[a.ID] = a
	}
	for _, o := range j.policy.Owners {
		j.owners[o.ID] = o
	}
	return j
}

// lookup returns what the operator says about an identity: by its id or by another that means it, the surest first.
func lookup[T any](m map[string]T, who ident) (T, bool) {
	return lookupWhere(m, who, func(T) bool { return true })
}

// lookupWhere is lookup for what good accepts.
func lookupWhere[T any](m map[string]T, who ident, good func(T) bool) (T, bool) {
	for _, id := range who.aliases() {
		if v, ok := m[id]; ok && good(v) {
			return v, true
		}
	}
	var zero T
	return zero, false
}

// exemption returns the exemption of an identity: one in force, by whatever id, before one that is over.
func (j *judge) exemption(who ident) (e Exemption, inForce, ok bool) {
	if e, ok := lookupWhere(j.exempt, who, func(e Exemption) bool { return e.Until.UnixMilli() > j.now }); ok {
		return e, true, true
	}
	e, ok = lookup(j.exempt, who)
	return e, false, ok
}

// identity says all there is to say about one identity.
func (j *judge) identity(d *dossier) Identity {
	out := Identity{
		ID: d.id, Kind: d.kind, Prefix: d.prefix, UserAgent: d.agent, Label: d.label(),
		Clients: d.clients(), Requested: d.spoken(roleRequested), Negotiated: d.spoken(roleNegotiated),
		Transports: make(map[string]Transport), FirstSeen: moment(d.first), LastSeen: moment(d.last),
	}
	for transport, t := range d.transports {
		out.Transports[transport] = Transport{t.Counts, t.bytes, moment(t.first), moment(t.last)}
	}
	out.Evidence = j.evidence(d)
	out.Reattached = slices.ContainsFunc(out.Evidence, func(s Sign) bool { return s.Kind == SignReattached })
	out.Class = j.class(d, out.Evidence)
	out.Ignored = out.Class == ClassIgnored || slices.Contains(j.policy.Ignore, out.Class)
	if o, ok := lookup(j.owners, d.ident); ok {
		out.Owner, out.Contact = clean(o.Owner), clean(o.Contact)
		out.Label = cmp.Or(clean(o.Label), out.Label)
	}
	if e, inForce, ok := j.exemption(d.ident); ok {
		out.Owner = cmp.Or(out.Owner, clean(e.Owner))
		if inForce {
			out.ExemptUntil = e.Until.UTC()
		}
	}
	out.Cadence = j.cadence(d)
	out.Window = d.window(exchange.HTTPSSE, j.since)
	out.Blocks = d.legacyLast() > j.since && !out.Ignored && out.ExemptUntil.IsZero()
	return out
}

// label is what people call the identity.
func (d *dossier) label() string {
	for _, c := range d.clients() {
		if c.Name != "" {
			if c.Version != "" {
				return c.Name + " " + c.Version
			}
			return c.Name
		}
	}
	if d.kind == KindOther {
		return "(others)"
	}
	return "(no clientInfo)"
}

// clients are the names, the newest first.
func (d *dossier) clients() []NameVersion {
	out := make([]NameVersion, 0, len(d.names))
	for p, at := range d.names {
		out = append(out, NameVersion{p.name, p.version, p.proxy, moment(at)})
	}
	slices.SortFunc(out, func(a, b NameVersion) int {
		return cmp.Or(b.LastSeen.Compare(a.LastSeen), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Version, b.Version), cmp.Compare(a.Proxy, b.Proxy))
	})
	return out
}

// spoken are the revisions of a role, the newest first: those over HTTP+SSE, which is what a report is about, if there are any.
func (d *dossier) spoken(role string) []string {
	out := d.spokenOver(exchange.HTTPSSE, role)
	if len(out) == 0 {
		return d.spokenOver(exchange.StreamableHTTP, role)
	}
	return out
}

func (d *dossier) spokenOver(transport, role string) []string {
	var of []spoken
	for s := range d.revisions {
		if s.transport == transport && s.role == role {
			of = append(of, s)
		}
	}
	slices.SortFunc(of, func(a, b spoken) int {
		return cmp.Or(cmp.Compare(d.revisions[b], d.revisions[a]), cmp.Compare(b.revision, a.revision))
	})
	out := make([]string, 0, len(of))
	for _, s := range of {
		out = append(out, s.revision)
	}
	return out
}

// evidence is what was seen of an identity, what is known of its program, and what the operator says.
func (j *judge) evidence(d *dossier) []Sign {
	out := []Sign{}
	for k, s := range d.signs {
		if k.kind != signSilent {
			out = append(out, Sign{k.kind, k.detail, s.n, moment(s.first), moment(s.last)})
		}
	}
	slices.SortFunc(out, func(a, b Sign) int { return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Detail, b.Detail)) })
	if k, ok := j.program(d); ok {
		out = append(out, Sign{Kind: SignTable, Detail: string(k.class) + ": " + k.source})
	}
	if a, ok := lookup(j.attested, d.ident); ok {
		out = append(out, Sign{Kind: SignOperator, Detail: string(a.Class) + ": " + clean(a.Reason)})
	}
	return out
}

// program returns what is known of the program that the identity is.
func (j *judge) program(d *dossier) (known, bool) {
	for _, c := range d.clients() {
		if k, ok := find(j.known, person{c.Name, c.Version, c.Proxy}); ok {
			return k, true
		}
	}
	return known{}, false
}

// class sorts an identity (retirement.md 4). What it did comes before what the operator says of it, and that before what it could do.
func (j *judge) class(d *dossier, evidence []Sign) Class {
	said, _ := lookup(j.attested, d.ident)
	legacy, streamable := d.transports[exchange.HTTPSSE], d.transports[exchange.StreamableHTTP]
	program, _ := j.program(d)
	has := func(kinds ...string) bool {
		return slices.ContainsFunc(evidence, func(s Sign) bool { return slices.Contains(kinds, s.Kind) })
	}
	good := d.signs[signOf{kind: SignStreamable}].last > j.since
	switch {
	case said.Class == ClassIgnored:
		return ClassIgnored
	case d.isProbe():
		return ClassProbe
	case legacy.last == 0:
		return ClassModern
	case legacy.last <= j.since && streamable.last > j.since && good:
		return ClassMigrated
	case legacy.last > j.since && streamable.last > j.since && good:
		return ClassProven
	case said.Class == ClassCannot || said.Class == ClassAttested:
		return said.Class
	case has(SignFallback):
		return ClassProbing
	case has(SignRequested, SignDiscover, SignVersion), program.class == ClassCapable:
		return ClassCapable
	case program.class == ClassCannot:
		return ClassCannot
	}
	return ClassUnknown
}

// isProbe reports whether the identity is nobody's client: it never said anything, or is a program's throw-away (retirement.md R9).
func (d *dossier) isProbe() bool {
	for p := range d.names {
		if p.name == probeName && d.kind == KindClient {
			return true
		}
	}
	_, silent := d.signs[signOf{kind: signSilent}]
	return silent && len(d.transports) == 0
}

// window sums up the days of a transport from the one on which since is.
func (d *dossier) window(transport string, since int64) Counts {
	var sum dayCounts
	for k, n := range d.days {
		if k.transport == transport && k.day >= since/dayMillis {
			sum = sum.plus(n)
		}
	}
	return Counts{Sessions: sum.sessions, Calls: sum.calls, Errors: sum.errors, Refusals: sum.refusals}
}

// activeDays are the days on which a transport was used, in order.
func (d *dossier) activeDays(transport string) []int64 {
	var out []int64
	for k := range maps.Keys(d.days) {
		if k.transport == transport {
			out = append(out, k.day)
		}
	}
	slices.Sort(out)
	return out
}
