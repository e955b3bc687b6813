package upstream

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
)

// openStream shakes hands and opens the standing stream. spawn runs what outlasts Close, and release is called when that
// is over; on an error it has been called or will be. The error is an *exchange.Error when the server refused the
// handshake, otherwise a *exchange.Failure or the cause of ctx.
func openStream(ctx context.Context, l *leg, o *Options, c exchange.Client, spawn func(func()) bool, release func()) (*streamSession, error) {
	s := &streamSession{
		l: l, o: o, log: o.Logger, back: c.Back, authorize: c.Authorization, spawn: spawn, release: release,
		noise:   &noise{log: o.Logger, level: slog.LevelWarn, text: "upstream said something unexpected"},
		lost:    make(chan struct{}),
		greeted: make(chan struct{}),
		calls:   make(map[int64]*post),
	}
	s.ctx, s.cancel = context.WithCancelCause(context.Background())
	if err := s.handshake(ctx, c); err != nil {
		_ = s.Close()
		return nil, err
	}
	return s, nil
}

// handshake sends initialize with the client's own revision, capabilities and info (translation.md 4, Offer to
// a legacy upstream). It is never cancelled by a notification: when ctx ends the session does.
func (s *streamSession) handshake(ctx context.Context, c exchange.Client) error {
	params := s.o.initializeParams(c)
	cl := newCall(s.ctx, exchange.Request{Method: "initialize", Params: params}, nil)
	cl.internal = true
	stop := context.AfterFunc(ctx, func() {
		if f, ok := errors.AsType[*exchange.Failure](context.Cause(ctx)); ok {
			s.end(f)
			return
		}
		s.end(exchange.Fail(exchange.ReasonClosed, context.Cause(ctx)))
	})
	resp, err := s.call(s.ctx, exchange.Request{Method: "initialize", Params: params}, cl)
	if !stop() {
		return context.Cause(ctx)
	}
	if err != nil {
		return err
	}
	if resp.Error != nil {
		return resp.Error
	}
	server, err := readInitialized(resp.Result)
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.revision = server.Revision
	s.mu.Unlock()
	s.server = server
	if !s.standFirst(ctx) {
		s.server.Capabilities = withoutStanding(server.Capabilities)
		if caps := jsonrpc.Get(server.Initialize, "capabilities"); caps != nil {
			s.server.Initialize = jsonrpc.Set(server.Initialize, withoutStanding(caps), "capabilities")
		}
	}
	return nil
}

// standFirst opens the standing stream and reports whether there is or may be one. It is asked for before the client hears
// the capabilities, some of which depend on it (translation.md 8.3).
func (s *streamSession) standFirst(ctx context.Context) bool {
	state := make(chan standingState, 1)
	var once sync.Once
	s.mu.Lock()
	if s.ended != nil {
		s.mu.Unlock()
		return true
	}
	s.wg.Go(func() { // ends with the session
		s.stand(func(st standingState) { once.Do(func() { state <- st }) })
	})
	s.mu.Unlock()
	t := time.NewTimer(standingWait)
	defer t.Stop()
	select {
	case st := <-state:
		return st != standingNone
	case <-t.C:
	case <-ctx.Done():
	}
	return true
}
