package main

import (
	"cmp"
	"time"

	"github.com/spf13/cobra"

	"github.com/mcp-dualstack/bridge/retire"
)

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
