package telemetry

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/mcp-dualstack/bridge/exchange"
)

// Evidence rows shown as text; the JSON has all.
const maxTextEvidence = 10

// WriteText writes r in at most 80 columns: the verdict, who breaks, why, what to do, and who speaks what. Times are relative
// to GeneratedAt.
func (r Report) WriteText(w io.Writer, o *TextOptions) error {
	p := &printer{now: r.GeneratedAt, colour: o != nil && o.Colour}
	p.verdict(r)
	p.identities(r)
	p.reasons(r)
	p.clients(r.Clients)
	p.totals(r.Revisions)
	p.evidence(r.Evidence)
	_, err := w.Write(p.Bytes())
	return err
}

// TextOptions change how a report is written as text; nil is the same as the zero value.
type TextOptions struct {
	Colour bool // for a terminal
}

type printer struct {
	bytes.Buffer

	now    time.Time
	colour bool
}

func (p *printer) linef(format string, args ...any) { fmt.Fprintf(p, format+"\n", args...) }

// Widths of the client table; with the blanks between them 80 columns.
const (
	nameWidth    = 14
	versionWidth = 7
	clientRow    = "%s %s %-9s %-10s %-10s %4s %5s %4s %9s"
)

func (p *printer) clients(clients []Client) {
	if len(clients) == 0 {
		p.linef("\nno clients yet")
		return
	}
	p.linef("")
	p.linef(clientRow, fill("client", nameWidth), fill("version", versionWidth), "transport", "asked", "speaks", "sess", "calls", "err", "last seen")
	for _, c := range clients {
		name, version := c.display(), c.Version
		if cells(name) > nameWidth || cells(version) > versionWidth {
			p.linef("%s", cut(strings.TrimSpace(name+"  "+version), 80))
			name, version = "", ""
		}
		p.linef(clientRow, fill(name, nameWidth), fill(version, versionWidth), transportWord(c.Transport),
			cut(dash(c.Requested), 10), dash(c.Negotiated), c.sessions(), count(c.Calls), count(c.Errors), p.ago(c.LastSeen))
	}
}

// display returns the name as shown, with what is remarkable about the client.
func (c Client) display() string {
	name := c.Name
	if name == "" {
		name = "(no client info)"
	}
	if c.Proxy != "" {
		name += " via " + c.Proxy
	}
	if c.Probe {
		name += " (probe)"
	}
	return name
}

// sessions returns the number of sessions; a client without sessions by nature has a dash.
func (c Counts) sessions() string {
	if c.Sessions == 0 && c.Uses > 0 {
		return "-"
	}
	return count(c.Sessions)
}

func (p *printer) totals(totals []Total) {
	if len(totals) == 0 {
		return
	}
	const row = "%-15s %-10s %7s %8s %8s %7s %7s %9s"
	p.linef("")
	p.linef(row, "transport", "revision", "clients", "sessions", "calls", "errors", "refused", "last seen")
	for _, t := range totals {
		p.linef(row, t.Transport, dash(t.revision()), count(int64(t.Clients)), t.sessions(), count(t.Calls), count(t.Errors),
			count(t.Refusals), p.ago(t.LastSeen))
	}
}

func (p *printer) evidence(list []Evidence) {
	if len(list) == 0 {
		return
	}
	list = slices.Clone(list)
	slices.SortStableFunc(list, func(a, b Evidence) int { return cmp.Compare(b.Count, a.Count) })
	const row = "%-16s %-15s %s %7s %9s"
	p.linef("")
	p.linef(row, "also seen", "transport", fill("names revision", 28), "times", "last seen")
	for _, e := range list[:min(len(list), maxTextEvidence)] {
		p.linef(row, e.Kind, e.Transport, fill(cut(dash(e.Version), 28), 28), count(e.Count), p.ago(e.LastSeen))
	}
	if more := len(list) - maxTextEvidence; more > 0 {
		p.linef("and %d more, see the JSON form", more)
	}
}

// transportWord shortens the longer of the two names to what fits.
func transportWord(transport string) string {
	if transport == exchange.StreamableHTTP {
		return "http"
	}
	return transport
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// count writes n in at most four characters up to 999 billions.
func count(n int64) string {
	units := []string{"", "k", "M", "G"}
	limit := int64(10_000)
	for i, unit := range units {
		if n < limit || i == len(units)-1 {
			return strconv.FormatInt(n, 10) + unit
		}
		n /= 1000
		limit = 1000
	}
	panic("not reached")
}

func (p *printer) ago(t time.Time) string {
	if t.IsZero() {
		return "never"
	}
	d := p.now.Sub(t)
	if d < time.Second {
		return "now"
	}
	return age(d) + " ago"
}

// age writes a duration as one number and a unit.
func age(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d < time.Second:
		return "0 s"
	case d < time.Minute:
		return fmt.Sprintf("%d s", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%d m", d/time.Minute)
	case d < 2*day:
		return fmt.Sprintf("%d h", d/time.Hour)
	}
	return fmt.Sprintf("%d d", d/day)
}

// fill pads s with blanks to a width of n cells of a terminal.
func fill(s string, n int) string {
	return s + strings.Repeat(" ", max(0, n-cells(s)))
}

// cut shortens s to n cells.
func cut(s string, n int) string {
	if cells(s) <= n {
		return s
	}
	w := 0
	for i, r := range s {
		if w += cellsOf(r); w > n-3 {
			return s[:i] + "..."
		}
	}
	return s
}

// cells returns how many cells of a terminal s takes.
func cells(s string) int {
	n := 0
	for _, r := range s {
		n += cellsOf(r)
	}
	return n
}

// wide is the scripts and symbols that take two cells (Unicode Standard Annex 11, in broad strokes).
var wide = &unicode.RangeTable{
	R16: []unicode.Range16{
		{Lo: 0x1100, Hi: 0x115f, Stride: 1}, {Lo: 0x2e80, Hi: 0xa4cf, Stride: 1}, {Lo: 0xac00, Hi: 0xd7a3, Stride: 1},
		{Lo: 0xf900, Hi: 0xfaff, Stride: 1}, {Lo: 0xfe30, Hi: 0xfe6f, Stride: 1}, {Lo: 0xff00, Hi: 0xff60, Stride: 1},
		{Lo: 0xffe0, Hi: 0xffe6, Stride: 1},
	},
	R32: []unicode.Range32{{Lo: 0x1f300, Hi: 0x1faff, Stride: 1}, {Lo: 0x20000, Hi: 0x3fffd, Stride: 1}},
}

func cellsOf(r rune) int {
	switch {
	case unicode.In(r, unicode.Mn, unicode.Me):
		return 0
	case unicode.Is(wide, r):
		return 2
	}
	return 1
}
