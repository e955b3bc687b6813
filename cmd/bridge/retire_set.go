package main

import (
	"cmp"
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

// A windowFlags describes a brownout that begins at once.
type windowFlags struct {
	length  time.Duration
	mode    string
	percent int
}

func (w *windowFlags) add(cmd *cobra.Command) {
	cmd.Flags().DurationVar(&w.length, "for", 0, "with brownout: refuse from now on for this long")
	cmd.Flags().StringVar(&w.mode, "mode", "", "of that window: initialize (default), calls or hard")
	cmd.Flags().IntVar(&w.percent, "percent", 0, "of the clients that the window refuses, 1 to 100 (default all)")
}

// maxWindow bounds a window that is opened by hand: a longer one is a stage.
const maxWindow = 7 * 24 * time.Hour

func (w *windowFlags) check(stage retire.Stage) error {
	switch {
	case w.length == 0 && (w.mode != "" || w.percent != 0):
		return misused("--mode and --percent are about the window that --for opens")
	case w.length == 0:
		return nil
	case stage != retire.Brownout:
		return misused("--for: windows work at stage brownout")
	case w.length < time.Minute || w.length > maxWindow:
		return misused("--for: must be one minute to seven days")
	case w.percent < 0 || w.percent > 100:
		return misused("--percent: %d is not 1 to 100", w.percent)
	}
	switch retire.Mode(w.mode) {
	case "", retire.ModeInitialize, retire.ModeCalls, retire.ModeHard:
		return nil
	}
	return misused("--mode: %q is none of initialize, calls, hard", w.mode)
}

// open puts the window into s. Windows that it meets are replaced by it, and those that are over are forgotten when there is no room.
func (w *windowFlags) open(s *retire.State, now time.Time) {
	if w.length == 0 {
		return
	}
	from := now.UTC().Truncate(time.Second)
	until := from.Add(w.length)
	var before, after []retire.Window
	for _, b := range s.Brownouts {
		switch {
		case b.Aborted != "" && b.Until.After(from):
			b.Until = from // it was over when it was aborted
			if b.Until.After(b.From) {
				before = append(before, b)
			}
		case !b.Until.After(from):
			before = append(before, b)
		case !b.From.Before(until):
			after = append(after, b)
		case b.From.Before(from):
			b.Until = from
			before = append(before, b)
		}
	}
	s.Brownouts = append(before, retire.Window{
		ID: from.Format("2006-01-02T150405Z"), From: from, Until: until, Mode: retire.Mode(cmp.Or(w.mode, string(retire.ModeInitialize))), Percent: w.percent,
	})
	s.Brownouts = append(s.Brownouts, after...)
	if over := len(s.Brownouts) - retire.MaxBrownouts; over > 0 {
		s.Brownouts = s.Brownouts[over:]
	}
}
