package main

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	bridge "github.com/mcp-dualstack/bridge"
	"github.com/mcp-dualstack/bridge/retire"
)

func TestStageSettings(t *testing.T) {
	isolate(t)
	defaults := bridge.RetirementOptions{MaxTombstones: 256, DrainTimeout: 10 * time.Minute, DrainSpread: 30 * time.Second, Guard: retire.Guard{MaxRefused: 25}}
	for _, c := range []struct {
		name    string
		args    []string
		file    string
		want    bridge.RetirementOptions
		problem string
	}{
		{name: "defaults", want: defaults},
		{
			name: "all",
			args: []string{"--retire-docs", "https://example.com/m", "--retire-same-url", "off", "--retire-redirect", "--retire-tombstones", "7", "--retire-guard-clients", "off"},
			file: "retire_policy: https://example.com/p\nretire_drain_timeout: 1h\nretire_drain_spread: 2m\nretire_warning: true\nretire_instructions: true\n",
			want: bridge.RetirementOptions{
				Docs: "https://example.com/m", Policy: "https://example.com/p", SameURLOff: true, GoneRedirect: true, MaxTombstones: 7,
				DrainTimeout: time.Hour, DrainSpread: 2 * time.Minute, WarningHeader: true, Instructions: true, Guard: retire.Guard{MaxRefused: -1},
			},
		},
		{name: "a path for docs", args: []string{"--retire-docs", "/migrate"}, problem: `retirement docs: "/migrate" is not an absolute URL`},
		{name: "a secret in docs", args: []string{"--retire-docs", "https://me:hush@example.com/"}, problem: `retirement docs: "https://me:xxxxx@example.com/" is not an absolute URL`},
		{name: "redirect beside the same URL", args: []string{"--retire-redirect"}, problem: "redirect at gone: Streamable HTTP is served on the SSE path"},
		{name: "same URL maybe", args: []string{"--retire-same-url", "maybe"}, problem: `--retire-same-url: "maybe" is none of on, off`},
		{name: "a guard of nobody", args: []string{"--retire-guard-clients", "0"}, problem: `--retire-guard-clients: "0" is not a whole number`},
		{name: "no tombstones", args: []string{"--retire-tombstones", "0"}, problem: `--retire-tombstones: "0" is not a whole number`},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg, err := parse(t, append([]string{"--config", writeFile(t, c.file)}, c.args...)...)
			if c.problem != "" {
				if err == nil || !strings.Contains(err.Error(), c.problem) || strings.Contains(err.Error(), "hush") {
					t.Fatalf("got %v, want %q", err, c.problem)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, cfg.bridge.Retirement); diff != "" {
				t.Errorf("want -, got +:\n%s", diff)
			}
		})
	}
}
