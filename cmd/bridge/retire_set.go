package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/mcp-dualstack/bridge/retire"
)

// none takes the sunset back.
const none = "none"

// A changeFlags says how a change is made.
type changeFlags struct {
	reason     string
	force, yes bool
}

func (f *changeFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.reason, "reason", "", "why, for the audit log; --force needs one")
	cmd.Flags().BoolVar(&f.force, "force", false, "go forward although the readiness check fails")
	cmd.Flags().BoolVar(&f.yes, "yes", false, "do not ask before a step past warn")
}

// change is the change that the flags describe, based on s.
func (f *changeFlags) change(s *retire.State) retire.Change {
	return retire.Change{Version: s.Version, State: *s, Reason: f.reason, Force: f.force}
}

func retireSet(f *retireFlags) *cobra.Command {
	var how changeFlags
	var w windowFlags
	var tombstone bool
	var sunset string
	cmd := &cobra.Command{
		Use:   "set STAGE",
		Short: "Go to a stage, forward or back",
		Long: `set goes to STAGE: open, announce, warn, brownout, closed, drain or gone. Before a step past warn it shows who
was there in the last days and would be refused, and asks. A forward step past warn needs the readiness check to pass (bridge
report --stage STAGE), or --force with a --reason. A step back needs nothing, and takes the rest of the schedule away.

With brownout, --for opens a window at once; without it the windows are those of the plan.

` + retireCodes,
		Example: `  bridge retire set announce --sunset 2027-01-15 --reason "mail of 1 December"
  bridge retire set brownout --for 1h --mode calls --percent 10
  bridge retire set closed --yes --reason "all teams have moved"
  bridge retire set gone --force --reason "contract ends; reporting-tool is told" --yes
  bridge retire set warn`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			stage, err := retire.ParseStage(args[0])
			if err != nil {
				return misused("%w", err)
			}
			if how.force && how.reason == "" {
				return retireError(retire.ErrNoReason)
			}
			if err := w.check(stage); err != nil {
				return err
			}
			var date time.Time
			if sunset != "" && sunset != none {
				if date, err = parseDate("sunset", sunset); err != nil {
					return err
				}
			}
			return f.run(cmd, func(ctx context.Context, p place) error {
				s, _, err := p.state(ctx)
				if err != nil {
					return err
				}
				c := how.change(s)
				c.State.Stage = stage
				if sunset != "" {
					c.State.Sunset = date
				}
				if cmd.Flags().Changed("tombstone") {
					c.State.Tombstone = tombstone
				}
				w.open(&c.State, time.Now())
				return f.step(ctx, cmd, p, s, c, how.yes, p.set)
			})
		},
	}
	how.add(cmd)
	w.add(cmd)
	cmd.Flags().StringVar(&sunset, "sunset", "", "date on which the routes go, which headers name, or none")
	cmd.Flags().BoolVar(&tombstone, "tombstone", false, "at gone, go on telling clients on the stream where to go; =false ends that")
	cmd.Flags().SortFlags = false
	return cmd
}

func retireUndo(f *retireFlags) *cobra.Command {
	var how changeFlags
	cmd := &cobra.Command{
		Use:   "undo",
		Short: "Take the last change back",
		Long: `undo puts the document before the last change in force again, with its dates, windows, exemptions and schedule. Done
again it goes back further. Where that leads to a later stage it asks and checks as set does. Steps of the schedule that were due are
held, so that nothing is done again by itself.

` + retireCodes,
		Example: `  bridge retire undo
  bridge retire undo --reason "too early for the batch jobs"`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if how.force && how.reason == "" {
				return retireError(retire.ErrNoReason)
			}
			return f.run(cmd, func(ctx context.Context, p place) error {
				s, _, err := p.state(ctx)
				if err != nil {
					return err
				}
				records, err := p.history(ctx)
				if err != nil {
					return err
				}
				last, before, err := retire.Undoable(records)
				if err != nil {
					return err
				}
				fmt.Fprintf(cmd.ErrOrStderr(), "takes back %s\n", told(*last))
				c := how.change(s)
				c.State = *before
				return f.step(ctx, cmd, p, s, c, how.yes, p.undo)
			})
		},
	}
	how.add(cmd)
	cmd.Flags().SortFlags = false
	return cmd
}

// step makes the change from s with do. Before one that refuses somebody it shows whom, and asks unless yes.
func (f *retireFlags) step(ctx context.Context, cmd *cobra.Command, p place, s *retire.State, c retire.Change, yes bool,
	do func(context.Context, retire.Change) (*retire.State, error)) error {
	if target := c.State.Stage; target.After(retire.Warn) && !s.Stage.After(target) {
		v := previewed(ctx, p, s, target)
		c.Digest = v.Digest
		if err := v.write(cmd.ErrOrStderr(), time.Now()); err != nil {
			return err
		}
		if err := v.refusal(); err != nil && !c.Force {
			return err
		}
		if !yes {
			if err := ask(cmd, fmt.Sprintf("Go to %s?", target)); err != nil {
				return err
			}
		}
	}
	now, err := do(ctx, c)
	if err != nil {
		return err
	}
	if now.Stage == retire.Brownout && !slices.ContainsFunc(now.Brownouts, func(w retire.Window) bool { return w.Until.After(time.Now()) }) {
		fmt.Fprintln(cmd.ErrOrStderr(), "note: no window is to come, so nobody is refused; --for opens one")
	}
	return f.changed(cmd.OutOrStdout(), s, now)
}

// changed says what a change has done.
func (f *retireFlags) changed(w io.Writer, old, now *retire.State) error {
	if f.output == "json" {
		return writeJSON(w, stageAnswer{State: now})
	}
	line := fmt.Sprintf("stage %s -> %s, version %d", old.Stage, now.Stage, now.Version)
	if old.Stage == now.Stage {
		line = fmt.Sprintf("stage %s, version %d", now.Stage, now.Version)
	}
	if n := len(old.Schedule) - len(now.Schedule); n > 0 && old.Stage.After(now.Stage) {
		line += "; the schedule is empty"
	}
	_, err := fmt.Fprintln(w, line)
	return err
}

func writeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}
