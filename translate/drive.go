package translate

import (
	"context"
	"sync"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
	"github.com/mcp-dualstack/bridge/negotiate"
)

// A drive is the conversation of a handshake-era client with a modern server (translation.md 7.4). What makes
// up a session in the client's eyes is here; the server gets requests that each say everything. Questions of the
// server's come as results, and drive puts them to the client and calls again until there is a final one.
type drive struct {
	h      *handler
	up     exchange.Session
	client exchange.Client
	server exchange.Server
	pay    *payload
	caps   declared
	info   []byte // the client's Implementation, nil if it gave none that is valid
	sent   []byte // its capabilities as the server is told them
	watch  *watch // of the changes the client is told about

	ctx    context.Context // ends with Close
	cancel context.CancelCauseFunc

	mu     sync.Mutex
	level  string // of log messages, empty before the first logging/setLevel
	closed bool
}

func newDrive(h *handler, c exchange.Client, s exchange.Session) *drive {
	d := &drive{h: h, up: s, client: c}
	d.server = asHandshake(s.Server(), h.o.Info)
	d.pay = h.payload(c.Revision, s.Server().Revision)
	d.sent = modernCapabilities(c.Capabilities, c.Revision)
	d.caps = readDeclared(d.sent)
	if isImplementation(c.Info) {
		d.info = c.Info
	}
	d.ctx, d.cancel = context.WithCancelCause(context.Background())
	d.watch = h.watches.join(d)
	return d
}

func isImplementation(raw []byte) bool {
	_, name := jsonrpc.String(jsonrpc.Get(raw, "name"))
	_, version := jsonrpc.String(jsonrpc.Get(raw, "version"))
	return name && version
}

// Server says who answers, as a handshake would have told it.
func (d *drive) Server() exchange.Server { return d.server }

// Done is that of the session below.
func (d *drive) Done() <-chan struct{} { return d.up.Done() }

// Notify drops the note: 2026-07-28 has none from the client that could travel without a request
// (translation.md 6.1 to 6.4, LM).
func (d *drive) Notify(context.Context, exchange.Request) error {
	if d.ctx.Err() != nil {
		return context.Cause(d.ctx)
	}
	return nil
}

// Close ends what is in flight and lets go of the server. It waits for the subscriptions that were there for this
// client only.
func (d *drive) Close() error {
	d.mu.Lock()
	again := d.closed
	d.closed = true
	d.mu.Unlock()
	if again {
		return nil
	}
	d.cancel(errClosed)
	d.h.watches.leave(d)
	return d.up.Close()
}

var errClosed error = exchange.Fail(exchange.ReasonClosed, nil)

// Call answers what belongs to the session and asks the server the rest (translation.md 6, LM).
func (d *drive) Call(ctx context.Context, req exchange.Request, back exchange.Peer) (exchange.Response, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(d.ctx, func() { cancel(context.Cause(d.ctx)) })()
	if d.ctx.Err() != nil {
		return exchange.Response{}, context.Cause(d.ctx)
	}
	switch req.Method {
	case "ping":
		return exchange.Response{Result: []byte("{}")}, nil
	case methodSetLevel:
		return d.setLevel(req.Params), nil
	case "resources/subscribe":
		return d.subscribe(ctx, req.Params)
	case "resources/unsubscribe":
		return d.unsubscribe(req.Params), nil
	case "initialize", "server/discover", "subscriptions/listen": // 6.1, 6.4
		return exchange.Response{Error: negotiate.Refused(jsonrpc.CodeMethodNotFound, negotiate.ReasonUnknownMethod,
			"Method not found: %s", req.Method)}, nil
	}
	if isTaskMethod(req.Method) {
		return exchange.Response{Error: notBridged(req.Method)}, nil
	}
	return newTrip(d, req, back).run(ctx)
}

// setLevel is logging/setLevel (translation.md 6.5): the level travels with every later request.
func (d *drive) setLevel(params []byte) exchange.Response {
	if e := refusedLevel(d.server.Capabilities, params); e != nil {
		return exchange.Response{Error: e}
	}
	level, _ := jsonrpc.String(jsonrpc.Get(params, "level"))
	d.mu.Lock()
	d.level = level
	d.mu.Unlock()
	return exchange.Response{Result: []byte("{}")}
}

// refusedLevel returns the error of a logging/setLevel that no server of these ServerCapabilities can obey, nil if it may
// (translation.md 6.5).
func refusedLevel(caps, params []byte) *exchange.Error {
	if jsonrpc.IsNull(jsonrpc.Get(caps, "logging")) {
		return negotiate.Refused(jsonrpc.CodeMethodNotFound, negotiate.ReasonUnknownMethod,
			"Method not found: the server does not send log messages")
	}
	if level, _ := jsonrpc.String(jsonrpc.Get(params, "level")); !negotiate.ValidLogLevel(level) {
		return negotiate.Refused(jsonrpc.CodeInvalidParams, negotiate.ReasonLogLevel,
			"Invalid params: level is none of debug, info, notice, warning, error, critical, alert, emergency")
	}
	return nil
}

// subscribe is resources/subscribe (translation.md 6.4): it is answered when the server has acknowledged the URI.
func (d *drive) subscribe(ctx context.Context, params []byte) (exchange.Response, error) {
	uri, ok := jsonrpc.String(jsonrpc.Get(params, "uri"))
	if !ok {
		return exchange.Response{Error: negotiate.Refused(jsonrpc.CodeInvalidParams, negotiate.ReasonMalformedRequest, "Invalid params: uri must be a string")}, nil
	}
	if string(jsonrpc.Get(d.server.Capabilities, "resources", "subscribe")) != "true" {
		return exchange.Response{Error: notSubscribable}, nil
	}
	wanted, e := d.watch.add(d, uri)
	if e != nil {
		return exchange.Response{Error: e}, nil
	}
	select {
	case <-wanted.settled:
	case <-ctx.Done():
		d.watch.remove(d, uri)
		return exchange.Response{}, context.Cause(ctx)
	}
	switch {
	case wanted.err != nil:
		return exchange.Response{}, wanted.err
	case wanted.refusal != nil:
		return exchange.Response{Error: wanted.refusal}, nil
	}
	return exchange.Response{Result: []byte("{}")}, nil
}

// unsubscribe is resources/unsubscribe. One that was not subscribed to is no error.
func (d *drive) unsubscribe(params []byte) exchange.Response {
	if uri, ok := jsonrpc.String(jsonrpc.Get(params, "uri")); ok {
		d.watch.remove(d, uri)
	}
	return exchange.Response{Result: []byte("{}")}
}

// envelope returns the client's params as a request of 2026-07-28.
func (d *drive) envelope(params []byte) []byte {
	d.mu.Lock()
	level := d.level
	d.mu.Unlock()
	return negotiate.WithEnvelope(params, negotiate.Envelope{
		Version: d.pay.server, Info: d.info, Capabilities: d.sent, LogLevel: level,
	})
}
