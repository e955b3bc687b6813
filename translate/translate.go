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
	"time"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/negotiate"
)

// Options configure a Handler. The zero value works.
type Options struct {
	MaxSchemas int           // tools whose annotations are remembered; zero: 4096
	UnknownFor time.Duration // how long a tool that no list named is not looked for again; zero: 30 s
	Logger     *slog.Logger  // nil: silent

	// Info is the raw Implementation object of the bridge. It names what the bridge asks of a modern server itself, and stands in
	// for the name and version of a server that gives none to clients whose handshake demands them. nil: the bridge's name.
	Info []byte

	// UpstreamHTTP says that a modern server is reached over HTTP. Tools whose x-mcp-header annotations break the
	// rules cannot be called there, and are left out of lists (translation.md 11); and each listen has a stream of its own, where
	// on one connection for all they are shared (hub).
	UpstreamHTTP bool

	// Subscriptions of handshake-era sessions with a modern server (translation.md 8.2): URIs of one session, and of all together.
	MaxSubscriptions int // zero: 256
	MaxListenURIs    int // zero: 4096

	// Suspend is about modern clients of a handshake-era server, and about the requestState the bridge seals. What
	// SuspendOptions.Check reports makes Handler panic.
	Suspend SuspendOptions
	// Wrap seals the requestState of a modern server, which binds it to its own caller, the bridge: set it when clients are
	// authenticated or several routes exist (translation.md 7.5).
	Wrap bool
}

const (
	defaultInfo             = `{"name":"mcp-dualstack-bridge","version":"0"}`
	defaultMaxSubscriptions = 256
	defaultMaxListenURIs    = 4096

	defaultMaxSchemas = 4096
	defaultUnknownFor = 30 * time.Second
)

// Handler returns next as clients of every era it serves may use it.
func Handler(next exchange.Handler, o *Options) exchange.Handler {
	var opts Options
	if o != nil {
		opts = *o
	}
	if opts.MaxSchemas == 0 {
		opts.MaxSchemas = defaultMaxSchemas
	}
	if opts.UnknownFor == 0 {
		opts.UnknownFor = defaultUnknownFor
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	if opts.Info == nil {
		opts.Info = []byte(defaultInfo)
	}
	if opts.MaxSubscriptions == 0 {
		opts.MaxSubscriptions = defaultMaxSubscriptions
	}
	if opts.MaxListenURIs == 0 {
		opts.MaxListenURIs = defaultMaxListenURIs
	}
	h := &handler{
		next: next, schemas: newSchemas(opts), log: opts.Logger, info: opts.Info, headers: opts.UpstreamHTTP,
		maxSubscriptions: opts.MaxSubscriptions, maxListenURIs: opts.MaxListenURIs,
	}
	h.watches.h, h.hubs.h = h, h
	var err error
	if h.suspender, err = newSuspender(next, opts.Suspend, opts.Logger); err != nil {
		panic("translate: " + err.Error())
	}
	h.wrap = opts.Wrap
	return h
}

type handler struct {
	next    exchange.Handler
	schemas *schemas
	watches watches
	hubs    hubs
	log     *slog.Logger

	info    []byte // Options.Info
	headers bool   // Options.UpstreamHTTP

	maxSubscriptions, maxListenURIs int

	suspender *suspender
	wrap      bool // Options.Wrap
}

// Close ends the calls that wait for their clients and the subscriptions of modern clients, and waits until the server
// has been told. It does not close the handler behind. It may be called more than once.
func (h *handler) Close() error {
	h.suspender.close()
	return nil
}

// payload returns the transforms for a client in front of a server.
func (h *handler) payload(client, server negotiate.Revision) *payload {
	return &payload{client: client, server: server, headers: h.headers && server.Modern(), log: h.log}
}

// Open opens next and returns what lets c use it: the session below where both speak one era, which a sameSession
// leaves as it is as far as c's revision defines what the server says, and a translation otherwise.
func (h *handler) Open(ctx context.Context, c exchange.Client) (exchange.Session, error) {
	if c.Revision.Modern() {
		return h.openModern(ctx, c)
	}
	below := c
	below.Back = h.payload(c.Revision, negotiate.None).asking(c.Back)
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
