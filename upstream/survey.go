package upstream

import (
	"context"
	"errors"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
	"github.com/mcp-dualstack/bridge/negotiate"
)

// A Survey is everything that can be found out about a server without calling anything of it.
type Survey struct {
	Verdict                 // Server is of the newest revision
	Revisions negotiate.Set // that the server itself speaks
}

// Examine finds out what the server behind c speaks: its eras by a probe, the revisions of the handshake era
// by a handshake with each. The error is that of Probe, or of the first handshake where the server
// speaks nothing else.
func Examine(ctx context.Context, c Connector) (Survey, error) {
	v, err := c.Probe(ctx)
	if err != nil {
		return Survey{}, err
	}
	s := Survey{Verdict: v, Revisions: negotiate.ReadSet(jsonrpc.Get(v.Server.Discover, "supportedVersions")) & negotiate.Modern}
	if !v.Legacy {
		return s, nil
	}
	for _, r := range []negotiate.Revision{negotiate.Rev20251125, negotiate.Rev20250618, negotiate.Rev20250326, negotiate.Rev20241105} {
		server, err := greet(ctx, c, r)
		switch {
		case err == nil:
			s.Revisions |= negotiate.SetOf(server.Revision)
			if s.Server.Initialize == nil && !v.Modern {
				s.Server = server
			}
		case fatal(err) && s.Revisions == 0:
			return Survey{}, err
		case ctx.Err() != nil:
			return Survey{}, context.Cause(ctx)
		}
	}
	switch {
	case s.Revisions == 0: // it refused every handshake, in words of its own
		return Survey{}, exchange.Fail(exchange.ReasonVersion, errors.New("initialize was refused for every revision"))
	case s.Revisions&negotiate.Legacy == 0: // it lists the revisions but does not know initialize
		s.Legacy, s.Served = false, negotiate.Modern
	}
	return s, nil
}

// fatal reports whether a handshake failed in a way that no other revision would change.
func fatal(err error) bool { return !refused(err) }

// greet shakes hands and takes leave.
func greet(ctx context.Context, c Connector, r negotiate.Revision) (exchange.Server, error) {
	sess, err := c.Open(ctx, exchange.Client{Revision: r, Requested: r.String(), Capabilities: []byte("{}")})
	if err != nil {
		return exchange.Server{}, err
	}
	return sess.Server(), sess.Close()
}
