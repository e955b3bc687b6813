package main

import (
	"errors"
	"net"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mcp-dualstack/bridge/negotiate"
	"github.com/mcp-dualstack/bridge/upstream"
)

// A screenTest is a screen and how it comes about.
type screenTest struct {
	name    string
	command []string
	args    []string
	finding finding
	known   bool
	want    string
}

const curlStateless = `
  curl http://127.0.0.1:8420/mcp -H 'Content-Type: application/json' \
    -H 'Accept: application/json, text/event-stream' \
    -H 'MCP-Protocol-Version: 2026-07-28' -H 'Mcp-Method: tools/list' -d '{"jsonrpc":"2.0",
    "id":1,"method":"tools/list","params":{"_meta":{
    "io.modelcontextprotocol/protocolVersion":"2026-07-28",
    "io.modelcontextprotocol/clientInfo":{"name":"curl","version":"8"},
    "io.modelcontextprotocol/clientCapabilities":{}}}}'
`
const curlHandshake = `
  curl http://127.0.0.1:8420/mcp -H 'Content-Type: application/json' \
    -H 'Accept: application/json, text/event-stream' -d '{"jsonrpc":"2.0","id":1,
    "method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},
    "clientInfo":{"name":"curl","version":"8"}}}'
`

func TestScreen(t *testing.T) {
	tests := []screenTest{
		{"legacy off, a stateless server", []string{"srv"}, []string{"--legacy=off"},
			finding{verdict: upstream.Verdict{Modern: true, Served: negotiate.Modern}}, true, `
bridge dev serves MCP in front of srv,
which speaks the stateless era only: 2026-07-28

  Streamable HTTP   http://127.0.0.1:8420/mcp   2026-07-28 stateless
  HTTP+SSE          off                         /sse answers as gone; Streamable HTTP is served there by POST
  admin             off                         no dashboard, no /healthz, no /metrics
  who speaks what   in memory                   lost at the end; --state DIR keeps it

Try:
` + curlStateless + "\n"},
		{"no answer", []string{"srv"}, []string{"--legacy=off"}, finding{err: errors.New("it ended")}, true, `
bridge dev serves MCP in front of srv, which does not answer (see the log)

  Streamable HTTP   http://127.0.0.1:8420/mcp   2026-07-28 stateless; 2025-11-25 to 2025-03-26 with sessions
  HTTP+SSE          off                         /sse answers as gone; Streamable HTTP is served there by POST
  admin             off                         no dashboard, no /healthz, no /metrics
  who speaks what   in memory                   lost at the end; --state DIR keeps it

Try:
` + curlHandshake + curlStateless + "\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, tt.run)
	}
}

func (tt screenTest) run(t *testing.T) {
	isolate(t)
	c, err := parse(t, append(tt.args, "--admin=off", "--state=off")...)
	if err != nil {
		t.Fatal(err)
	}
	c.command = tt.command
	listen := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 8420}
	got := screen{c: c, listen: listen}.text(tt.finding, tt.known)
	if diff := cmp.Diff(tt.want, got); diff != "" {
		t.Errorf("want -, got +:\n%s", diff)
	}
}
