package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/mcp-dualstack/bridge/retire"
)

// Exit codes of bridge retire beside the common ones.
const (
	exitNotReady = 3 // the readiness check failed, or the audit log is not what was written
	exitStale    = 5 // somebody else changed the state meanwhile
)

const retireCodes = `Exit codes: 0 done, 1 declined or failed, 2 usage, 3 not ready and nothing changed, 4 state or admin API
cannot be reached or read, 5 somebody else changed the state meanwhile.`

// A retireFlags says where the state is and how to print.
type retireFlags struct {
	state, admin, token string
	policy              string // YAML file
	output              string
}

func retireCommand() *cobra.Command {
	f := &retireFlags{}
	cmd := &cobra.Command{
		Use:   "retire",
		Short: "Show and set the stage of the HTTP+SSE routes",
		Long: `retire shows and sets the stage in the retirement of the HTTP+SSE routes:

  open      served as ever
  announce  headers say that they end, and when
  warn      clients get one log message per session too
  brownout  refused in windows of time, to find who still needs them
  closed    nobody can begin; who does is told where to go. Live sessions go on
  drain     live sessions are ended too, when they are idle
  gone      the routes are off

It works on the files in the folder of --state, also while bridge serve runs there, which follows within two seconds; or
on the admin API of a running bridge with --admin URL. Streamable HTTP is not touched by any stage.

` + retireCodes,
		Example: `  bridge retire show
  bridge retire plan --sunset 2027-01-15
  bridge retire set warn --reason "announced to all teams"
  bridge retire --admin http://127.0.0.1:8421 undo
  bridge retire history --verify`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return misused("%q is no command of retire; there are show, set, plan, undo, exempt and history", args[0])
			}
			return cmd.Help()
		},
	}
	fs := cmd.PersistentFlags()
	fs.StringVar(&f.state, "state", os.Getenv(envOf("state")), "folder of retirement.json (default $XDG_STATE_HOME/bridge or ~/.local/state/bridge)")
	fs.StringVar(&f.admin, "admin", "", "URL of the admin listener of a running bridge, instead of --state")
	fs.StringVar(&f.token, "token-file", "", "file with the bearer token for --admin")
	fs.StringVar(&f.policy, "policy", os.Getenv(envOf("policy")), `YAML file with the policy of the readiness check under "retirement", beside --state`)
	fs.StringVar(&f.output, "output", "text", "text or json")
	cmd.AddCommand(retireShow(f), retireSet(f), retirePlan(f), retireUndo(f), retireExempt(f), retireHistory(f))
	return cmd
}

// retireTimeout is the time for all that a command asks, without the time in which a person thinks.
const retireTimeout = 30 * time.Second

// run opens the place that the flags name and hands it over. A signal ends ctx.
func (f *retireFlags) run(cmd *cobra.Command, do func(context.Context, place) error) error {
	if err := checkOutput(f.output); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	p, err := f.open(cmd)
	if err != nil {
		return err
	}
	return retireError(errors.Join(do(ctx, p), p.close()))
}

// open returns the place that the flags name.
func (f *retireFlags) open(cmd *cobra.Command) (place, error) {
	switch {
	case f.admin != "" && cmd.Flags().Changed("state"):
		return nil, misused("--admin and --state name two places; the state is in one of them")
	case f.admin != "" && cmd.Flags().Changed("policy"):
		return nil, misused("--policy: the bridge at --admin has its own")
	case f.admin != "":
		return newAdminPlace(f.admin, f.token)
	case f.token != "":
		return nil, misused("--token-file: is for --admin")
	case f.state == off:
		return nil, misused("--state: without a folder nothing is kept; use --admin with the URL of the admin listener")
	}
	policy, err := readPolicy(f.policy)
	if err != nil {
		return nil, misused("--policy: %w", err)
	}
	return newFilePlace(f.state, policy)
}

// An unreachableError says that the state cannot be reached or read.
type unreachableError struct{ err error }

func (e *unreachableError) Error() string { return e.err.Error() }
func (e *unreachableError) Unwrap() error { return e.err }

// retireError gives an error its exit code and says what to do about it.
func retireError(err error) error {
	_, coded := errors.AsType[*exitError](err)
	_, unreachable := errors.AsType[*unreachableError](err)
	switch {
	case err == nil, coded:
		return err
	case errors.Is(err, retire.ErrNotReady):
		return &exitError{exitNotReady, fmt.Errorf("%w; bridge report says who, --force --reason TEXT goes on all the same", err)}
	case errors.Is(err, retire.ErrStale):
		return &exitError{exitStale, fmt.Errorf("%w; look at it with bridge retire show and decide again", err)}
	case errors.Is(err, retire.ErrNoReason):
		return misused("--force needs --reason TEXT; it goes into the audit log")
	case unreachable:
		return &exitError{exitUnreadable, err}
	}
	return failed("%w", err)
}

// parseDate reads 2027-01-15, which is midnight UTC, or a time of RFC 3339.
func parseDate(flag, text string) (time.Time, error) {
	for _, layout := range []string{time.DateOnly, time.RFC3339, "2006-01-02 15:04", "2006-01-02T15:04Z07:00"} {
		if t, err := time.Parse(layout, text); err == nil {
			return t.UTC(), nil
		}
	}
	return time.Time{}, misused("--%s: %q is neither a date such as 2027-01-15 nor a time such as 2027-01-15T09:00:00Z", flag, text)
}

// ask puts a question on stderr and reads the answer from stdin. Only y and yes are yes.
func ask(cmd *cobra.Command, question string) error {
	fmt.Fprintf(cmd.ErrOrStderr(), "%s [y/N] ", question)
	line, err := readAnswer(cmd)
	switch strings.ToLower(strings.TrimSpace(line)) {
	case "y", "yes":
		return nil
	case "":
		if err != nil { // nobody is there to answer
			fmt.Fprintln(cmd.ErrOrStderr())
			return failed("nothing was changed: there was no answer; scripts say --yes")
		}
	}
	return failed("nothing was changed")
}

// maxAnswer bounds an answer, in bytes.
const maxAnswer = 64

// readAnswer reads a line and not a byte more, since what follows is for somebody else.
func readAnswer(cmd *cobra.Command) (string, error) {
	var line []byte
	b := make([]byte, 1)
	for len(line) < maxAnswer {
		n, err := cmd.InOrStdin().Read(b)
		if n > 0 {
			if b[0] == '\n' {
				return string(line), nil
			}
			line = append(line, b[0])
		}
		if err != nil {
			return string(line), err
		}
	}
	return string(line), nil
}
