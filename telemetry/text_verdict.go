package telemetry

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mcp-dualstack/bridge/exchange"
)

// Colours of a verdict on a terminal (ECMA-48, SGR).
var verdictColour = map[Verdict]string{Ready: "32", Blocked: "31", Insufficient: "33"}

// maxTextRows is how many identities a section of the text has; the JSON has all.
const maxTextRows = 25

// verdict says in the first lines what there is to know.
func (p *printer) verdict(r Report) {
	word := strings.ToUpper(string(r.Verdict))
	switch {
	case r.Verdict == Insufficient:
		word = "INSUFFICIENT EVIDENCE"
	case len(r.Blockers) == 1:
		word += " (1 blocker)"
	case len(r.Blockers) > 1:
		word += fmt.Sprintf(" (%s blockers)", thousands(int64(len(r.Blockers))))
	}
	first := "HTTP+SSE retirement, step to " + r.Target + ": "
	stage := "stage " + r.Stage.Name
	if !r.Stage.Since.IsZero() {
		stage += " since " + r.Stage.Since.Format(time.DateOnly)
	}
	if !r.Stage.Sunset.IsZero() {
		stage += ", sunset " + r.Stage.Sunset.Format(time.DateOnly)
	}
	painted := word
	if p.colour {
		painted = "\x1b[1;" + verdictColour[r.Verdict] + "m" + word + "\x1b[0m"
	}
	if blank := textWidth - cells(first+word) - cells(stage); blank >= 2 {
		p.linef("%s%s%s%s", first, painted, strings.Repeat(" ", blank), stage)
	} else {
		p.linef("%s%s", first, painted)
		p.linef("%s", cut(stage, textWidth))
	}
	p.observation(r)
}

// textWidth is how many columns the text has at most.
const textWidth = 80

func (p *printer) observation(r Report) {
	o := r.Observation
	if o.From.IsZero() {
		p.linef("nothing has been observed yet")
		return
	}
	facts := []string{age(o.To.Sub(o.From)), plural(len(o.Replicas), "replica"), plural(len(o.Gaps), "gap")}
	if n := len(o.Gaps); n > 0 {
		var longest time.Duration
		for _, g := range o.Gaps {
			longest = max(longest, g.To.Sub(cmp.Or(g.From, o.From)))
		}
		facts = append(facts, "longest "+age(longest))
	}
	p.linef("observed %s .. %s UTC (%s)", o.From.Format("2006-01-02 15:04"), o.To.Format("2006-01-02 15:04"), strings.Join(facts, ", "))
	w := r.Window
	p.linef("window %d d   legacy %s of %s calls (%s)   identities: %d legacy / %d", w.Days, thousands(w.LegacyCalls), thousands(w.TotalCalls),
		percent(w.Share), w.LegacyIdentities, w.Identities)
	overflow := "none"
	for _, t := range o.Evicted {
		if t.Transport == exchange.HTTPSSE {
			overflow = fmt.Sprintf("%s legacy calls without a name, last %s", count(t.Calls), p.ago(t.LastSeen))
		}
	}
	p.linef("overflow: %s   last written %s", overflow, p.ago(o.LastFlush))
	for _, t := range o.Overflow {
		p.linef("no room for further clients on %s: %s calls without a name, last %s", t.Transport, count(t.Calls), p.ago(t.LastSeen))
	}
	if o.MovedAside != "" {
		p.linef("an earlier ledger was damaged and does not count: %s", cut(clean(o.MovedAside), 28))
	}
}

// identities writes who breaks, who needs another URL, and who else there is.
func (p *printer) identities(r Report) {
	waits := make(map[string]bool)
	for _, f := range r.Doubts {
		if f.Code == DoubtCadence {
			waits[f.ID] = true
		}
	}
	tables := []struct {
		title string
		holds func(Identity) bool
	}{
		{"WHO BREAKS AT " + r.Target, func(i Identity) bool { return i.Blocks && !i.NewURL() }},
		{"WHO ONLY NEEDS A NEW URL", func(i Identity) bool { return i.Blocks && i.NewURL() }},
		{"WHO MAY COME BACK", func(i Identity) bool { return waits[i.ID] }},
		{"WHO IS EXEMPT", func(i Identity) bool {
			return !i.ExemptUntil.IsZero() && !i.Transports[exchange.HTTPSSE].LastSeen.IsZero()
		}},
	}
	for _, t := range tables {
		p.table(t.title, r.Window.Days, of(r.Identities, t.holds))
	}
	var rest []string
	for _, c := range []Class{ClassMigrated, ClassModern, ClassIgnored, ClassProbe} {
		if n := len(of(r.Identities, func(i Identity) bool { return i.Class == c })); n > 0 {
			rest = append(rest, fmt.Sprintf("%s %d", c, n))
		}
	}
	if len(rest) > 0 {
		p.linef("\nWHO DOES NOT MATTER  %s", strings.Join(rest, ", "))
	}
}

func of(all []Identity, holds func(Identity) bool) []Identity {
	var out []Identity
	for _, i := range all {
		if holds(i) {
			out = append(out, i)
		}
	}
	return out
}

// Widths of the identity table; a name of 14 and a version of 5 fit.
const (
	labelWidth = 20
	whereWidth = 16
)

const identityRow = " %-8s %s %s %-10s %9s %6s %4s"

func (p *printer) table(title string, days int, rows []Identity) {
	if len(rows) == 0 {
		return
	}
	p.linef("")
	p.linef("%s %-10s %9s %6s %4s", fill(title, 47), "asks", "last seen", fmt.Sprintf("%dd", days), "err")
	for _, i := range rows[:min(len(rows), maxTextRows)] {
		where := i.Prefix
		if i.Kind == KindPrincipal {
			where = i.ID
		}
		asks := "-"
		if len(i.Requested) > 0 {
			asks = i.Requested[0]
		}
		p.linef(identityRow, i.Class, fill(cut(i.Label, labelWidth), labelWidth), fill(cut(where, whereWidth), whereWidth), cut(asks, 10),
			p.ago(i.Transports[exchange.HTTPSSE].LastSeen), count(i.Window.Calls), count(i.Window.Errors))
		p.linef("          %s", cut(strings.Join(p.remarks(i), "; "), textWidth-10))
		if i.ID != where || cells(where) > whereWidth {
			p.linef("          id %s", cut(i.ID, textWidth-13))
		}
	}
	if more := len(rows) - maxTextRows; more > 0 {
		p.linef(" and %d more, see the JSON form", more)
	}
}

// remarks are what else is worth knowing of an identity.
func (p *printer) remarks(i Identity) []string {
	out := []string{"seen on " + plural(i.Cadence.ActiveDays, "day")}
	if i.Cadence.LongestGapDays > 0 {
		out = append(out, fmt.Sprintf("longest gap %d d", i.Cadence.LongestGapDays))
	}
	if !i.ExemptUntil.IsZero() {
		out = append(out, "exempt to "+i.ExemptUntil.Format(time.DateOnly))
	}
	if i.Owner != "" {
		out = append(out, "owner "+i.Owner)
	}
	if s := i.signs(); s != "" {
		out = append(out, s)
	}
	if len(i.Clients) > 0 && i.Clients[0].Proxy != "" {
		out = append(out, "via "+i.Clients[0].Proxy)
	}
	return out
}

// signs are the kinds of evidence, each once.
func (i Identity) signs() string {
	words := map[string]string{
		SignRequested: "asks for more", SignDiscover: "discover over SSE", SignVersion: "version header", SignStreamable: "both transports",
		SignFallback: "falls back", SignReattached: "reattached", SignTable: "client table", SignOperator: "operator",
	}
	var out []string
	seen := make(map[string]bool)
	for _, s := range i.Evidence {
		if word := words[s.Kind]; word != "" && !seen[s.Kind] {
			out = append(out, word)
			seen[s.Kind] = true
		}
	}
	return strings.Join(out, ", ")
}

// reasons writes the findings, and what to do next.
func (p *printer) reasons(r Report) {
	p.linef("")
	for _, l := range []struct {
		word string
		list []Finding
	}{{"blocker", r.Blockers}, {"doubt", r.Doubts}, {"warning", r.Warnings}} {
		for _, f := range l.list[:min(len(l.list), maxTextRows)] {
			p.wrapped(l.word+": ", f.Detail)
		}
		if more := len(l.list) - maxTextRows; more > 0 {
			p.linef("and %d more of %s", more, l.word)
		}
	}
	p.wrapped("next: ", r.Next())
	p.simulation(r.Simulation)
}

func (p *printer) simulation(s *Simulation) {
	if s == nil {
		return
	}
	p.wrapped("simulation: ", fmt.Sprintf("had it been %s for the last %s: %s and %s of %s refused", s.Target, plural(s.Days, "day"),
		plural(int(s.Sessions), "session"), plural(int(s.Calls), "call"), plural(len(s.Identities), "identity")))
	for _, i := range s.Identities[:min(len(s.Identities), maxTextRows)] {
		p.linef(" %-8s %s %6s sessions %6s calls", i.Class, fill(cut(i.Label, 36), 36), count(i.Sessions), count(i.Calls))
	}
}

// wrapped writes text after a word, in lines that fit.
func (p *printer) wrapped(word, text string) {
	line := word
	for i, w := range strings.Fields(text) {
		if i > 0 && cells(line)+1+cells(w) > textWidth {
			p.linef("%s", line)
			line = strings.Repeat(" ", len(word)-1)
		}
		if i > 0 {
			line += " "
		}
		line += cut(w, textWidth-len(word))
	}
	p.linef("%s", line)
}

// Next returns one sentence that says what to do.
func (r Report) Next() string {
	moved, until := r.movers()
	urls := len(of(r.Identities, func(i Identity) bool { return i.Blocks && i.NewURL() })) - moved
	breaks := len(of(r.Identities, func(i Identity) bool { return i.Blocks && !i.NewURL() }))
	var todo []string
	if urls > 0 {
		todo = append(todo, fmt.Sprintf("have %s changed to Streamable HTTP (the same URL accepts it)", plural(urls, "client")))
	}
	if breaks > 0 {
		todo = append(todo, fmt.Sprintf("upgrade or exempt %s", plural(breaks, "client")))
	}
	if moved > 0 {
		todo = append(todo, fmt.Sprintf("wait until %s for %s that moved", until.Format(time.DateOnly), plural(moved, "client")))
	}
	doubts := func(code string) bool {
		return slices.ContainsFunc(r.Doubts, func(f Finding) bool { return f.Code == code })
	}
	switch {
	case doubts(DoubtOverflow):
		return "find out who floods the bridge with names, or raise the bounds of the ledger, and watch for another quiet period"
	case doubts(DoubtClock):
		todo = append(todo, "set the clock right")
	case len(r.Doubts) > 0:
		todo = append(todo, "keep watching")
	}
	if len(todo) == 0 {
		return "bridge retire set " + r.Target
	}
	return strings.Join(todo, ", ")
}

func plural(n int, word string) string {
	switch {
	case n == 1:
	case word == "identity":
		word = "identities"
	default:
		word += "s"
	}
	return thousands(int64(n)) + " " + word
}

// thousands writes n with blanks between groups of three.
func thousands(n int64) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + " " + s[i:]
	}
	return s
}
