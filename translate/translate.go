// Package translate makes a server of one era answer a client of another.
//
// Where both speak the same era, which is all that is built today, the bytes pass untouched and the package only
// checks the Mcp-Param-* headers of stateless tool calls against the schema that the tool was last served with.
package translate

import (
	"context"
	"log/slog"
	"time"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
	"github.com/mcp-dualstack/bridge/negotiate"
)

// Options configure a Handler. The zero value works.
type Options struct {
	MaxSchemas int           // tools whose annotations are remembered; zero: 4096
	UnknownFor time.Duration // how long a tool that no list named is not looked for again; zero: 30 s
	Logger     *slog.Logger  // nil: silent
}

const (
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
	return &handler{next: next, schemas: newSchemas(opts), log: opts.Logger}
}

type handler struct {
	next    exchange.Handler
	schemas *schemas
	log     *slog.Logger
}

// Open opens next and returns what lets c use it: the session below where both speak one era, which a sameSession
// leaves as it is as far as c's revision defines what the server says, and a translation otherwise.
func (h *handler) Open(ctx context.Context, c exchange.Client) (exchange.Session, error) {
	if c.Revision.Modern() {
		return h.openModern(ctx, c)
	}
	s, err := h.next.Open(ctx, c)
	if err != nil {
		return nil, err
	}
	if s.Server().Revision.Modern() {
		return newDrive(h, c, s), nil
	}
	return s, nil
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
	return &headerSession{Session: s, h: h, principal: c.Principal}, nil
}

// A headerSession is a modern client's session with a modern server.
type headerSession struct {
	exchange.Session
	h         *handler
	principal string
}

// Call passes req on, after the check of a tools/call that came with headers (translation.md 3.1 step 9).
func (s *headerSession) Call(ctx context.Context, req exchange.Request, back exchange.Peer) (exchange.Response, error) {
	switch req.Method {
	case "tools/list":
		resp, err := s.Session.Call(ctx, req, back)
		if err == nil && resp.Error == nil {
			s.h.schemas.learn(s.principal, resp.Result)
		}
		return resp, err
	case "tools/call":
		if req.Header != nil {
			if e := s.check(ctx, req); e != nil {
				return exchange.Response{Error: e}, nil
			}
		}
	}
	return s.Session.Call(ctx, req, back)
}

func (s *headerSession) check(ctx context.Context, req exchange.Request) *exchange.Error {
	name, ok := jsonrpc.String(jsonrpc.Get(req.Params, "name"))
	if !ok {
		return nil // the server says what is wrong with it
	}
	params, known := s.h.schemas.lookup(s.principal, name)
	if !known {
		if err := s.h.schemas.fetch(ctx, s.principal, name, req, s.Session); err != nil {
			s.h.log.Warn("tools/list for the header check", "err", err)
		}
		if params, known = s.h.schemas.lookup(s.principal, name); !known {
			return nil
		}
	}
	return negotiate.CheckParams(req.Header, jsonrpc.Get(req.Params, "arguments"), params)
}
