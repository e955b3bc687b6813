package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/mcp-dualstack/bridge/retire"
)

func retirePlan(f *retireFlags) *cobra.Command {
	var how changeFlags
	var sunset string
	var apply bool
	cmd := &cobra.Command{
		Use:   "plan --sunset DATE",
		Short: "Propose the way to a sunset, and put it in force with --apply",
		Long: `plan proposes how the HTTP+SSE routes go until DATE: announced at once, warned about two weeks later, brownouts of
1, 3, 12 and 24 hours over the last four weeks at different times of the day, closed one week before, drained one day before,
gone on DATE. It begins at the present stage and needs six weeks from open.

Without --apply nothing changes. With it bridge serve takes the steps by itself; those past warn stop at a failed readiness check
and wait for you (bridge retire show says so).

` + retireCodes,
		Example: `  bridge retire plan --sunset 2027-01-15
  bridge retire plan --sunset 2027-01-15T09:00:00Z --apply --reason "agreed on 1 December"
  bridge retire plan --sunset 2027-01-15 --output json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if sunset == "" {
				return misused("--sunset DATE must be given, such as --sunset 2027-01-15")
			}
			date, err := parseDate("sunset", sunset)
			if err != nil {
				return err
			}
			return f.run(cmd, func(ctx context.Context, p place) error {
				s, _, err := p.state(ctx)
				if err != nil {
					return err
				}
				now := time.Now()
				planned, err := s.Plan(now, date)
				if err != nil {
					return failed("%w", err)
				}
				if !apply {
					return f.proposed(cmd.OutOrStdout(), s, planned, now)
				}
				if err := writePlan(cmd.ErrOrStderr(), s, planned, now); err != nil {
					return err
				}
				if !how.yes {
					if err := ask(cmd, "Put this plan in force?"); err != nil {
						return err
					}
				}
				c := how.change(s)
				c.State = *planned
				done, err := p.set(ctx, c)
				if err != nil {
					return err
				}
				return f.changed(cmd.OutOrStdout(), s, done)
			})
		},
	}
	cmd.Flags().StringVar(&sunset, "sunset", "", "when the routes go: 2027-01-15 (midnight UTC) or 2027-01-15T09:00:00Z")
	cmd.Flags().BoolVar(&apply, "apply", false, "put the plan in force")
	cmd.Flags().StringVar(&how.reason, "reason", "", "why, for the audit log")
	cmd.Flags().BoolVar(&how.yes, "yes", false, "do not ask before --apply")
	cmd.Flags().SortFlags = false
	return cmd
}

// proposed prints a plan and how to put it in force.
func (f *retireFlags) proposed(w io.Writer, s, planned *retire.State, now time.Time) error {
	if f.output == "json" {
		return writeJSON(w, stageAnswer{State: planned})
	}
	if err := writePlan(w, s, planned, now); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\nSteps past warn wait for you when the readiness check fails. Put it in force with:\n  bridge retire plan --sunset %s --apply\n",
		planned.Sunset.Format(time.RFC3339))
	return err
}

// writePlan writes a plan for people: what comes when.
func writePlan(w io.Writer, s, planned *retire.State, now time.Time) error {
	fmt.Fprintf(w, "plan until the sunset on %s, times in UTC\n\n", clock(planned.Sunset))
	t := tabwriter.NewWriter(w, 2, 0, 2, ' ', 0)
	if planned.Stage != s.Stage {
		fmt.Fprintf(t, "  now\t%s\t%s\n", planned.Stage, means(planned.Stage))
	}
	type entry struct {
		at   time.Time
		text string
	}
	var entries []entry
	for _, st := range planned.Schedule {
		entries = append(entries, entry{st.At, fmt.Sprintf("%s\t%s", st.Stage, means(st.Stage))})
	}
	for _, b := range planned.Brownouts {
		if b.Until.After(now) {
			entries = append(entries, entry{b.From, fmt.Sprintf("  window\t%s", windowText(b))})
		}
	}
	slices.SortStableFunc(entries, func(a, b entry) int { return a.at.Compare(b.at) })
	for _, e := range entries {
		fmt.Fprintf(t, "  %s\t%s\n", clock(e.at), e.text)
	}
	return t.Flush()
}

// clock writes a time in UTC, to the minute.
func clock(t time.Time) string { return t.UTC().Format("2006-01-02 15:04") }

// means says in a few words what a stage does.
func means(s retire.Stage) string {
	switch s {
	case retire.Open:
		return "HTTP+SSE is served as ever"
	case retire.Announce:
		return "headers say that HTTP+SSE ends, and when"
	case retire.Warn:
		return "clients get one log message per session too"
	case retire.Brownout:
		return "HTTP+SSE is refused in windows of time"
	case retire.Closed:
		return "nobody can begin a session; live ones go on"
	case retire.Drain:
		return "live sessions are ended when they are idle"
	case retire.Gone:
		return "the HTTP+SSE routes are off"
	}
	panic("bridge: no such stage: " + string(s))
}

// windowText describes a brownout, without its beginning.
func windowText(w retire.Window) string {
	text := fmt.Sprintf("until %s, %s", clock(w.Until), map[retire.Mode]string{
		retire.ModeInitialize: "new sessions are refused", retire.ModeCalls: "every call is refused", retire.ModeHard: "every HTTP request is refused",
	}[w.Mode])
	if w.Percent > 0 && w.Percent < 100 {
		text += fmt.Sprintf(", of %d %% of the clients", w.Percent)
	}
	if w.Aborted != "" {
		text += "; aborted: " + w.Aborted
	}
	return text
}
