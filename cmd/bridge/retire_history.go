package main

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/mcp-dualstack/bridge/retire"
)

func retireHistory(f *retireFlags) *cobra.Command {
	var verify bool
	cmd := &cobra.Command{
		Use:   "history",
		Short: "Print every change of the stage, and check that the log is whole",
		Long: `history prints the audit log, oldest first: who went from where to where, when, by which way and why. With --verify
it checks the chain of the log too: each line has the SHA-256 of the one before, and the state file that of the last, so lines that were
changed, removed, added or moved are found. Lines that a crash cut off are none of that. Keep the head it prints elsewhere, and
even who writes both files anew is found out.

The JSON is {"records": [...], "verification": {...}}; without --verify the latter is missing.

Exit codes: 0 ok, 2 usage, 3 the log is not what was written, 4 log or admin API cannot be reached or read.`,
		Example: `  bridge retire history
  bridge retire history --verify --state /var/lib/bridge`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.run(cmd, func(ctx context.Context, p place) error {
				records, err := p.history(ctx)
				if err != nil {
					return err
				}
				var v *retire.Verification
				if verify {
					if v, err = p.verify(ctx); err != nil {
						return err
					}
				}
				if err := f.printHistory(cmd.OutOrStdout(), records, v); err != nil {
					return err
				}
				if v != nil && !v.Whole() {
					return &exitError{exitNotReady, fmt.Errorf("the audit log in %s is not what was written", p.name())}
				}
				return nil
			})
		},
	}
	cmd.Flags().BoolVar(&verify, "verify", false, "check that the log is what was written")
	return cmd
}

func (f *retireFlags) printHistory(w io.Writer, records []retire.Record, v *retire.Verification) error {
	if f.output == "json" {
		if records == nil {
			records = []retire.Record{}
		}
		return writeJSON(w, struct {
			Records      []retire.Record      `json:"records"`
			Verification *retire.Verification `json:"verification,omitempty"`
		}{records, v})
	}
	if len(records) == 0 {
		fmt.Fprintln(w, "the stage was never changed")
	}
	t := tabwriter.NewWriter(w, 2, 0, 2, ' ', 0)
	for _, r := range records {
		fmt.Fprintf(t, "%s\tv%d\t%s\t%s\t%s\t%s\n", clock(r.Time), r.Version, steps(r), oneLine(orNobody(r.Actor)), r.Origin, oneLine(story(r)))
	}
	if err := t.Flush(); err != nil || v == nil {
		return err
	}
	for _, n := range v.Notes {
		fmt.Fprintln(w, "note:", oneLine(n.String()))
	}
	for _, n := range v.Faults {
		fmt.Fprintln(w, "FAULT:", oneLine(n.String()))
	}
	verdict := "whole"
	if !v.Whole() {
		verdict = "NOT WHOLE"
	}
	_, err := fmt.Fprintf(w, "log %s: %d records, head %s\n", verdict, v.Records, orNobody(v.Head))
	return err
}

// told is a record in one line.
func told(r retire.Record) string {
	return oneLine(fmt.Sprintf("version %d of %s UTC, %s by %s%s", r.Version, clock(r.Time), steps(r), orNobody(r.Actor), because(story(r))))
}

func steps(r retire.Record) string {
	if r.From == r.To {
		return string(r.To)
	}
	return string(r.From) + " -> " + string(r.To)
}

// story says what else there is about a change.
func story(r retire.Record) string {
	text := r.Reason
	add := func(more string) {
		if text != "" && more != "" {
			text += "; "
		}
		text += more
	}
	if r.Undoes > 0 {
		add(fmt.Sprintf("takes back v%d", r.Undoes))
	}
	if r.Forced {
		add("FORCED")
	}
	add(r.Note)
	if r.Digest != "" {
		add("report " + r.Digest[:min(12, len(r.Digest))])
	}
	return text
}
