// Package translate makes a server of one era answer a client of another.
//
// Where both speak the same era the bytes pass untouched, except for what the client's own revision does not define
// (payload), and the Mcp-Param-* headers of stateless tool calls are checked against the schema that the tool was last
// served with. A handshake-era client in front of a modern server gets a drive, a modern client in front of a
// handshake-era server a suspension. The rules are translation.md.
package translate

import (
	"context"
	"log/slog"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/negotiate"
)

// Handler returns next as clients of every era it serves may use it. What Options.Check reports makes it panic.
func Handler(next exchange.Handler, o *Options) exchange.Handler {
	opts, err := o.withDefaults()
	if err != nil {
		panic("translate: " + err.Error())
	}
	h := &handler{next: next, o: opts, log: opts.Logger, schemas: newSchemas(opts), scopes: newScopes(opts.MaxLists)}
	h.watches.h, h.hubs.h = h, h
	if h.suspender, err = newSuspender(next, opts.Suspend, opts.Logger); err != nil {
		panic("translate: " + err.Error())
	}
	h.suspender.roots, h.suspender.observe = opts.Roots, opts.Observe
	return h
}

type handler struct {
	next    exchange.Handler
	o       Options // with defaults
	schemas *schemas
	scopes  *scopes
	watches watches
	hubs    hubs
	log     *slog.Logger // never nil

	suspender *suspender
}

// Close ends the calls that wait for their clients and the subscriptions of modern clients, and waits until the server
// has been told. It does not close the handler behind. It may be called more than once.
func (h *handler) Close() error {
	h.suspender.close()
	return nil
}

// payload returns the transforms for a client in front of a server.
func (h *handler) payload(client, server negotiate.Revision) *payload {
	return &payload{
		client: client, server: server, headers: h.o.UpstreamHTTP && server.Modern(), pooled: h.o.Pooled,
		cache: h.o.Cache, log: h.log,
	}
}

// Open opens next and returns what lets c use it: the session below where both speak one era, which a sameSession
// leaves as it is as far as c's revision defines what the server says, and a translation otherwise.
func (h *handler) Open(ctx context.Context, c exchange.Client) (exchange.Session, error) {
	if c.Revision.Modern() {
		return h.openModern(ctx, c)
	}
	below := c
	below.Back = h.payload(c.Revision, negotiate.None).standing(c)
	s, err := h.next.Open(ctx, below)
	if err != nil {
		return nil, err
	}
	if s.Server().Revision.Modern() {
		return newDrive(h, c, s), nil
	}
	return newSame(h, c, s), nil
}

// openModern opens next for a client of the per-request era.
func (h *handler) openModern(ctx context.Context, c exchange.Client) (exchange.Session, error) {
	below := c
	below.Capabilities = handshakeCapabilities(c.Capabilities)
	s, err := h.next.Open(ctx, below)
	if err != nil {
		return nil, err
	}
	if !s.Server().Revision.Modern() {
		return newSuspend(h, c, s)
	}
	return newModern(h, c, newWrap(h, c, s)), nil
}
