package main

import (
	"strconv"

	"github.com/spf13/pflag"

	bridge "github.com/mcp-dualstack/bridge"
	"github.com/mcp-dualstack/bridge/retire"
)

// addStageSettings adds the flags of what clients see while the HTTP+SSE routes are retired. The stage itself is none: bridge retire
// sets it.
func addStageSettings(fs *pflag.FlagSet) {
	fs.String("retire-docs", "", "URL of your migration guide, named to HTTP+SSE clients while they are retired")
	fs.String("retire-policy", "", "URL of the policy behind the sunset date")
	fs.String("retire-same-url", "on", "serve Streamable HTTP on the SSE path, in every stage: on or off")
	fs.Bool("retire-redirect", false, "at gone, answer POST on the SSE path with 308 to the MCP path; needs --retire-same-url off")
	fs.Int("retire-tombstones", bridge.DefaultMaxTombstones, "streams at once that only tell clients where to go")
	fs.Duration("retire-drain-timeout", bridge.DefaultDrainTimeout, "longest time of an HTTP+SSE session in the stage drain")
	fs.Duration("retire-drain-spread", bridge.DefaultDrainSpread, "time over which the ends of HTTP+SSE sessions are spread")
	fs.String("retire-guard-clients", strconv.Itoa(retire.DefaultMaxRefused), "clients that a brownout may refuse before it is ended early; off: any number")
	fs.Bool("retire-warning", false, "write a Warning header on HTTP+SSE responses too, from announce on")
	fs.Bool("retire-instructions", false, "append the notice to the server's instructions, which models read, from warn on")
}

// retirement returns the options of the retirement.
func (s *source) retirement() bridge.RetirementOptions {
	return bridge.RetirementOptions{
		Docs:          s.text("retire_docs"),
		Policy:        s.text("retire_policy"),
		SameURLOff:    s.oneOf("retire_same_url", "on", off) == off,
		GoneRedirect:  s.bool("retire_redirect"),
		MaxTombstones: s.number("retire_tombstones"),
		DrainTimeout:  s.duration("retire_drain_timeout"),
		DrainSpread:   s.duration("retire_drain_spread"),
		Guard:         retire.Guard{MaxRefused: s.guardClients()},
		WarningHeader: s.bool("retire_warning"),
		Instructions:  s.bool("retire_instructions"),
	}
}

// guardClients returns how many clients a brownout may refuse, negative for any number.
func (s *source) guardClients() int {
	if s.text("retire_guard_clients") == off {
		return -1
	}
	return s.number("retire_guard_clients")
}
