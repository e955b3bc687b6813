package upstream

import (
	"context"
	"errors"
	"time"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
	"github.com/mcp-dualstack/bridge/negotiate"
)

// A Verdict says which eras the server speaks.
type Verdict struct {
	Modern bool          // requests of 2026-07-28 without a handshake
	Legacy bool          // the initialize handshake
	Served negotiate.Set // what clients may speak: the revisions of those eras

	Transport string // how the server is reached: "stdio", "pipe", "http_sse" or "streamable_http"

	// Server is what is known of the server: of a modern one its discover result, of a legacy one what it
	// answered to the last handshake, empty before the first.
	Server exchange.Server

	ended bool // the server ended at the probe, which is all that the verdict rests on
}

// A flight is a probe or restart that is under way; everybody who needs its outcome waits for the same.
type flight struct {
	done    chan struct{} // closed when the rest is set
	verdict Verdict
	shared  *conn // when the verdict is modern
	err     error
}

// Probe finds out which eras the server speaks, or says it if that is known. The error is a *Failure
// (upstream_unavailable when the server cannot be started or ends, upstream_busy, session_closed) or
// the cause of ctx; a probe that others wait for goes on.
func (u *Upstream) Probe(ctx context.Context) (Verdict, error) {
	v, _, err := u.resolve(ctx, false)
	if err == nil {
		err = u.verify(ctx, v)
	}
	if err != nil {
		return Verdict{}, err
	}
	if known := u.known(); known != nil {
		v = *known // a handshake shows who the server is
	}
	return v, nil
}

// verify makes sure that a server lives that only ended when it was probed: it may be of the handshake era, or not
// able to start at all.
func (u *Upstream) verify(ctx context.Context, v Verdict) error {
	u.mu.Lock()
	sure := !v.ended || u.proven
	u.mu.Unlock()
	if sure {
		return nil
	}
	return u.greet(ctx)
}

// resolve returns the verdict, and if shared is wanted and the server is modern, a connection for modern
// clients that was alive a moment ago.
func (u *Upstream) resolve(ctx context.Context, shared bool) (Verdict, *conn, error) {
	u.mu.Lock()
	if u.closed || u.fault != nil {
		u.mu.Unlock()
		if u.fault != nil {
			return Verdict{}, nil, u.fault
		}
		return Verdict{}, nil, exchange.Fail(exchange.ReasonClosed, nil)
	}
	if v := u.verdict; v != nil && (!shared || !v.Modern || u.shared != nil && u.shared.alive()) {
		c := u.shared
		u.mu.Unlock()
		return *v, c, nil
	}
	f := u.flight
	if f == nil {
		f = &flight{done: make(chan struct{})}
		u.flight = f
		u.wg.Go(func() { u.fly(f) }) // bounded by OpenTimeout and the pace
	}
	u.mu.Unlock()
	select {
	case <-f.done:
		return f.verdict, f.shared, f.err
	case <-ctx.Done():
		return Verdict{}, nil, context.Cause(ctx)
	}
}

// fly finds the verdict out and settles it.
func (u *Upstream) fly(f *flight) {
	known := u.known()
	var found finding
	var err error
	if known == nil && u.o.Era == "legacy" {
		found = finding{served: negotiate.Legacy, why: "the operator says so"}
	} else if err = u.pause(known); err == nil {
		ctx, stop := u.opening(u.ctx)
		found, err = u.examine(ctx, known)
		stop()
		if err != nil || found.served&negotiate.Modern != 0 {
			u.starts.note(err)
		}
	}
	u.mu.Lock()
	if err == nil {
		u.accept(found)
		f.verdict, f.shared = *u.verdict, u.shared
	}
	f.err = err
	u.flight = nil
	close(f.done)
	u.mu.Unlock()
	if err == nil {
		u.o.Logger.Info("upstream probed", "modern", f.verdict.Modern, "legacy", f.verdict.Legacy, "why", found.why)
	}
}

func (u *Upstream) known() *Verdict {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.verdict
}

// accept makes a finding the verdict. The caller holds mu.
func (u *Upstream) accept(f finding) {
	u.verdict = &Verdict{Server: f.server, Transport: u.kind, ended: f.ended}
	switch {
	case f.served.Has(negotiate.Rev20260728):
		u.shared = f.conn
	case f.conn != nil:
		u.spare = f.conn
	}
	u.setServed(f.served)
}

// setServed replaces the verdict by one with these revisions, all of an era or none. The caller holds mu.
func (u *Upstream) setServed(served negotiate.Set) {
	v := *u.verdict
	v.Served, v.Server.Served = served, served
	v.Modern, v.Legacy = served&negotiate.Modern != 0, served&negotiate.Legacy != 0
	u.verdict = &v
}

// A finding is what a probe found out.
type finding struct {
	served negotiate.Set
	server exchange.Server // of a modern server
	conn   *conn           // the probed connection if it can still be used
	ended  bool            // the server ended at the probe
	why    string          // for the log
}

// examine connects and asks server/discover (translation.md 4, Era probe). known is the verdict of a server
// that has gone and is started again: then silence says nothing.
func (u *Upstream) examine(ctx context.Context, known *Verdict) (finding, error) {
	c, err := u.connect(ctx)
	if err != nil {
		return finding{}, openError(ctx, err)
	}
	patience := u.o.ProbeTimeout
	mustAnswer := u.o.Era == "modern" || known != nil
	if mustAnswer {
		patience = u.o.OpenTimeout
	}
	cl, err := c.begin(ctx, methodDiscover, u.discoverParams())
	if err != nil {
		c.close()
		return finding{}, openError(ctx, err)
	}
	t := time.NewTimer(patience)
	defer t.Stop()
	select {
	case a := <-cl.answer:
		f, err := u.weigh(ctx, c, a, mustAnswer)
		if f.conn == nil {
			c.close()
		}
		return f, err
	case <-t.C:
		if !mustAnswer {
			u.watch(c, cl)
			return finding{served: negotiate.Legacy, why: "no answer"}, nil
		}
		c.close()
		return finding{}, errOpenTimeout
	case <-ctx.Done():
		c.close()
		return finding{}, context.Cause(ctx)
	}
}

const methodDiscover = "server/discover"

func (u *Upstream) discoverParams() []byte {
	return negotiate.WithEnvelope(nil, negotiate.Envelope{Version: negotiate.Rev20260728, Info: u.o.Info})
}

// weigh turns the outcome of a discover into a finding.
func (u *Upstream) weigh(ctx context.Context, c *conn, a outcome, mustBeModern bool) (finding, error) {
	if a.err != nil {
		f, _ := errors.AsType[*exchange.Failure](a.err)
		if mustBeModern || f == nil || f.Reason == exchange.ReasonClosed || f.Reason == exchange.ReasonAuth || f.Reason == exchange.ReasonBusy {
			return finding{}, openError(ctx, a.err)
		}
		if c.alive() { // an unreadable answer, or a status in place of one
			return finding{served: negotiate.Legacy, conn: c, why: "no usable answer"}, nil
		}
		return finding{served: negotiate.Legacy, ended: true, why: "ended at the probe"}, nil
	}
	f := u.sort(a.resp)
	if f.retry {
		resp, err := c.internal(ctx, methodDiscover, u.discoverParams())
		if err != nil {
			return finding{}, openError(ctx, err)
		}
		if f = u.sort(resp); f.retry {
			return finding{}, exchange.Fail(exchange.ReasonVersion, resp.Error)
		}
	}
	if u.o.Era == "modern" {
		if f.served&negotiate.Modern == 0 {
			return finding{}, exchange.Fail(exchange.ReasonVersion, errors.New("server/discover does not offer 2026-07-28"))
		}
		f.served = negotiate.Modern
		f.server.Served = f.served
	}
	f.conn = c
	if f.served&negotiate.Modern != 0 {
		c.become(negotiate.Rev20260728, nil)
	}
	return f.finding, nil
}

type sorted struct {
	finding
	retry bool // the server speaks 2026-07-28 but refused this request for its version
}

// sort applies the table of translation.md 4 to an answer.
func (u *Upstream) sort(resp exchange.Response) sorted {
	if e := resp.Error; e != nil {
		if e.Code != jsonrpc.CodeUnsupportedVersion {
			return sorted{finding: finding{served: negotiate.Legacy, why: "discover refused"}}
		}
		supported := negotiate.ReadSet(jsonrpc.Get(e.Data, "supported"))
		if supported&negotiate.Modern != 0 {
			return sorted{retry: true}
		}
		return sorted{finding: finding{served: negotiate.Legacy, why: "revision refused"}}
	}
	supported := negotiate.ReadSet(jsonrpc.Get(resp.Result, "supportedVersions"))
	if supported&negotiate.Modern == 0 {
		return sorted{finding: finding{served: negotiate.Legacy, why: "no modern revision offered"}}
	}
	f := finding{served: negotiate.Modern, server: readDiscover(resp.Result), why: "discover answered"}
	if supported&negotiate.Legacy != 0 {
		f.served = negotiate.All
	}
	return sorted{finding: f}
}

// readDiscover reads a DiscoverResult of 2026-07-28.
func readDiscover(result []byte) exchange.Server {
	return exchange.Server{
		Revision:     negotiate.Rev20260728,
		Info:         object(jsonrpc.Get(result, "_meta", negotiate.MetaServerInfo)),
		Capabilities: object(jsonrpc.Get(result, "capabilities")),
		Instructions: jsonrpc.Get(result, "instructions"),
		Discover:     result,
	}
}

// watch waits for a late answer to the probe, as slow starters give it. If it shows a modern server the
// verdict changes and the connection, on which nothing else has been said, is the shared one; if it
// refuses, the connection is the spare.
func (u *Upstream) watch(c *conn, cl *call) {
	u.spawn(func() { // ends with the connection at the latest
		t := time.NewTimer(u.o.OpenTimeout)
		defer t.Stop()
		select {
		case a := <-cl.answer:
			u.late(c, a)
		case <-t.C:
			c.close()
		}
	})
}

func (u *Upstream) late(c *conn, a outcome) {
	ctx, stop := u.opening(u.ctx)
	defer stop()
	f, err := u.weigh(ctx, c, a, false)
	u.mu.Lock()
	defer u.mu.Unlock()
	switch {
	case err != nil || f.conn == nil || u.closed || u.flight != nil || u.shared != nil || u.spare != nil:
		c.close()
	case f.served&negotiate.Modern != 0:
		u.accept(f)
	default:
		u.spare = c
	}
}
