//go:build !nolegacy

package main

import (
	"testing"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/negotiate"
	"github.com/mcp-dualstack/bridge/upstream"
)

func TestScreenWithLegacy(t *testing.T) {
	for _, tt := range []screenTest{
		{"a legacy server, its arguments are not shown", []string{"/usr/bin/node", "--token=secret"}, nil,
			finding{verdict: upstream.Verdict{Legacy: true, Served: negotiate.Legacy, Server: exchange.Server{Info: []byte(`{"name":"every\u001bthing","version":"2"}`)}}}, true, `
bridge dev serves MCP in front of node (everything 2),
which speaks the session era only: 2025-11-25, 2025-06-18, 2025-03-26, 2024-11-05

  Streamable HTTP   http://127.0.0.1:8420/mcp   2025-11-25 to 2025-03-26 with sessions
  HTTP+SSE          http://127.0.0.1:8420/sse   2024-11-05; Streamable HTTP is served there too
  admin             off                         no dashboard, no /healthz, no /metrics
  who speaks what   in memory                   lost at the end; --state DIR keeps it

Try:

  curl -N http://127.0.0.1:8420/sse
` + curlHandshake + "\n"},
	} {
		t.Run(tt.name, tt.run)
	}
}
