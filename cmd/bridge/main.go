// Command bridge serves one MCP server to clients of every age: HTTP+SSE (2024-11-05), Streamable HTTP with
// sessions and stateless Streamable HTTP (2026-07-28).
package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
)

// Exit codes, as --help documents them.
const (
	exitOK         = 0
	exitFailed     = 1
	exitUsage      = 2
	exitUnreadable = 4 // of bridge report
)

// An exitError ends the program with a code. Its text is for the user and may have several lines.
type exitError struct {
	code int
	err  error // nil: the output says it all
}

func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

func failed(format string, args ...any) error {
	return &exitError{exitFailed, fmt.Errorf(format, args...)}
}

func misused(format string, args ...any) error {
	return &exitError{exitUsage, fmt.Errorf(format, args...)}
}

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// run carries out one command line and returns the exit code.
func run(args []string, stdout, stderr io.Writer) int {
	cmd := rootCommand()
	cmd.SetArgs(args)
	cmd.SetOut(stdout)
	cmd.SetErr(stderr)
	err := cmd.Execute()
	if err == nil {
		return exitOK
	}
	e, ok := errors.AsType[*exitError](err)
	if ok && e.err == nil {
		return e.code // what there is to say has been said
	}
	fmt.Fprintln(stderr, "bridge:", err)
	if ok {
		return e.code
	}
	// What cobra and pflag find wrong is in the command line.
	fmt.Fprintln(stderr, "See bridge --help, or --help of the command.")
	return exitUsage
}

const exitCodeHelp = `Exit codes: 0 ok, 1 failed, 2 usage or configuration.`

func rootCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bridge",
		Short: "Serve one MCP server to clients of every age",
		Long: `bridge stands in front of one MCP server and serves it at once over HTTP+SSE (2024-11-05),
Streamable HTTP with sessions (2025-03-26 to 2025-11-25) and stateless Streamable HTTP (2026-07-28).
It remembers who still speaks what, so that the old routes can be switched off without surprises.

` + exitCodeHelp + ` Commands that have others say so.`,
		Example: `  bridge serve                                  # a built-in demo server
  bridge serve -- node server.js stdio          # wrap a stdio server
  bridge probe -- node server.js stdio          # what it speaks
  bridge report                                 # can the legacy routes go, and who breaks
  bridge retire plan --sunset 2027-01-15        # the way there, stage by stage`,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	cmd.CompletionOptions.DisableDefaultCmd = true
	cmd.AddCommand(serveCommand(), probeCommand(), reportCommand(), ledgerCommand(), retireCommand(), checkCommand(), versionCommand())
	return cmd
}
