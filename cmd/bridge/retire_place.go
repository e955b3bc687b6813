package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"

	bridge "github.com/mcp-dualstack/bridge"
	"github.com/mcp-dualstack/bridge/retire"
	"github.com/mcp-dualstack/bridge/telemetry"
)

// A place is where the state is: files, or the admin API of a running bridge. Its errors are those of retire.Keeper, and
// *unreachableError.
type place interface {
	// state returns the document in force, and why it is not the one in the file if it is not.
	state(context.Context) (s *retire.State, damage string, err error)
	// set makes a change. Of it Version, State, Reason, Force and Digest count.
	set(context.Context, retire.Change) (*retire.State, error)
	// undo takes the last change back. Of the change Version, Reason and Force count.
	undo(context.Context, retire.Change) (*retire.State, error)
	history(context.Context) ([]retire.Record, error)
	verify(context.Context) (*retire.Verification, error)
	// report answers about the step to target, with what the last days would have been like.
	report(ctx context.Context, target retire.Stage, simulate telemetry.Period) (telemetry.Report, error)
	name() string
	close() error
}

// A filePlace is the folder of a state.
type filePlace struct {
	dir    string
	keeper *retire.Keeper
	policy *telemetry.Policy
}

// newFilePlace opens the state in dir, "" for the user's folder.
func newFilePlace(dir string, policy *telemetry.Policy) (place, error) {
	if dir == "" {
		var err error
		if dir, err = userState(); err != nil {
			return nil, misused("--state: no folder of the user's to look in: %w", err)
		}
	}
	p := &filePlace{dir: dir, policy: policy}
	k, err := retire.OpenKeeper(dir, &retire.Options{Passive: true, Ready: p.ready})
	if err != nil {
		return nil, &exitError{exitUnreadable, err}
	}
	p.keeper = k
	return p, nil
}

func (p *filePlace) name() string { return p.dir }
func (p *filePlace) close() error { return p.keeper.Close() }

func (p *filePlace) state(context.Context) (*retire.State, string, error) {
	if err := p.keeper.Damage(); err != nil {
		return p.keeper.State(), err.Error(), nil
	}
	return p.keeper.State(), "", nil
}

func (p *filePlace) set(ctx context.Context, c retire.Change) (*retire.State, error) {
	c.Actor, c.Origin = operator(), retire.FromCLI
	return p.keeper.Set(ctx, c)
}

func (p *filePlace) undo(ctx context.Context, c retire.Change) (*retire.State, error) {
	c.Actor, c.Origin = operator(), retire.FromCLI
	return p.keeper.Undo(ctx, c)
}

func (p *filePlace) history(context.Context) ([]retire.Record, error) {
	records, err := p.keeper.History()
	if err != nil {
		return nil, &unreachableError{err}
	}
	return records, nil
}

func (p *filePlace) verify(context.Context) (*retire.Verification, error) {
	v, err := p.keeper.Verify()
	if err != nil {
		return nil, &unreachableError{err}
	}
	return v, nil
}

func (p *filePlace) report(_ context.Context, target retire.Stage, simulate telemetry.Period) (telemetry.Report, error) {
	file := filepath.Join(p.dir, bridge.LedgerFile)
	if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
		return telemetry.Report{}, fmt.Errorf("there is no ledger in %s, so nobody knows who would break", p.dir)
	}
	q := telemetry.Question{Policy: p.policy, Target: string(target), Simulate: simulate}
	return telemetry.Read([]string{file}, bridge.AsOf(p.keeper.State(), q))
}

// ready is the readiness check of a step that is made on files.
func (p *filePlace) ready(ctx context.Context, target retire.Stage) (retire.Readiness, error) {
	r, err := p.report(ctx, target, 0)
	if err != nil {
		return retire.Readiness{}, err
	}
	return bridge.Readiness(r), nil
}

// operator returns who gives the command, for the audit log.
func operator() string {
	name := os.Getenv("USER")
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	if by := os.Getenv("SUDO_USER"); by != "" && by != name {
		name += " (sudo by " + by + ")"
	}
	return printable(name)
}
