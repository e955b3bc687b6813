package bridge

import (
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/mcp-dualstack/bridge/retire"
	"github.com/mcp-dualstack/bridge/telemetry"
)

// RetirementOptions say what clients of the HTTP+SSE routes are told and how their sessions end while the routes are
// retired (retirement.md 6). The stage itself is no option: it is in the state document. The zero value of each field is its default.
type RetirementOptions struct {
	Docs   string // absolute URL of the migration guide for users; empty: none
	Policy string // absolute URL of the policy behind the sunset date; empty: none

	// SameURLOff does not serve Streamable HTTP on the SSE path: POST there is answered with 405, and with 410 when the routes are
	// gone. Clients that try the new transport on the old URL do not find it then.
	SameURLOff bool
	// GoneRedirect answers POST on the SSE path with 308 to the MCP path when the routes are gone. It needs SameURLOff.
	GoneRedirect bool

	MaxTombstones int           // streams open at once on which every request is refused; over it GET is answered as at gone; zero: 256
	DrainTimeout  time.Duration // from the beginning of the stage drain until sessions that are still in use end; zero: 10 min
	DrainSpread   time.Duration // over which the ends of sessions are spread in drain and gone; zero: 30 s

	// Readiness is what the ledger's report must hold before a step past warn; nil: telemetry.DefaultPolicy. The exemptions of the
	// state document count beside its own.
	Readiness *telemetry.Policy

	// Guard ends a brownout window that does more harm than it was meant to. The zero value has the defaults of retire.Guard.
	Guard retire.Guard

	// PollOnly looks for changes of the state that other programs make every 2 s, and asks the file system for no notices: for one that
	// gives none, and for embedders that test in a testing/synctest bubble, where a wait for a notice stops the clock.
	PollOnly bool

	WarningHeader bool // writes Warning: 299 too, on every legacy response from announce on
	Instructions  bool // appends the notice to the server's instructions, which models read, from warn on
}

// Defaults of RetirementOptions.
const (
	DefaultMaxTombstones = 256
	DefaultDrainTimeout  = 10 * time.Minute
	DefaultDrainSpread   = 30 * time.Second
)

// check fills in the defaults and reports every problem, joined.
func (o *RetirementOptions) check() error {
	var errs []error
	for _, u := range []struct{ name, value string }{{"retirement docs", o.Docs}, {"retirement policy", o.Policy}} {
		if err := checkPage(u.value); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", u.name, err))
		}
	}
	if p := o.Readiness; p != nil {
		if err := p.Check(); err != nil {
			errs = append(errs, fmt.Errorf("readiness policy: %w", err))
		}
	}
	if o.GoneRedirect && !o.SameURLOff {
		errs = append(errs, errors.New("redirect at gone: Streamable HTTP is served on the SSE path, so there is nothing to redirect; switch that off or leave the redirect out"))
	}
	if o.MaxTombstones < 0 || o.DrainTimeout < 0 || o.DrainSpread < 0 {
		errs = append(errs, errors.New("max tombstones, drain timeout and drain spread: must not be negative"))
	}
	if o.MaxTombstones == 0 {
		o.MaxTombstones = DefaultMaxTombstones
	}
	if o.DrainTimeout == 0 {
		o.DrainTimeout = DefaultDrainTimeout
	}
	if o.DrainSpread == 0 {
		o.DrainSpread = DefaultDrainSpread
	}
	return errors.Join(errs...)
}

// maxPageURL bounds the URL of a page, in bytes: a refusal must have room for it beside the sentence and the successor.
const maxPageURL = 2048

// checkPage refuses what cannot stand in a Link header as the absolute URL of a page.
func checkPage(text string) error {
	if text == "" {
		return nil
	}
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return err
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil:
		return fmt.Errorf("%q is not an absolute URL such as https://example.com/migration", u.Redacted())
	case len(text) > maxPageURL:
		return fmt.Errorf("the URL has %d bytes, and at most %d are taken", len(text), maxPageURL)
	case u.String() != text:
		return fmt.Errorf("%q must be written as %q", text, u.String())
	}
	return nil
}

// checkLedger reports what is wrong with how the ledger is kept, and whether it forgets what the readiness policy is about: who is silent for
// twice as long as the policy waits for is still to be known.
func (s *settings) checkLedger() error {
	err := s.Ledger.Check()
	policy := telemetry.DefaultPolicy()
	if p := s.Retirement.Readiness; p != nil {
		policy = *p
	}
	wait := max(time.Duration(policy.CadenceFactor*float64(policy.QuietPeriod)), policy.MinObservation.Duration())
	least := min(telemetry.Period(2*wait), telemetry.DefaultRetention)
	if s.Ledger.Retention > 0 && s.Ledger.Retention < least {
		err = errors.Join(err, fmt.Errorf("ledger: what is kept for %v is too little for the readiness policy, which waits for up to %v; keep it for %v", s.Ledger.Retention, telemetry.Period(wait), least))
	}
	return err
}
