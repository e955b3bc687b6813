package main

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/mcp-dualstack/bridge/retire"
)

func retireShow(f *retireFlags) *cobra.Command {
	return &cobra.Command{
		Use:   "show",
		Short: "Print the stage, its dates, and what is to come",
		Long: `show prints the stage of the HTTP+SSE routes, its dates, the brownouts, the exemptions and the schedule. The JSON
is {"state": the document, "damage": why the file does not say so}.

Exit codes: 0 ok, 2 usage, 4 state or admin API cannot be reached or read.`,
		Example: `  bridge retire show
  bridge retire show --state /var/lib/bridge --output json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.run(cmd, func(ctx context.Context, p place) error {
				s, damage, err := p.state(ctx)
				if err != nil {
					return err
				}
				if f.output == "json" {
					return writeJSON(cmd.OutOrStdout(), stageAnswer{s, damage})
				}
				return showState(cmd.OutOrStdout(), s, damage, p.name(), time.Now())
			})
		},
	}
}

// showState writes a document for people.
func showState(w io.Writer, s *retire.State, damage, where string, now time.Time) error {
	head := fmt.Sprintf("HTTP+SSE retirement: stage %s", s.Stage)
	if !s.Since.IsZero() {
		head += " since " + clock(s.Since) + " UTC"
	}
	fmt.Fprintf(w, "%s (version %d)\n%s\n", head, s.Version, means(s.Stage))
	if damage != "" {
		fmt.Fprintf(w, "DAMAGED: %s\n", damage)
	}
	t := tabwriter.NewWriter(w, 2, 0, 2, ' ', 0)
	row := func(name, format string, args ...any) {
		fmt.Fprintf(t, "%s\t"+format+"\n", append([]any{name}, args...)...)
	}
	if s.By != "" || s.Reason != "" {
		row("changed", "by %s%s", orNobody(s.By), because(s.Reason))
	}
	if !s.Deprecation.IsZero() {
		row("deprecated", "%s UTC", clock(s.Deprecation))
	}
	if !s.Sunset.IsZero() {
		row("sunset", "%s UTC%s", clock(s.Sunset), passed(s, now))
	}
	if s.Tombstone {
		row("gone", "on the stream, which goes on telling clients where to go")
	}
	for _, b := range s.Brownouts {
		row("brownout", "%s UTC %s%s", clock(b.From), windowText(b), when(s, b, now))
	}
	for _, st := range s.Schedule {
		if st.Held != "" {
			row("HELD", "%s, due %s UTC: %s", st.Stage, clock(st.At), st.Held)
			continue
		}
		row("schedule", "%s at %s UTC", st.Stage, clock(st.At))
	}
	for _, e := range s.Exemptions {
		row("exempt", "%s%s%s", e.ID, until(e, now), because(e.Reason))
	}
	row("state", "%s", where)
	return t.Flush()
}

func orNobody(s string) string {
	if s == "" {
		return "?"
	}
	return s
}

func because(reason string) string {
	if reason == "" {
		return ""
	}
	return ": " + reason
}

// passed says that a sunset is over while the routes are there.
func passed(s *retire.State, now time.Time) string {
	if s.Stage != retire.Gone && now.After(s.Sunset) {
		return ", which has passed"
	}
	return ""
}

// when says where a window is in time.
func when(s *retire.State, b retire.Window, now time.Time) string {
	active := s.Active(now)
	switch {
	case b.Aborted != "":
		return ""
	case active != nil && active.ID == b.ID:
		return " (NOW)"
	case !now.Before(b.Until):
		return " (over)"
	case s.Stage.After(retire.Brownout):
		return " (without effect: the stage is past it)"
	}
	return ""
}

func until(e retire.Exemption, now time.Time) string {
	text := ""
	if e.Owner != "" {
		text = " of " + e.Owner
	}
	switch {
	case e.Until.IsZero():
		return text + " for good"
	case !now.Before(e.Until):
		return text + " until " + clock(e.Until) + " UTC (over)"
	}
	return text + " until " + clock(e.Until) + " UTC"
}
