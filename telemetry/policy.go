package telemetry

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/mcp-dualstack/bridge/exchange"
)

// A Period is a length of time as a policy has it: written 30d, 6h or 1d12h, in JSON and YAML alike.
type Period time.Duration

// Day is a Period of 24 hours.
const Day = Period(24 * time.Hour)

// ParsePeriod reads days (30d), everything time.ParseDuration reads, and days followed by that.
func ParsePeriod(s string) (Period, error) {
	days, rest, ok := strings.Cut(s, "d")
	if !ok {
		days, rest = "", s
	}
	var p Period
	if ok {
		n, err := strconv.ParseUint(days, 10, 16)
		if err != nil {
			return 0, fmt.Errorf("%q is no period such as 30d, 6h or 1d12h", s)
		}
		p = Period(n) * Day
	}
	if rest == "" && ok {
		return p, nil
	}
	d, err := time.ParseDuration(rest)
	if err != nil || d < 0 {
		return 0, fmt.Errorf("%q is no period such as 30d, 6h or 1d12h", s)
	}
	return p + Period(d), nil
}

// Duration returns p as package time has it.
func (p Period) Duration() time.Duration { return time.Duration(p) }

func (p Period) String() string {
	if p <= 0 {
		return "0s"
	}
	out := ""
	if days := p / Day; days > 0 {
		out = strconv.FormatInt(int64(days), 10) + "d"
	}
	if rest := time.Duration(p % Day); rest > 0 {
		s := rest.String()
		if strings.HasSuffix(s, "m0s") {
			s = strings.TrimSuffix(s, "0s")
		}
		if strings.HasSuffix(s, "h0m") {
			s = strings.TrimSuffix(s, "0m")
		}
		out += s
	}
	return out
}

// MarshalText writes p as String does.
func (p Period) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText reads what ParsePeriod reads.
func (p *Period) UnmarshalText(text []byte) error {
	v, err := ParsePeriod(string(text))
	if err == nil {
		*p = v
	}
	return err
}

// A Policy says when the routes of HTTP+SSE count as no longer needed (retirement.md 5). DefaultPolicy is the one to
// start from: the zero value tolerates nothing and asks for nothing.
type Policy struct {
	Surface string `json:"surface" yaml:"surface"` // http_sse, the only one there is

	QuietPeriod    Period `json:"quiet_period" yaml:"quiet_period"`               // no blocking legacy use for this long
	MinObservation Period `json:"min_observation" yaml:"min_observation"`         // who has watched for less has insufficient evidence
	MaxGap         Period `json:"max_observation_gap" yaml:"max_observation_gap"` // the longest time of not watching that does not void the claim

	// MaxTrafficShare is the share (0 to 1) of the calls in the window, and MaxIdentities the number of identities, that may be
	// legacy all the same. Both must hold.
	MaxTrafficShare float64 `json:"max_traffic_share" yaml:"max_traffic_share"`
	MaxIdentities   int     `json:"max_identities" yaml:"max_identities"`

	// CadenceFactor is by how much the silence of an identity must exceed the longest gap that is usual for it, before
	// silence means that it is gone.
	CadenceFactor float64 `json:"cadence_factor" yaml:"cadence_factor"`

	Ignore     []Class       `json:"ignore" yaml:"ignore"` // classes that never block
	Exemptions []Exemption   `json:"exemptions,omitempty" yaml:"exemptions"`
	Attested   []Attestation `json:"attested,omitempty" yaml:"attested"`
	Owners     []Owner       `json:"owners,omitempty" yaml:"owners"`
}

// An Exemption lets one identity use the legacy routes until a time.
type Exemption struct {
	ID     string    `json:"id" yaml:"id"` // of Identity, or NAME@PREFIX
	Until  time.Time `json:"until" yaml:"until"`
	Owner  string    `json:"owner,omitempty" yaml:"owner"`
	Reason string    `json:"reason,omitempty" yaml:"reason"`
}

// An Attestation is the operator's word on an identity: attested (it will manage), cannot (it is legacy only), or ignored
// (it never blocks).
type Attestation struct {
	ID     string `json:"id" yaml:"id"`
	Class  Class  `json:"class" yaml:"class"`
	Reason string `json:"reason" yaml:"reason"`
}

// An Owner says who answers for an identity. It comes from the operator only.
type Owner struct {
	ID      string `json:"id" yaml:"id"`
	Owner   string `json:"owner" yaml:"owner"`
	Contact string `json:"contact,omitempty" yaml:"contact"`
	Label   string `json:"label,omitempty" yaml:"label"` // shown instead of the identity's own
}

// DefaultPolicy returns the policy of retirement.md 5 without exemptions.
func DefaultPolicy() Policy {
	return Policy{
		Surface: exchange.HTTPSSE, QuietPeriod: 30 * Day, MinObservation: 45 * Day, MaxGap: Day / 4,
		CadenceFactor: 2, Ignore: []Class{ClassProbe},
	}
}

// Check reports everything that is wrong with p, joined.
func (p Policy) Check() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if p.Surface != exchange.HTTPSSE {
		bad("surface: %q is not %s, the only one that can be retired", p.Surface, exchange.HTTPSSE)
	}
	if p.QuietPeriod < Day || p.QuietPeriod > retentionDays*Day/2 {
		bad("quiet_period: %v is not between 1d and %dd", p.QuietPeriod, retentionDays/2)
	}
	if p.MinObservation < 0 || p.MinObservation > retentionDays*Day {
		bad("min_observation: %v is longer than the %dd that are kept", p.MinObservation, retentionDays)
	}
	if !(p.MaxTrafficShare >= 0 && p.MaxTrafficShare <= 1) { // nor NaN
		bad("max_traffic_share: %v is not between 0 and 1", p.MaxTrafficShare)
	}
	if p.MaxIdentities < 0 {
		bad("max_identities: must not be negative")
	}
	if !(p.CadenceFactor >= 1 && p.CadenceFactor <= 10) {
		bad("cadence_factor: %v is not between 1 and 10", p.CadenceFactor)
	}
	for _, c := range p.Ignore {
		if !c.known() {
			bad("ignore: %q is no class", c)
		}
	}
	for i, e := range p.Exemptions {
		if e.ID == "" || e.Until.IsZero() {
			bad("exemptions[%d]: id and until must be set", i)
		}
	}
	for i, a := range p.Attested {
		if a.ID == "" || a.Reason == "" || a.Class != ClassAttested && a.Class != ClassCannot && a.Class != ClassIgnored {
			bad("attested[%d]: id and reason must be set, and class be attested, cannot or ignored", i)
		}
	}
	for i, o := range p.Owners {
		if o.ID == "" {
			bad("owners[%d]: id must be set", i)
		}
	}
	return errors.Join(errs...)
}

// retentionDays is for how many days the days of an identity are kept, and the width of its bitmap.
const retentionDays = 400
