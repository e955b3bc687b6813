package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/mcp-dualstack/bridge/telemetry"
)

func ledgerCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "ledger",
		Short: "Look at the identities in the ledger, take them out, forget them",
		Long: `ledger shows whom the ledger knows: a verified caller as a keyed hash, everybody else by the name of the program, the network
and the User-Agent. Nothing else of an address is kept, and no tokens, arguments or results.

Exit codes: 0 ok, 1 an identity is not known, 2 usage, 4 a ledger cannot be read.`,
		Example: `  bridge ledger list --class unknown
  bridge ledger export > ledger.json
  bridge ledger forget 'sub:9f21c04ab3d2'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return misused("ledger: which of list, forget and export?")
		},
	}
	cmd.AddCommand(ledgerListCommand(), ledgerForgetCommand(), ledgerExportCommand())
	return cmd
}

func ledgerListCommand() *cobra.Command {
	var s reportSource
	var output, class string
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the identities",
		Long: `list prints the identities that the ledger knows with their class, those that would break first.

Exit codes: 0 ok, 2 usage, 4 a ledger cannot be read.`,
		Example: `  bridge ledger list
  bridge ledger list --class capable --output csv`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !slices.Contains([]string{"text", "json", "csv"}, output) {
				return misused("--output: %q is none of text, json and csv", output)
			}
			if class != "" && !slices.Contains(telemetry.Classes, telemetry.Class(class)) {
				return misused("--class: %q is none of %v", class, telemetry.Classes)
			}
			r, err := s.report(cmd.Context())
			if err != nil {
				return err
			}
			if class != "" {
				r.Identities = slices.DeleteFunc(r.Identities, func(i telemetry.Identity) bool { return string(i.Class) != class })
			}
			return writeIdentities(cmd.OutOrStdout(), r, output)
		},
	}
	s.add(cmd)
	cmd.Flags().StringVar(&class, "class", "", "only those of a class, such as unknown or capable")
	cmd.Flags().StringVar(&output, "output", "text", "text, json or csv")
	cmd.Flags().SortFlags = false
	return cmd
}

func writeIdentities(w io.Writer, r telemetry.Report, output string) error {
	var err error
	switch output {
	case "csv":
		err = r.WriteCSV(w)
	case "json":
		e := json.NewEncoder(w)
		e.SetEscapeHTML(false)
		e.SetIndent("", "  ")
		err = e.Encode(r.Identities)
	default:
		t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		fmt.Fprintln(t, "CLASS\tLABEL\tLAST HTTP+SSE\tLAST SEEN\tOWNER\tID")
		for _, i := range r.Identities {
			legacy := "never"
			if last := i.Transports[r.Policy.Surface].LastSeen; !last.IsZero() {
				legacy = last.Format("2006-01-02")
			}
			fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\n", i.Class, i.Label, legacy, i.LastSeen.Format("2006-01-02"), i.Owner, i.ID)
		}
		err = t.Flush()
	}
	if err != nil {
		return &exitError{exitUnreadable, fmt.Errorf("write the list: %w", err)}
	}
	return nil
}

func ledgerForgetCommand() *cobra.Command {
	var s reportSource
	cmd := &cobra.Command{
		Use:   "forget ID...",
		Short: "Remove what is known of identities",
		Long: `forget removes an identity with its names, counts, days and evidence. The totals stay, and the rows per client and revision, which
do not say where a client came from. A client that comes back is recorded again, as a new one. While a bridge runs ask it (--admin): it
may write once more to its file what it has in memory.

Forgetting somebody who still uses HTTP+SSE makes bridge report say "ready" too early. To leave somebody out of account for a time,
exempt them.

Exit codes: 0 ok, 1 an identity is not known, 2 usage, 4 a ledger cannot be read.`,
		Example: `  bridge ledger forget 'sub:9f21c04ab3d2' 'ci-runner@10.9.0.0/24;Go-http-client'`,
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, ids []string) error {
			from, err := s.records()
			if err != nil {
				return err
			}
			return forget(cmd.Context(), from, ids)
		},
	}
	s.addFiles(cmd)
	s.addAdmin(cmd)
	return cmd
}

func ledgerExportCommand() *cobra.Command {
	var s reportSource
	cmd := &cobra.Command{
		Use:   "export [ID...]",
		Short: "Print all that is known of identities as JSON",
		Long: `export prints every field that the ledger keeps of all identities, or of those given, as one JSON object per ledger. A bridge that runs
(--admin) tells them as its report has them: all but the counts of single days.

Exit codes: 0 ok, 1 an identity is not known, 2 usage, 4 a ledger cannot be read.`,
		Example: `  bridge ledger export > ledger.json
  bridge ledger export 'sub:9f21c04ab3d2'`,
		RunE: func(cmd *cobra.Command, ids []string) error {
			from, err := s.records()
			if err != nil {
				return err
			}
			list, err := from.export(cmd.Context(), ids)
			switch {
			case errors.Is(err, telemetry.ErrUnknown):
				return failed("%w; bridge ledger list has the ids", err)
			case err != nil:
				return &exitError{exitUnreadable, err}
			}
			return writeObjects(cmd.OutOrStdout(), list)
		},
	}
	s.addFiles(cmd)
	s.addAdmin(cmd)
	return cmd
}
