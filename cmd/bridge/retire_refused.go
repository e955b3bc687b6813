package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"github.com/mcp-dualstack/bridge/retire"
	"github.com/mcp-dualstack/bridge/telemetry"
)

// maxRefused is how many clients a text lists; the JSON of bridge report has all.
const maxRefused = 20

// A refused is one client that a step would refuse, by what it did in the window.
type refused struct {
	ID       string          `json:"id"`
	Label    string          `json:"label"`
	Class    telemetry.Class `json:"class"`
	Owner    string          `json:"owner,omitempty"`
	Sessions int64           `json:"sessions"`
	Calls    int64           `json:"calls"`
	LastSeen time.Time       `json:"last_seen"`
}

// A preview says what a step would do to clients.
type preview struct {
	From    retire.Stage      `json:"from"`
	To      retire.Stage      `json:"to"`
	Days    int               `json:"days"` // that were looked back
	Refused []refused         `json:"refused"`
	Exempt  []refused         `json:"exempt"`
	Verdict telemetry.Verdict `json:"verdict,omitempty"` // about the step; empty: unknown
	Detail  string            `json:"detail,omitempty"`  // the verdict in words
	Digest  string            `json:"digest,omitempty"`
	Unknown string            `json:"unknown,omitempty"` // why nothing is known
}

// previewed asks who the step from s to target would refuse. That nobody knows is part of the answer.
func previewed(ctx context.Context, p place, s *retire.State, target retire.Stage) *preview {
	v := &preview{From: s.Stage, To: target, Refused: []refused{}, Exempt: []refused{}}
	r, err := p.report(ctx, target, 0)
	if err != nil {
		v.Unknown = oneLine(err.Error())
		return v
	}
	v.Verdict, v.Detail, v.Digest = r.Verdict, oneLine(r.Why()), r.Digest
	r, err = p.report(ctx, target, max(r.Policy.QuietPeriod, telemetry.Day))
	if err != nil || r.Simulation == nil {
		v.Unknown = "the report does not say who was there"
		return v
	}
	v.Days = r.Simulation.Days
	known := make(map[string]telemetry.Identity, len(r.Identities))
	for _, i := range r.Identities {
		known[i.ID] = i
		if last := i.Transports[r.Policy.Surface].LastSeen; !i.ExemptUntil.IsZero() && last.After(r.GeneratedAt.AddDate(0, 0, -v.Days)) {
			v.Exempt = append(v.Exempt, refused{ID: i.ID, Label: i.Label, Class: i.Class, Owner: i.Owner, Sessions: i.Window.Sessions, Calls: i.Window.Calls, LastSeen: last})
		}
	}
	for _, i := range r.Simulation.Identities {
		v.Refused = append(v.Refused, refused{
			ID: i.ID, Label: i.Label, Class: i.Class, Owner: known[i.ID].Owner, Sessions: i.Sessions, Calls: i.Calls,
			LastSeen: known[i.ID].Transports[r.Policy.Surface].LastSeen,
		})
	}
	return v
}

// write writes v as text: one line with + for each client that the step would newly refuse.
func (v *preview) write(w io.Writer, now time.Time) error {
	if v.From == v.To {
		fmt.Fprintf(w, "stage %s stays\n", v.To)
	} else {
		fmt.Fprintf(w, "stage %s -> %s\n", v.From, v.To)
	}
	switch {
	case v.Unknown != "":
		fmt.Fprintf(w, "who would be refused is not known: %s\n", v.Unknown)
	case len(v.Refused) == 0:
		fmt.Fprintf(w, "no client that used HTTP+SSE in the last %d days would be refused\n", v.Days)
	default:
		fmt.Fprintf(w, "%s, by the last %d days of HTTP+SSE:\n", v.title(), v.Days)
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for i, c := range v.Refused {
		if i == maxRefused {
			break
		}
		c.row(t, v.sign(), now)
	}
	err := t.Flush()
	if more := len(v.Refused) - maxRefused; more > 0 {
		fmt.Fprintf(w, "  and %d more, which bridge report lists\n", more)
	}
	if len(v.Exempt) > 0 {
		fmt.Fprintln(w, "exempt, and served on:")
		t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		for _, c := range v.Exempt[:min(maxRefused, len(v.Exempt))] {
			c.row(t, " ", now)
		}
		err = t.Flush()
	}
	if v.Detail != "" {
		fmt.Fprintf(w, "readiness for %s: %s\n", v.To, v.Detail)
	}
	return err
}

// refusal returns why the step would be refused unless it is forced: asking a person first would be asking in vain.
func (v *preview) refusal() error {
	if v.Verdict == telemetry.Ready || !v.To.After(v.From) {
		return nil
	}
	return &retire.NotReadyError{Stage: v.To, Digest: v.Digest, Detail: cmp.Or(v.Detail, v.Unknown)}
}

// title says what becomes of those who are listed.
func (v *preview) title() string {
	who := fmt.Sprintf("%d clients", len(v.Refused))
	if len(v.Refused) == 1 {
		who = "1 client"
	}
	switch {
	case v.To == retire.Brownout:
		return "in its windows brownout refuses " + who
	case v.From.Reached(retire.Closed):
		return who + " cannot begin a session already; " + string(v.To) + " ends the live ones"
	}
	return string(v.To) + " refuses " + who
}

func (v *preview) sign() string {
	if v.From.Reached(retire.Closed) {
		return " "
	}
	return "+"
}

func (c refused) row(w io.Writer, sign string, now time.Time) {
	owner := c.Owner
	if owner == "" {
		owner = "?"
	}
	fmt.Fprintf(w, "%s %s\t%s\t%s\t%s\t%s\tlast %s\towner %s\n", sign, c.Class, oneLine(c.Label), oneLine(c.ID),
		many(c.Sessions, "session"), many(c.Calls, "call"), ago(now, c.LastSeen), oneLine(owner))
}

// many writes a number with what it counts.
func many(n int64, word string) string {
	if n != 1 {
		word += "s"
	}
	return fmt.Sprint(n, " ", word)
}

// ago says how long before now t was.
func ago(now, t time.Time) string {
	switch d := now.Sub(t); {
	case t.IsZero():
		return "at an unknown time"
	case d < time.Minute:
		return "now"
	case d < time.Hour:
		return fmt.Sprintf("%d min ago", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h ago", int(d.Hours()))
	default:
		return fmt.Sprintf("%d d ago", int(d.Hours()/24))
	}
}

// oneLine makes text of others fit for a terminal: no control characters, none that turn the direction, at most 1000 bytes.
func oneLine(s string) string {
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || r == '\u2028' || r == '\u2029' {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "?"))
	const longest = 1000
	if len(s) > longest {
		s = strings.ToValidUTF8(s[:longest], "") + "..."
	}
	return s
}
