package main

import (
	"net"
	"strings"
	"testing"

	bridge "github.com/mcp-dualstack/bridge"
	"github.com/mcp-dualstack/bridge/retire"
)

// The screen tells what the HTTP+SSE routes are now, not only what was configured.
func TestScreenShowsTheStage(t *testing.T) {
	for _, c := range []struct {
		name  string
		o     bridge.Options
		stage retire.Stage
		want  string // the row, its blanks squeezed
		tries bool
	}{
		{"open", bridge.Options{}, retire.Open, "HTTP+SSE http://127.0.0.1:8420/sse 2024-11-05; Streamable HTTP is served there too", true},
		{"warn", bridge.Options{}, retire.Warn, "HTTP+SSE http://127.0.0.1:8420/sse 2024-11-05, stage warn (bridge retire show); Streamable HTTP is served there too", true},
		{"gone", bridge.Options{}, retire.Gone, "HTTP+SSE gone /sse answers as gone; Streamable HTTP is served there by POST", false},
		{"gone, same URL off", bridge.Options{Retirement: bridge.RetirementOptions{SameURLOff: true}}, retire.Gone, "HTTP+SSE gone /sse answers as gone", false},
		{"off, whatever the stage", bridge.Options{LegacyOff: true}, retire.Warn, "HTTP+SSE off /sse answers as gone; Streamable HTTP is served there by POST", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.o.SSEPath, c.o.MCPPath = "/sse", "/mcp"
			got := screen{c: &config{bridge: c.o}, listen: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 8420}, stage: c.stage}.text(finding{}, false)
			row := ""
			for line := range strings.Lines(got) {
				if words := strings.Fields(line); len(words) > 0 && words[0] == "HTTP+SSE" {
					row = strings.Join(words, " ")
				}
			}
			if row != c.want {
				t.Errorf("got %s, want %s", row, c.want)
			}
			if tries := strings.Contains(got, "curl -N"); tries != c.tries {
				t.Errorf("tells how to try it: got %v, want %v", tries, c.tries)
			}
		})
	}
}
