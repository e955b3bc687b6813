package main

import (
	"github.com/spf13/pflag"

	"github.com/mcp-dualstack/bridge/telemetry"
)

// addMetrics adds the flags of what metrics tell apart.
func addMetrics(fs *pflag.FlagSet) {
	fs.StringSlice("metrics-client", nil, "client name that metrics tell apart from the start (repeatable; others by their calls)")
	fs.String("metrics-upstream", "default", "name of the server in metrics, to tell several bridges apart")
}

// signals returns the options of metrics and traces.
func (s *source) signals() telemetry.SignalOptions {
	return telemetry.SignalOptions{ClientNames: s.list("metrics_client"), UpstreamName: s.text("metrics_upstream")}
}
