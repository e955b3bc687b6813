package translate

import (
	"context"
	"errors"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
	"github.com/mcp-dualstack/bridge/negotiate"
)

// A modernSession is a modern client's session with a modern server. What it passes on is changed only where the
// client's revision has no words for it.
type modernSession struct {
	exchange.Session
	h         *handler
	pay       *payload
	client    exchange.Client
	principal string
}

func newModern(h *handler, c exchange.Client, s exchange.Session) *modernSession {
	return &modernSession{Session: s, h: h, pay: h.payload(c.Revision, s.Server().Revision), client: c, principal: c.Principal}
}

// Server says who answers.
func (s *modernSession) Server() exchange.Server {
	server := s.Session.Server()
	if server.Served == 0 { // otherwise it knows who is let in
		server.Served = negotiate.All
	}
	return server
}

// Call passes req on, after the check of a tools/call that came with headers (translation.md 3.1 step 9).
func (s *modernSession) Call(ctx context.Context, req exchange.Request, back exchange.Peer) (exchange.Response, error) {
	if req.Method == "tools/call" && req.Header != nil {
		if e := s.h.schemas.check(ctx, s.principal, req, s.Session); e != nil {
			return exchange.Response{Error: e}, nil
		}
	}
	if req.Method == methodListen && !s.h.o.UpstreamHTTP && shareable(req.Params) {
		return s.h.hubs.listen(ctx, s.client, s.Session.Server().Capabilities, req, back)
	}
	resp, err := s.Session.Call(ctx, req, back)
	switch {
	case err != nil:
		return resp, err
	case resp.Error != nil:
		return s.refusal(req, resp)
	case s.undeclaredTask(req, resp.Result):
		return exchange.Response{}, exchange.Fail(exchange.ReasonInvalid, errors.New("a task for a client that did not declare the extension"))
	}
	if req.Method == "tools/list" {
		s.h.schemas.learn(s.principal, resp.Result)
	}
	resp.Result = s.pay.result(req.Method, resp.Result)
	if isList(req.Method) {
		resp.Result = s.h.scopes.keep(hashPrincipal(s.principal), req.Method, req.Params, resp.Result)
	}
	return resp, nil
}

// refusal passes the server's error on, unless it is none that its revision allows (translation.md 6.6, 13).
func (s *modernSession) refusal(req exchange.Request, resp exchange.Response) (exchange.Response, error) {
	switch resp.Error.Code {
	case jsonrpc.CodeURLElicitation:
		return exchange.Response{}, exchange.Fail(exchange.ReasonInvalid, resp.Error)
	case jsonrpc.CodeHeaderMismatch: // about headers that the bridge made, and made again
		return exchange.Response{}, refusedHeaders(resp.Error)
	case jsonrpc.CodeResourceNotFound:
		return exchange.Response{Error: modernError(req.Method, req.Params, resp.Error)}, nil
	}
	return resp, nil
}

// undeclaredTask reports whether the result is a task for a client that knows none (translation.md 10).
func (s *modernSession) undeclaredTask(req exchange.Request, result []byte) bool {
	if !mayHave(result, "resultType") || !is(jsonrpc.Get(result, "resultType"), "task") {
		return false
	}
	return jsonrpc.Get(req.Params, "_meta", negotiate.MetaCapabilities, "extensions", negotiate.ExtensionTasks) == nil
}
