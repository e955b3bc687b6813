package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"

	"github.com/mcp-dualstack/bridge/telemetry"
)

// A recordKeeper is where identities are exported from and forgotten: files, or a running bridge, which has more in memory.
type recordKeeper interface {
	// export returns one JSON object per ledger, of all identities or of those given. The error is telemetry.ErrUnknown for one that
	// is not known.
	export(ctx context.Context, ids []string) ([]any, error)
	// forget removes one identity. The error is telemetry.ErrUnknown if it is not known.
	forget(ctx context.Context, id string) error
}

// records returns where the flags say that the identities are.
func (s *reportSource) records() (recordKeeper, error) {
	if s.admin == "" {
		files, err := s.files()
		return fileRecords(files), err
	}
	if len(s.ledgers) > 0 {
		return nil, misused("--admin: the bridge has its own ledger; leave out --ledger")
	}
	p, err := newAdminPlace(s.admin, s.tokenFile)
	if err != nil {
		return nil, err
	}
	return adminRecords{p.(*adminPlace)}, nil
}

// fileRecords are ledger files.
type fileRecords []string

// export returns an Inventory of each file that knows one of the ids, of all files if there are none.
func (files fileRecords) export(_ context.Context, ids []string) ([]any, error) {
	var out []any
	known := make(map[string]bool)
	for _, file := range files {
		v, err := telemetry.ReadInventory(file)
		if err != nil {
			return out, err
		}
		if len(ids) > 0 {
			v.Identities = slices.DeleteFunc(v.Identities, func(i telemetry.RecordedIdentity) bool { return !slices.Contains(ids, i.ID) })
		}
		for _, i := range v.Identities {
			known[i.ID] = true
		}
		if len(ids) == 0 || len(v.Identities) > 0 {
			out = append(out, v)
		}
	}
	for _, id := range ids {
		if !known[id] {
			return nil, fmt.Errorf("%q: %w", id, telemetry.ErrUnknown)
		}
	}
	return out, nil
}

func (files fileRecords) forget(_ context.Context, id string) error {
	err := telemetry.ErrUnknown
	for _, file := range files {
		switch e := telemetry.Forget(file, id); {
		case e == nil:
			err = nil
		case !errors.Is(e, telemetry.ErrUnknown):
			return e
		}
	}
	return err
}

// adminRecords are those of a running bridge.
type adminRecords struct{ *adminPlace }

// export returns {"identities": [Identity]}, which has no days: the admin API tells none.
func (p adminRecords) export(ctx context.Context, ids []string) ([]any, error) {
	var a struct {
		Identities []telemetry.Identity `json:"identities"`
	}
	if err := p.call(ctx, http.MethodGet, "/admin/ledger", nil, &a); err != nil || len(ids) == 0 {
		return []any{a}, err
	}
	by := make(map[string]telemetry.Identity, len(a.Identities))
	for _, i := range a.Identities {
		by[i.ID] = i
	}
	a.Identities = nil
	for _, id := range ids {
		i, ok := by[id]
		if !ok {
			return nil, fmt.Errorf("%q: %w", id, telemetry.ErrUnknown)
		}
		a.Identities = append(a.Identities, i)
	}
	return []any{a}, nil
}

func (p adminRecords) forget(ctx context.Context, id string) error {
	return p.call(ctx, http.MethodDelete, "/admin/ledger?"+url.Values{"id": {id}}.Encode(), nil, nil)
}

// forget removes identities. One that is not known is an error, after the others were removed.
func forget(ctx context.Context, from recordKeeper, ids []string) error {
	var unknown []error
	for _, id := range ids {
		switch err := from.forget(ctx, id); {
		case errors.Is(err, telemetry.ErrUnknown):
			unknown = append(unknown, fmt.Errorf("%q: %w", id, telemetry.ErrUnknown))
		case err != nil:
			return &exitError{exitUnreadable, err}
		}
	}
	if len(unknown) > 0 {
		return failed("%w; bridge ledger list has the ids", errors.Join(unknown...))
	}
	return nil
}

// writeObjects writes each of the list as one JSON object with a line break after it.
func writeObjects(w io.Writer, list []any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	for _, v := range list {
		if err := e.Encode(v); err != nil {
			return &exitError{exitUnreadable, fmt.Errorf("write the export: %w", err)}
		}
	}
	return nil
}
