package upstream

import (
	"context"
	"errors"
	"fmt"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
	"github.com/mcp-dualstack/bridge/negotiate"
)

// openLegacy opens a session on a connection of its own, the probed one if it is left over.
func (u *Upstream) openLegacy(ctx context.Context, c exchange.Client) (exchange.Session, error) {
	ctx, stop := u.opening(ctx)
	defer stop()
	if spare := u.takeSpare(); spare != nil {
		sess, err := u.tryspare(ctx, spare, c)
		if err == nil || refused(err) || ctx.Err() != nil {
			return sess, err
		}
		u.o.Logger.Info("probed connection cannot be used for a session", "err", err)
	}
	conn, err := u.connect(withAuthorization(ctx, c))
	if err != nil {
		return nil, openError(ctx, err)
	}
	sess, err := u.handshake(ctx, conn, c)
	if err != nil {
		return nil, u.judge(openError(ctx, err), c.Revision)
	}
	return sess, nil
}

// opening bounds ctx by Options.OpenTimeout and the life of the upstream.
func (u *Upstream) opening(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithTimeoutCause(ctx, u.o.OpenTimeout, errOpenTimeout)
	ctx, end := context.WithCancelCause(ctx)
	stop := context.AfterFunc(u.ctx, func() { end(exchange.Fail(exchange.ReasonClosed, nil)) })
	return ctx, func() { stop(); end(nil); cancel() }
}

var errOpenTimeout error = &exchange.Failure{
	Reason:  exchange.ReasonUnavailable,
	Message: "the server behind the bridge was reached, but did not answer the handshake in time",
	Err:     errors.New("no answer during the handshake"),
}

// openError is the error of Open for one of a handshake: a server that ended meanwhile could not be started.
func openError(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if f, ok := errors.AsType[*exchange.Failure](err); ok && f.Reason == exchange.ReasonLost {
		return exchange.Fail(exchange.ReasonUnavailable, fmt.Errorf("ended during the handshake: %w", f.Err))
	}
	return err
}

// refused reports whether the server itself said no.
func refused(err error) bool {
	_, ok := errors.AsType[*exchange.Error](err)
	return ok
}

func (u *Upstream) takeSpare() *conn {
	u.mu.Lock()
	defer u.mu.Unlock()
	c := u.spare
	u.spare = nil
	if c == nil || !c.alive() {
		return nil
	}
	return c
}

// tryspare uses the connection that was probed. Some servers read nothing more after a request that they do
// not know, so it gets no more time than the probe had.
func (u *Upstream) tryspare(ctx context.Context, spare *conn, c exchange.Client) (exchange.Session, error) {
	ctx, cancel := context.WithTimeout(ctx, u.o.ProbeTimeout)
	defer cancel()
	return u.handshake(ctx, spare, c)
}

// judge draws conclusions from a handshake that failed. A verdict that rests on silence goes when the
// server does not start at all. A server that was thought to speak both eras and does not know
// initialize speaks one (translation.md 12).
func (u *Upstream) judge(err error, client negotiate.Revision) error {
	e, refused := errors.AsType[*exchange.Error](err)
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.verdict == nil || u.proven {
		return err
	}
	switch {
	case refused && u.verdict.Modern && (e.Code == jsonrpc.CodeMethodNotFound || e.Code == jsonrpc.CodeUnsupportedVersion):
		u.setServed(negotiate.Modern)
		return eraFailure(client, negotiate.Modern)
	case unavailable(err) && !u.verdict.Modern && u.o.Era != "legacy":
		u.verdict = nil
	}
	return err
}

func unavailable(err error) bool {
	f, ok := errors.AsType[*exchange.Failure](err)
	return ok && f.Reason == exchange.ReasonUnavailable
}

// handshake sends initialize with the client's own revision, capabilities and info (translation.md 4,
// Offer to a legacy upstream). The connection is closed when it fails.
func (u *Upstream) handshake(ctx context.Context, conn *conn, c exchange.Client) (exchange.Session, error) {
	conn.become(negotiate.None, c.Back)
	resp, err := conn.internal(ctx, "initialize", u.o.initializeParams(c))
	if err == nil && resp.Error != nil {
		err = resp.Error
	}
	var server exchange.Server
	if err == nil {
		server, err = readInitialized(resp.Result)
	}
	if err != nil {
		conn.close()
		return nil, err
	}
	server.Served = u.served(u.learn(server))
	conn.become(server.Revision, c.Back)
	u.o.Logger.Info("upstream session opened", "revision", server.Revision.String(), "offered", c.Revision.String())
	return &legacySession{c: conn, server: server}, nil
}

// initializeParams returns InitializeRequestParams of c's revision.
func (o *Options) initializeParams(c exchange.Client) []byte {
	capabilities, info := c.Capabilities, c.Info
	if capabilities == nil {
		capabilities = []byte("{}")
	}
	if info == nil {
		info = o.Info
	}
	params := jsonrpc.Set(nil, jsonrpc.Quote(c.Revision.String()), "protocolVersion")
	params = jsonrpc.Set(params, capabilities, "capabilities")
	return jsonrpc.Set(params, info, "clientInfo")
}

// readInitialized reads an InitializeResult. The error is upstream_invalid, or upstream_version for a
// protocolVersion that is no legacy revision.
func readInitialized(result []byte) (exchange.Server, error) {
	if !jsonrpc.IsObject(result) {
		return exchange.Server{}, exchange.Fail(exchange.ReasonInvalid, errors.New("initialize result is not an object"))
	}
	version, _ := jsonrpc.String(jsonrpc.Get(result, "protocolVersion"))
	r, _ := negotiate.Parse(version)
	if !negotiate.Legacy.Has(r) {
		return exchange.Server{}, exchange.Fail(exchange.ReasonVersion, fmt.Errorf("initialize answered with revision %.32q", version))
	}
	return exchange.Server{
		Revision:     r,
		Info:         object(jsonrpc.Get(result, "serverInfo")),
		Capabilities: object(jsonrpc.Get(result, "capabilities")),
		Instructions: jsonrpc.Get(result, "instructions"),
		Initialize:   result,
	}, nil
}

// object returns raw if it is an object, else nil.
func object(raw []byte) []byte {
	if !jsonrpc.IsObject(raw) {
		return nil
	}
	return raw
}

// learn notes that a handshake has succeeded and returns what clients may speak.
func (u *Upstream) learn(server exchange.Server) negotiate.Set {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.proven = true
	if u.verdict == nil {
		return negotiate.Legacy
	}
	if !u.verdict.Modern {
		server.Served = u.verdict.Served
		v := *u.verdict
		v.Server = server
		u.verdict = &v
	}
	return u.verdict.Served
}

// internal asks the server on the connector's own account. Such a call is not cancelled: when ctx ends
// before the answer, the call stays open for a late one.
func (c *conn) internal(ctx context.Context, method string, params []byte) (exchange.Response, error) {
	cl, err := c.begin(ctx, method, params)
	if err != nil {
		return exchange.Response{}, err
	}
	select {
	case a := <-cl.answer:
		return a.resp, a.err
	case <-ctx.Done():
		return exchange.Response{}, context.Cause(ctx)
	}
}

// begin sends an internal request.
func (c *conn) begin(ctx context.Context, method string, params []byte) (*call, error) {
	cl := &call{method: method, ctx: c.ctx, internal: true, answer: make(chan outcome, 1)}
	line, err := c.enter(cl, exchange.Request{Method: method, Params: params})
	if err != nil {
		return nil, err
	}
	if err := c.out.push(ctx, line); err != nil {
		_, err = c.unsent(cl, err)
		return nil, err
	}
	return cl, nil
}
