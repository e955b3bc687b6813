package upstream

import (
	"context"
	"strings"
	"time"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
	"github.com/mcp-dualstack/bridge/negotiate"
)

const (
	methodSubscribe   = "resources/subscribe"
	methodUnsubscribe = "resources/unsubscribe"
	methodUpdated     = "notifications/resources/updated"
)

// subscription answers resources/subscribe and unsubscribe. Only the first subscriber of a URI and the
// last one to go are the server's business (translation.md 6.4).
func (s *pooled) subscription(ctx context.Context, req exchange.Request) (exchange.Response, error) {
	uri, ok := jsonrpc.String(jsonrpc.Get(req.Params, "uri"))
	switch {
	case !ok:
		return exchange.Response{Error: jsonrpc.Errorf(jsonrpc.CodeInvalidParams, "uri is missing")}, nil
	case s.watch == nil:
		return exchange.Response{Error: jsonrpc.Errorf(jsonrpc.CodeMethodNotFound, "Method not found: there is no stream for what would come")}, nil
	}
	done, err := s.watch.take(ctx)
	if err != nil {
		return exchange.Response{}, err
	}
	defer done()
	if req.Method == methodSubscribe {
		return s.subscribe(ctx, uri, req)
	}
	return s.unsubscribe(ctx, uri, req)
}

// take waits for the turn to change subscriptions.
func (sh *share) take(ctx context.Context) (done func(), err error) {
	select {
	case sh.turn <- struct{}{}:
		return func() { <-sh.turn }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

var emptyResult = exchange.Response{Result: []byte("{}")}

// subscribe needs the turn.
func (s *pooled) subscribe(ctx context.Context, uri string, req exchange.Request) (exchange.Response, error) {
	if s.holds(uri) {
		return emptyResult, nil
	}
	sh, resp := s.watch, emptyResult
	if sh.topics[uri] == 0 {
		if len(sh.topics) >= s.p.o.MaxSubscriptions {
			s.p.o.reached(BoundSubscriptions)
			return exchange.Response{Error: negotiate.Refused(jsonrpc.CodeInternal, "too_many_subscriptions", "too many subscriptions; end some first")}, nil
		}
		var err error
		if resp, err = sh.m.callShared(ctx, req, nil, 0); err != nil || resp.Error != nil {
			return resp, err
		}
	}
	sh.topics[uri]++
	if !s.hold(uri) {
		s.dropLate(uri)
	}
	return resp, nil
}

// hold notes a subscription. It reports false when the client has gone meanwhile: nobody would end it.
func (s *pooled) hold(uri string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.left {
		return false
	}
	if s.uris == nil {
		s.uris = make(map[string]struct{})
	}
	s.uris[uri] = struct{}{}
	return true
}

// dropLate ends a subscription that the client did not wait for. It needs the turn.
func (s *pooled) dropLate(uri string) {
	ctx, cancel := context.WithTimeout(s.p.ctx, unsubscribeTime)
	defer cancel()
	if _, err := s.watch.drop(ctx, uri, unsubscribeRequest(uri)); err != nil {
		s.p.o.Logger.Debug("unsubscribe for a client that has gone", "err", err)
	}
}

func unsubscribeRequest(uri string) exchange.Request {
	return exchange.Request{Method: methodUnsubscribe, Params: jsonrpc.Set(nil, jsonrpc.Quote(uri), "uri")}
}

// unsubscribe needs the turn.
func (s *pooled) unsubscribe(ctx context.Context, uri string, req exchange.Request) (exchange.Response, error) {
	if !s.holds(uri) {
		return emptyResult, nil
	}
	s.mu.Lock()
	delete(s.uris, uri)
	s.mu.Unlock()
	return s.watch.drop(ctx, uri, req)
}

// drop takes one subscriber of a URI off. It needs the turn.
func (sh *share) drop(ctx context.Context, uri string, req exchange.Request) (exchange.Response, error) {
	if sh.topics[uri]--; sh.topics[uri] > 0 {
		return emptyResult, nil
	}
	delete(sh.topics, uri)
	return sh.m.callShared(ctx, req, nil, 0)
}

func (s *pooled) holds(uri string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.uris[uri]
	return ok
}

// subscribed reports whether the client subscribed to a URI or to something that it is below.
func (s *pooled) subscribed(uri string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.uris[uri]; ok {
		return true
	}
	for parent := range s.uris {
		if rest, ok := strings.CutPrefix(uri, parent); ok && (strings.HasSuffix(parent, "/") || strings.HasPrefix(rest, "/")) {
			return true
		}
	}
	return false
}

const unsubscribeTime = 5 * time.Second

// unsubscribeAll ends the subscriptions of a client that has gone, and lets go of its session.
func (s *pooled) unsubscribeAll(uris map[string]struct{}) {
	defer s.p.leave(s.watch)
	ctx, cancel := context.WithTimeout(s.p.ctx, unsubscribeTime)
	defer cancel()
	done, err := s.watch.take(ctx)
	if err != nil {
		return
	}
	defer done()
	for uri := range uris {
		if _, err := s.watch.drop(ctx, uri, unsubscribeRequest(uri)); err != nil {
			s.p.o.Logger.Debug("unsubscribe for a client that has gone", "err", err)
		}
	}
}
