package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	bridge "github.com/mcp-dualstack/bridge"
	"github.com/mcp-dualstack/bridge/retire"
	"github.com/mcp-dualstack/bridge/telemetry"
)

// exitInsufficient is an exit code of bridge report beside those of every command; exitFailed is "blocked" there.
const exitInsufficient = 3

// A reportSource is where a report comes from, and what it is to answer.
type reportSource struct {
	state     string   // folder; empty: the user's
	ledgers   []string // files; they come before the folder
	admin     string   // URL of a running bridge, which answers itself
	tokenFile string
	policy    string // YAML file
	stage     string
	simulate  string
}

func reportCommand() *cobra.Command {
	var s reportSource
	var output string
	cmd := &cobra.Command{
		Use:   "report",
		Short: "Say whether the HTTP+SSE routes can go, and who breaks if they do",
		Long: `report says whether the HTTP+SSE routes can be retired: who would break, who needs nothing but another URL, and
whether what was observed is enough to tell. Below that it prints the clients seen so far with their transports and revisions. It
reads the ledger in the state folder, while a server runs or after it, several ledgers of replicas, or asks a running bridge.

Exit codes: 0 ready, 1 blocked, 2 usage or configuration, 3 insufficient evidence, 4 a ledger or the admin listener cannot be read.`,
		Example: `  bridge report
  bridge report --stage closed --simulate 7d
  bridge report --policy bridge.yaml --output json
  bridge report --ledger a/ledger.db --ledger b/ledger.db
  bridge report --admin http://127.0.0.1:8421 --output csv`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			write, err := reportWriter(output, isTerminal(cmd.OutOrStdout()))
			if err != nil {
				return err
			}
			r, err := s.report(cmd.Context())
			if err != nil {
				return err
			}
			if err := write(r, cmd.OutOrStdout()); err != nil {
				return &exitError{exitUnreadable, fmt.Errorf("write the report: %w", err)}
			}
			return verdictExit(r.Verdict)
		},
	}
	s.add(cmd)
	flags := cmd.Flags()
	flags.StringVar(&s.stage, "stage", string(retire.Gone), "the stage to step to: "+strings.Join(telemetry.Targets, ", "))
	flags.StringVar(&s.simulate, "simulate", "", "also say who would have been refused in so many last days, such as 7d")
	flags.StringVar(&output, "output", "text", "text, json, csv, prom or junit")
	flags.SortFlags = false
	return cmd
}

// add adds the flags of where to read.
func (s *reportSource) add(cmd *cobra.Command) {
	s.addFiles(cmd)
	s.addAdmin(cmd)
	cmd.Flags().StringVar(&s.policy, "policy", os.Getenv(envOf("policy")), `YAML file with the policy under "retirement"`)
}

// addAdmin adds the flags of which bridge to ask.
func (s *reportSource) addAdmin(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&s.admin, "admin", "", "URL of the admin listener of a running bridge, instead of files")
	flags.StringVar(&s.tokenFile, "token-file", "", "file with the bearer token for --admin")
}

// addFiles adds the flags of which files to read.
func (s *reportSource) addFiles(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&s.state, "state", os.Getenv(envOf("state")), "folder of ledger.db (default $XDG_STATE_HOME/bridge or ~/.local/state/bridge)")
	flags.StringArrayVar(&s.ledgers, "ledger", nil, "ledger file, instead of that in --state; repeat it for replicas")
}

// reportWriter returns how a report is written in a form.
func reportWriter(output string, terminal bool) (func(telemetry.Report, io.Writer) error, error) {
	forms := map[string]func(telemetry.Report, io.Writer) error{
		"json": telemetry.Report.WriteJSON, "csv": telemetry.Report.WriteCSV, "prom": telemetry.Report.WriteProm, "junit": telemetry.Report.WriteJUnit,
		"text": func(r telemetry.Report, w io.Writer) error {
			return r.WriteText(w, &telemetry.TextOptions{Colour: terminal && os.Getenv("NO_COLOR") == ""})
		},
	}
	if write := forms[output]; write != nil {
		return write, nil
	}
	return nil, misused("--output: %q is none of text, json, csv, prom and junit", output)
}

// verdictExit returns the exit code of a verdict as an error without a text: the report has said it all.
func verdictExit(v telemetry.Verdict) error {
	switch v {
	case telemetry.Ready:
		return nil
	case telemetry.Blocked:
		return &exitError{code: exitFailed}
	}
	return &exitError{code: exitInsufficient}
}

// report reads and answers.
func (s *reportSource) report(ctx context.Context) (telemetry.Report, error) {
	q, err := s.question()
	if err != nil {
		return telemetry.Report{}, err
	}
	if s.admin != "" {
		return s.fromAdmin(ctx, q)
	}
	files, err := s.files()
	if err != nil {
		return telemetry.Report{}, err
	}
	if len(s.ledgers) == 0 {
		if err := readStage(filepath.Dir(files[0]), &q); err != nil {
			return telemetry.Report{}, &exitError{exitUnreadable, err}
		}
	}
	r, err := telemetry.Read(files, q)
	if err != nil {
		return telemetry.Report{}, &exitError{exitUnreadable, err}
	}
	return r, nil
}

// question returns what the flags ask.
func (s *reportSource) question() (telemetry.Question, error) {
	q := telemetry.Question{Target: s.stage}
	if s.stage != "" && !slices.Contains(telemetry.Targets, s.stage) {
		return q, misused("--stage: %q is none of %s", s.stage, strings.Join(telemetry.Targets, ", "))
	}
	if s.simulate != "" {
		var err error
		if q.Simulate, err = telemetry.ParsePeriod(s.simulate); err != nil {
			return q, misused("--simulate: %w", err)
		}
		if q.Simulate <= 0 {
			return q, misused("--simulate: %s is no time at all", s.simulate)
		}
	}
	if s.admin != "" && (len(s.ledgers) > 0 || s.policy != os.Getenv(envOf("policy"))) {
		return q, misused("--admin: the bridge has its own ledger and policy; leave out --ledger and --policy")
	}
	if s.admin == "" {
		policy, err := readPolicy(s.policy)
		if err != nil {
			return q, misused("--policy: %w", err)
		}
		q.Policy = policy
	}
	if err := q.Check(); err != nil {
		return q, &exitError{exitUsage, err}
	}
	return q, nil
}

// files returns the ledgers to read.
func (s *reportSource) files() ([]string, error) {
	if len(s.ledgers) > 0 {
		return s.ledgers, nil
	}
	dir := s.state
	if dir == off {
		return nil, misused("--state: without a folder no ledger is kept; use --admin with the URL of the admin listener, or --ledger")
	}
	if dir == "" {
		var err error
		if dir, err = userState(); err != nil {
			return nil, &exitError{exitUnreadable, err}
		}
	}
	file := filepath.Join(dir, bridge.LedgerFile)
	if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
		return nil, &exitError{exitUnreadable, fmt.Errorf("there is no ledger in %s yet; bridge serve keeps one there, and --state names another folder", dir)}
	}
	return []string{file}, nil
}

// readStage fills in the stage of the state folder and its exemptions.
func readStage(dir string, q *telemetry.Question) error {
	k, err := retire.OpenKeeper(dir, &retire.Options{Passive: true})
	if err != nil {
		return err
	}
	*q = bridge.AsOf(k.State(), *q)
	return k.Close()
}

// fromAdmin asks a running bridge.
func (s *reportSource) fromAdmin(ctx context.Context, q telemetry.Question) (telemetry.Report, error) {
	p, err := newAdminPlace(s.admin, s.tokenFile)
	if err != nil {
		return telemetry.Report{}, err
	}
	r, err := p.report(ctx, cmp.Or(retire.Stage(q.Target), retire.Gone), q.Simulate)
	if _, ok := errors.AsType[*exitError](err); err != nil && !ok {
		err = &exitError{exitUnreadable, err}
	}
	return r, errors.Join(err, p.close())
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
