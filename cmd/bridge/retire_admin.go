package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"

	"github.com/mcp-dualstack/bridge/retire"
	"github.com/mcp-dualstack/bridge/telemetry"
)

// maxAdminAnswer bounds an answer of the admin API, in bytes: a report of a full ledger has some 10 MB.
const maxAdminAnswer = 64 << 20

// An adminPlace is the admin API of a running bridge (package internal/admin has the shapes in openapi.json).
type adminPlace struct {
	base   *url.URL
	token  string
	client *http.Client
}

// newAdminPlace reads the token and asks nobody yet.
func newAdminPlace(base, tokenFile string) (place, error) {
	u, err := url.Parse(base)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return nil, misused("--admin: must be a URL such as http://127.0.0.1:8421")
	}
	p := &adminPlace{base: u, client: &http.Client{
		Timeout:   retireTimeout,
		Transport: &http.Transport{Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true},
		// Who redirects is not the bridge, and must not have the token.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	if tokenFile == "" {
		return p, nil
	}
	if u.Scheme == "http" && !isLoopback(u.Hostname()) {
		return nil, misused("--token-file: the token would be sent to %s unencrypted; use https", u.Host)
	}
	text, err := os.ReadFile(tokenFile) // #nosec G304 -- the file that a flag names
	if err != nil {
		return nil, misused("--token-file: %w", err)
	}
	if p.token = strings.TrimSpace(string(text)); p.token == "" || strings.ContainsFunc(p.token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return nil, misused("--token-file: %s has no token in it, which is one word", tokenFile)
	}
	return p, nil
}

func (p *adminPlace) name() string { return p.base.String() }
func (p *adminPlace) close() error { return nil }

// A stageAnswer is what GET /admin/stage and every change answer.
type stageAnswer struct {
	State  *retire.State `json:"state"`
	Damage string        `json:"damage,omitempty"`
}

// A changeBody is the body of PUT /admin/stage and POST /admin/undo.
type changeBody struct {
	Version int64         `json:"version"`
	State   *retire.State `json:"state,omitempty"`
	Reason  string        `json:"reason,omitempty"`
	Force   bool          `json:"force,omitempty"`
	Digest  string        `json:"digest,omitempty"`
}

func (p *adminPlace) state(ctx context.Context) (*retire.State, string, error) {
	var a stageAnswer
	if err := p.call(ctx, http.MethodGet, "/admin/stage", nil, &a); err != nil {
		return nil, "", err
	}
	s, err := a.checked()
	return s, oneLine(a.Damage), err
}

func (p *adminPlace) set(ctx context.Context, c retire.Change) (*retire.State, error) {
	return p.change(ctx, http.MethodPut, "/admin/stage", changeBody{c.Version, &c.State, c.Reason, c.Force, c.Digest})
}

func (p *adminPlace) undo(ctx context.Context, c retire.Change) (*retire.State, error) {
	return p.change(ctx, http.MethodPost, "/admin/undo", changeBody{Version: c.Version, Reason: c.Reason, Force: c.Force})
}

func (p *adminPlace) change(ctx context.Context, method, path string, w changeBody) (*retire.State, error) {
	if w.Force && w.Reason == "" {
		return nil, retire.ErrNoReason
	}
	var a stageAnswer
	if err := p.call(ctx, method, path, w, &a); err != nil {
		return nil, err
	}
	return a.checked()
}

// checked returns a state that can be shown: what a bridge sends is checked already, and who else answers is not.
func (a *stageAnswer) checked() (*retire.State, error) {
	if a.State == nil {
		return nil, &unreachableError{errors.New("the answer has no state; is it a bridge?")}
	}
	if err := a.State.Check(); err != nil {
		return nil, &unreachableError{fmt.Errorf("the state in the answer cannot be: %w", err)}
	}
	return a.State, nil
}

// A historyAnswer is what GET /admin/history answers; the verification is there if it was asked for.
type historyAnswer struct {
	Records      []retire.Record      `json:"records"`
	Verification *retire.Verification `json:"verification"`
}

func (p *adminPlace) history(ctx context.Context) ([]retire.Record, error) {
	var a historyAnswer
	err := p.call(ctx, http.MethodGet, "/admin/history", nil, &a)
	for _, r := range a.Records {
		if r.State == nil || r.State.Check() != nil {
			return nil, &unreachableError{fmt.Errorf("the record of version %d in the answer has no state that can be", r.Version)}
		}
	}
	return a.Records, err
}

func (p *adminPlace) verify(ctx context.Context) (*retire.Verification, error) {
	var a historyAnswer
	if err := p.call(ctx, http.MethodGet, "/admin/history?verify=true", nil, &a); err != nil {
		return nil, err
	}
	if a.Verification == nil {
		return nil, &unreachableError{errors.New("this bridge does not verify its log over the admin API; run the command with --state where its files are")}
	}
	return a.Verification, nil
}

func (p *adminPlace) report(ctx context.Context, target retire.Stage, simulate telemetry.Period) (telemetry.Report, error) {
	q := url.Values{"stage": {string(target)}}
	if simulate > 0 {
		q.Set("simulate", simulate.String())
	}
	var r telemetry.Report
	err := p.call(ctx, http.MethodGet, "/admin/report?"+q.Encode(), nil, &r)
	if err == nil && r.Target != string(target) {
		err = &unreachableError{fmt.Errorf("the report is about %q and not about %s", printable(r.Target), target)}
	}
	return r, err
}

// call makes one request and decodes the answer into out; nil: there is none but that it was done (204).
func (p *adminPlace) call(ctx context.Context, method, path string, in, out any) error {
	var body io.Reader
	if in != nil {
		text, err := json.Marshal(in)
		if err != nil {
			return err
		}
		body = bytes.NewReader(text)
	}
	r, err := http.NewRequestWithContext(ctx, method, strings.TrimSuffix(p.base.String(), "/")+path, body)
	if err != nil {
		return err
	}
	r.Header.Set("Accept", "application/json")
	if in != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	if p.token != "" {
		r.Header.Set("Authorization", "Bearer "+p.token)
	}
	resp, err := p.client.Do(r)
	if err != nil {
		return &unreachableError{fmt.Errorf("%w; is bridge serve running, with its admin listener there?", err)}
	}
	defer func() { _ = resp.Body.Close() }() // it was only read
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAdminAnswer+1))
	switch {
	case err != nil:
		return &unreachableError{err}
	case len(text) > maxAdminAnswer:
		return &unreachableError{fmt.Errorf("the answer of %s is over %d bytes", r.URL, maxAdminAnswer)}
	case out == nil && resp.StatusCode == http.StatusNoContent:
		return nil
	case out == nil || resp.StatusCode != http.StatusOK:
		return refusedBy(resp, text)
	}
	if err := json.Unmarshal(text, out); err != nil {
		return &unreachableError{fmt.Errorf("the answer of %s: %w", r.URL, err)}
	}
	return nil
}

// refusedBy makes an error of an answer that is one: {"error", "code"}.
func refusedBy(resp *http.Response, text []byte) error {
	var p struct{ Error, Code string }
	if json.Unmarshal(text, &p) != nil || p.Error == "" {
		p.Error = resp.Status
	}
	p.Error = oneLine(p.Error)
	for code, err := range map[string]error{
		"stale": retire.ErrStale, "not_ready": retire.ErrNotReady, "nothing_to_undo": retire.ErrNothingToUndo,
		"invalid": retire.ErrInvalid, "locked": retire.ErrLocked,
		"not_found": telemetry.ErrUnknown,
	} {
		if p.Code == code {
			return &answeredError{err, p.Error}
		}
	}
	switch resp.StatusCode {
	case http.StatusUnauthorized, http.StatusForbidden:
		return &unreachableError{fmt.Errorf("%s; give the admin token with --token-file", p.Error)}
	case http.StatusConflict:
		return errors.New(p.Error)
	}
	return &unreachableError{fmt.Errorf("%s: %s", resp.Request.URL, p.Error)}
}

// An answeredError is an error of package retire with the words of the bridge that said so.
type answeredError struct {
	is   error
	text string
}

func (e *answeredError) Error() string { return e.text }
func (e *answeredError) Unwrap() error { return e.is }
