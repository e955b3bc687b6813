package upstream

import (
	"context"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
	"github.com/mcp-dualstack/bridge/negotiate"
)

// revised makes a call once more that the server refused for its revision, which proves that it did not
// run (translation.md 4, Modern upstream). The server is asked anew what it speaks; if that is not 2026-07-28 any more
// the verdict changes and the call fails with upstream_version.
func (u *Upstream) revised(ctx context.Context, c *conn, req exchange.Request, back exchange.Peer, refusal *exchange.Error) (exchange.Response, error) {
	found, err := u.again(ctx, c, refusal)
	if err != nil {
		return exchange.Response{}, err
	}
	if found.served&negotiate.Modern == 0 {
		u.reclassify(c)
		return exchange.Response{}, exchange.Fail(exchange.ReasonVersion, refusal)
	}
	req.Sent = nil // it has been called
	resp, err := c.call(ctx, req, back)
	if err == nil && wrongVersion(resp) {
		return exchange.Response{}, exchange.Fail(exchange.ReasonVersion, resp.Error)
	}
	return resp, err
}

func wrongVersion(resp exchange.Response) bool {
	return resp.Error != nil && resp.Error.Code == jsonrpc.CodeUnsupportedVersion
}

// again asks server/discover on a connection that is in use. A refusal that names what is supported needs no asking.
func (u *Upstream) again(ctx context.Context, c *conn, refusal *exchange.Error) (finding, error) {
	if s := u.sort(exchange.Response{Error: refusal}); !s.retry && negotiate.ReadSet(jsonrpc.Get(refusal.Data, "supported")) != 0 {
		return s.finding, nil
	}
	ctx, stop := u.opening(ctx)
	defer stop()
	resp, err := c.internal(ctx, methodDiscover, u.discoverParams())
	if err != nil {
		return finding{}, err
	}
	s := u.sort(resp)
	if s.retry {
		return finding{}, exchange.Fail(exchange.ReasonVersion, resp.Error)
	}
	return s.finding, nil
}

// reclassify makes the server one of the handshake era, which it has turned out to be.
func (u *Upstream) reclassify(c *conn) {
	u.mu.Lock()
	if u.verdict != nil && u.verdict.Modern {
		u.verdict = &Verdict{Transport: u.kind}
		u.setServed(negotiate.Legacy)
	}
	if u.shared == c {
		u.shared = nil
	}
	u.mu.Unlock()
	u.o.Logger.Warn("upstream does not speak 2026-07-28 any more")
	c.close() // eras are never mixed on a connection
}
