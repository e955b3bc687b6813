package main

import (
	"context"
	"encoding/json"
	"log/slog"
	"strings"

	bridge "github.com/mcp-dualstack/bridge"
	"github.com/mcp-dualstack/bridge/upstream"
)

// A finding is what the start-up probe found out about the server.
type finding struct {
	verdict upstream.Verdict
	err     error
}

// probe asks the server in the background what it speaks, so that a server that cannot start is reported
// before the first client comes. A verdict is logged by the upstream itself. The probe ends by itself when the bridge
// is closed.
func probe(b *bridge.Bridge, up upstream.Connector, log *slog.Logger) <-chan finding {
	found := make(chan finding, 1)
	go func() {
		v, err := examine(context.Background(), b, up)
		if err != nil {
			log.Error("the server behind the bridge does not answer", "err", err)
		}
		found <- finding{v, err}
	}()
	return found
}

// examine returns the verdict. A server of the session era is greeted too: to the probe it may have said
// nothing but its end, and it tells its name in the handshake only.
func examine(ctx context.Context, b *bridge.Bridge, up upstream.Connector) (upstream.Verdict, error) {
	v, err := up.Probe(ctx)
	if err != nil || v.Modern {
		return v, err
	}
	if err := b.Greet(ctx); err != nil {
		return v, err
	}
	return up.Probe(ctx)
}

// serverName returns what the server calls itself, "" if it did not say.
func serverName(v upstream.Verdict) string {
	var info struct{ Name, Version string }
	if json.Unmarshal(v.Server.Info, &info) != nil {
		return ""
	}
	return strings.TrimSpace(printable(info.Name) + " " + printable(info.Version))
}

// printable removes what could upset a terminal.
func printable(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || 0x80 <= r && r < 0xa0 {
			return -1
		}
		return r
	}, s)
	const longest = 64
	if r := []rune(s); len(r) > longest {
		return string(r[:longest])
	}
	return s
}

// eras says which eras v covers, in words.
func eras(v upstream.Verdict) string {
	switch {
	case v.Modern && v.Legacy:
		return "both eras"
	case v.Modern:
		return "the stateless era only"
	case v.Legacy:
		return "the session era only"
	}
	return "no known revision"
}
