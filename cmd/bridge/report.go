package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	bridge "github.com/mcp-dualstack/bridge"
	"github.com/mcp-dualstack/bridge/telemetry"
)

func reportCommand() *cobra.Command {
	var state string
	var output string
	cmd := &cobra.Command{
		Use:   "report",
		Short: "Print who speaks what",
		Long: `report prints the clients seen so far: their transport, the revisions they asked for and got, their
sessions, calls and errors. It reads the ledger in the state folder, while a server runs or after it.

Exit codes: 0 ok, 2 usage, 4 no ledger, or one that cannot be read.`,
		Example: `  bridge report
  bridge report --state /var/lib/bridge --output json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkOutput(output); err != nil {
				return err
			}
			r, err := readLedger(state)
			if err != nil {
				return &exitError{exitUnreadable, err}
			}
			if output == "json" {
				err = r.WriteJSON(cmd.OutOrStdout())
			} else {
				err = r.WriteText(cmd.OutOrStdout(), nil)
			}
			if err != nil {
				return failed("write the report: %w", err)
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&state, "state", os.Getenv(envOf("state")), "folder of ledger.db (default $XDG_STATE_HOME/bridge or ~/.local/state/bridge)")
	addOutput(cmd, &output)
	return cmd
}

// readLedger reads the ledger of a state folder, "" for the user's.
func readLedger(dir string) (telemetry.Report, error) {
	if dir == "" {
		var err error
		if dir, err = userState(); err != nil {
			return telemetry.Report{}, err
		}
	}
	file := filepath.Join(dir, bridge.LedgerFile)
	if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
		return telemetry.Report{}, fmt.Errorf("there is no ledger in %s yet; bridge serve keeps one there, and --state names another folder", dir)
	}
	r, err := telemetry.Read([]string{file}, telemetry.Question{})
	if err != nil {
		return telemetry.Report{}, fmt.Errorf("read %s: %w", file, err)
	}
	return r, nil
}

// addOutput adds the flag of commands that print data.
func addOutput(cmd *cobra.Command, output *string) {
	cmd.Flags().StringVar(output, "output", "text", "text or json")
}

func checkOutput(output string) error {
	if output != "text" && output != "json" {
		return misused("--output: %q is neither text nor json", output)
	}
	return nil
}
