package main

import (
	"github.com/spf13/pflag"

	"github.com/mcp-dualstack/bridge/telemetry"
)

// addLedgerSettings adds the flags of what the ledger keeps, and of when it says that the HTTP+SSE routes can go.
func addLedgerSettings(fs *pflag.FlagSet) {
	fs.String("policy", "", `YAML file with the readiness policy under "retirement"; a file of --config may have that key itself`)
	fs.String("ledger-privacy", string(telemetry.PrivacyPrefix), "what is kept of a client's address: full, prefix, hash (of the prefix) or off")
	fs.String("ledger-retention", telemetry.DefaultRetention.String(), "time for which what was last seen is kept, such as 180d; 400d at most")
	fs.Int("ledger-identities", telemetry.DefaultMaxIdentities, "identities that are kept; further ones take the place of others")
	fs.Int("ledger-anonymous", 0, "of them that nobody has verified (0: half)")
	fs.Int("ledger-new-per-prefix", telemetry.DefaultMaxNewPerPrefix, "new unverified identities of one network on a day; further ones are counted together")
	fs.Int("ledger-clients", telemetry.DefaultMaxClients, "rows of client name, version, transport and revision")
	fs.Int("ledger-evidence", telemetry.DefaultMaxEvidence, "rows of what was seen that is no conversation")
}

// ledger returns how the ledger is kept.
func (s *source) ledger() telemetry.Options {
	return telemetry.Options{
		Privacy:         telemetry.Privacy(s.oneOf("ledger_privacy", string(telemetry.PrivacyFull), string(telemetry.PrivacyPrefix), string(telemetry.PrivacyHash), string(telemetry.PrivacyOff))),
		Retention:       s.period("ledger_retention"),
		MaxIdentities:   s.number("ledger_identities"),
		MaxAnonymous:    s.count("ledger_anonymous"),
		MaxNewPerPrefix: s.number("ledger_new_per_prefix"),
		MaxClients:      s.number("ledger_clients"),
		MaxEvidence:     s.number("ledger_evidence"),
	}
}

// period returns a time that may be in days.
func (s *source) period(key string) telemetry.Period {
	p, err := telemetry.ParsePeriod(s.text(key))
	if err != nil {
		s.problem(key, "%w", err)
	}
	return p
}

// readiness returns the policy of the readiness check: that of --policy, or the one in the configuration file; nil: the default.
func (s *source) readiness() *telemetry.Policy {
	file := s.text("policy")
	switch {
	case file != "" && s.policy != nil:
		s.problem("policy", "%s is in the configuration file too, at %s; keep one of them", policyKey, s.origin(policyKey))
	case file != "":
		p, err := readPolicy(file)
		if err != nil {
			s.problem("policy", "%w", err)
		}
		return p
	case s.policy != nil:
		p := telemetry.DefaultPolicy()
		if err := decodePolicy(s.policy, &p); err != nil {
			s.problem(policyKey, "%w", err)
		}
		return &p
	}
	return nil
}
