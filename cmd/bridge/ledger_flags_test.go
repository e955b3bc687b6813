package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/mcp-dualstack/bridge/telemetry"
)

func TestLedgerSettings(t *testing.T) {
	isolate(t)
	c, err := parse(t)
	if err != nil {
		t.Fatal(err)
	}
	want := telemetry.Options{
		Privacy: telemetry.PrivacyPrefix, Retention: 400 * telemetry.Day, MaxIdentities: 10_000, MaxNewPerPrefix: 64, MaxClients: 10_000, MaxEvidence: 1_000,
	}
	if diff := cmp.Diff(want, c.bridge.Ledger, cmpopts.IgnoreUnexported(want)); diff != "" || c.bridge.Retirement.Readiness != nil {
		t.Errorf("by default, with policy %v, want -, got +:\n%s", c.bridge.Retirement.Readiness, diff)
	}
	t.Setenv("BRIDGE_LEDGER_EVIDENCE", "6")
	file := writeFile(t, "ledger_privacy: hash\nledger_retention: 150d\nledger_clients: 5\n")
	c, err = parse(t, "--config", file, "--ledger-identities=4", "--ledger-anonymous=3", "--ledger-new-per-prefix=2")
	if err != nil {
		t.Fatal(err)
	}
	want = telemetry.Options{
		Privacy: telemetry.PrivacyHash, Retention: 150 * telemetry.Day, MaxIdentities: 4, MaxAnonymous: 3, MaxNewPerPrefix: 2, MaxClients: 5, MaxEvidence: 6,
	}
	if diff := cmp.Diff(want, c.bridge.Ledger, cmpopts.IgnoreUnexported(want)); diff != "" {
		t.Errorf("want -, got +:\n%s", diff)
	}
}

func TestPolicySettings(t *testing.T) {
	const policy = "retirement:\n  quiet_period: 14d\n  max_identities: 3\n"
	tests := []struct {
		name, config, policy string // texts of files
		args                 []string
		quiet                telemetry.Period // zero: no policy
		problem              string           // part of the error
	}{
		{"none", "", "", nil, 0, ""},
		{"in the configuration", policy + "listen: 127.0.0.1:0\n", "", nil, 14 * telemetry.Day, ""},
		{"in a file of its own", "", policy, nil, 14 * telemetry.Day, ""},
		{"in both", policy, policy, nil, 0, "CONFIG:1; keep one"},
		{"unknown key", "listen: 127.0.0.1:0\nretirement:\n  quite_period: 1d\n", "", nil, 0, "CONFIG:2: retirement: retirement: yaml: unmarshal errors:"},
		{"impossible", "retirement: {cadence_factor: 99}\n", "", nil, 0, "cadence_factor: 99 is not between 1 and 10"},
		{"not a mapping", "retirement: soon\n", "", nil, 0, "CONFIG:1: retirement:"},
		{"a file without one", "", "listen: x\n", nil, 0, `there is no "retirement" in it`},
		{"waits longer than is kept", "retirement: {quiet_period: 90d}\n", "", []string{"--ledger-retention=200d"}, 0, "keep it for 360d"},
		{"keeps nothing for long", "", "", []string{"--ledger-retention=7d"}, 0, "Retention is 7d, which is not between 30d and 400d"},
		{"keeps for no time", "", "", []string{"--ledger-retention=soon"}, 0, `--ledger-retention: "soon" is no period`},
		{"privacy of no kind", "", "", []string{"--ledger-privacy=some"}, 0, `--ledger-privacy: "some" is none of full, prefix, hash, off`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			isolate(t)
			args := tt.args
			config := writeFile(t, tt.config)
			args = append(args, "--config", config)
			if tt.policy != "" {
				args = append(args, "--policy", writeFile(t, tt.policy))
			}
			c, err := parse(t, args...)
			if tt.problem != "" {
				if err == nil || !strings.Contains(strings.ReplaceAll(err.Error(), config, "CONFIG"), tt.problem) {
					t.Fatalf("got %v, want an error with %q", err, tt.problem)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var quiet telemetry.Period
			if p := c.bridge.Retirement.Readiness; p != nil {
				quiet = p.QuietPeriod
			}
			if quiet != tt.quiet {
				t.Errorf("got a quiet period of %v, want %v", quiet, tt.quiet)
			}
		})
	}
}
