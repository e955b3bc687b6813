package translate

import (
	"context"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
	"github.com/mcp-dualstack/bridge/negotiate"
)

// A sameSession is the conversation of a handshake-era client with a handshake-era server. It passes everything on
// and changes only what the client's revision does not define.
type sameSession struct {
	exchange.Session
	pay    *payload
	caps   declared
	server exchange.Server
}

func newSame(h *handler, c exchange.Client, s exchange.Session) *sameSession {
	server := s.Server()
	if server.Served == 0 {
		server.Served = negotiate.All
	}
	server = h.presentable(server)
	same := &sameSession{Session: s, pay: h.payload(c.Revision, server.Revision), caps: readDeclared(c.Capabilities), server: server}
	if !same.pay.bridgesTasks() {
		same.server.Capabilities = jsonrpc.Delete(server.Capabilities, "tasks")
		same.server.Initialize = jsonrpc.Delete(server.Initialize, "capabilities", "tasks")
	}
	return same
}

const methodSetLevel = "logging/setLevel"

// Server says who answers. The tasks capability is there only where tasks pass (translation.md 10).
func (s *sameSession) Server() exchange.Server { return s.server }

// Call asks the server.
func (s *sameSession) Call(ctx context.Context, req exchange.Request, back exchange.Peer) (exchange.Response, error) {
	if !s.pay.bridgesTasks() {
		if isTaskMethod(req.Method) {
			return exchange.Response{Error: notBridged(req.Method)}, nil
		}
		if req.Method == "tools/call" {
			req.Params = jsonrpc.Delete(req.Params, "task")
		}
	}
	if req.Method == methodSetLevel {
		if e := refusedLevel(s.server.Capabilities, req.Params); e != nil {
			return exchange.Response{Error: e}, nil
		}
	}
	resp, err := s.Session.Call(ctx, req, s.pay.asking(back))
	switch {
	case err != nil:
	case resp.Error != nil && resp.Error.Code == jsonrpc.CodeURLElicitation:
		return s.urlRequired(req, resp), nil
	case resp.Error == nil && isInputRequired(resp.Result): // 6.6: not a word of this era
		return brokenOff(req.Method, exchange.ReasonInvalid, "the server asked for input in a way that its revision of MCP does not define"), nil
	case resp.Error == nil:
		resp.Result = s.pay.result(req.Method, resp.Result)
	}
	return resp, err
}

// urlRequired is translation.md 7.6 for a handshake-era client: the error passes where it is known, and
// otherwise its URL stays out of what a model may read.
func (s *sameSession) urlRequired(req exchange.Request, resp exchange.Response) exchange.Response {
	if s.pay.client.Has(negotiate.URLElicitation) && s.caps.url {
		return resp
	}
	return brokenOff(req.Method, reasonURLRequired, lacks(s.pay.client, req.Method, req.Params, "elicitation.url"))
}

func isInputRequired(r []byte) bool {
	return mayHave(r, "resultType") && is(jsonrpc.Get(r, "resultType"), resultInputRequired)
}

// asking returns p as a server may ask it: with questions in the words of the client's revision. Nil stays nil.
func (p *payload) asking(to exchange.Peer) exchange.Peer {
	if to == nil {
		return nil
	}
	return &askingPeer{Peer: to, pay: p}
}

// standing returns the Back of a handshake-era client as asking does.
func (p *payload) standing(c exchange.Client) exchange.Peer {
	if c.Back == nil {
		return nil
	}
	return &askingPeer{Peer: c.Back, pay: p, apart: p.pooled && c.Principal == ""}
}

type askingPeer struct {
	exchange.Peer
	pay   *payload
	apart bool // what is said of an elicitation may be about another client's, and nobody knows who is who
}

// Notify tells the client, but for the end of an elicitation that cannot be known to be its own (translation.md 6.4).
func (a *askingPeer) Notify(ctx context.Context, note exchange.Request) error {
	if a.apart && note.Method == noteVisited {
		return nil
	}
	return a.Peer.Notify(ctx, note)
}

// Call asks the client. What its revision cannot say is refused like what it did not declare, where the server
// speaks a revision that can. A server that says it in a revision that cannot is between it and the client: real clients of
// 2025-06-18 and before understand such a form all the same (measured: mcp-go v1.2.1, go-sdk v1.8.0).
func (a *askingPeer) Call(ctx context.Context, req exchange.Request) (exchange.Response, error) {
	params, ok := a.pay.question(req.Method, req.Params)
	if !ok && !a.pay.server.Has(negotiate.TitledEnums) {
		params, ok = req.Params, true
	}
	if !ok {
		return exchange.Response{Error: negotiate.Refused(jsonrpc.CodeInvalidParams, exchange.ReasonNoCapability,
			"the client speaks %s, which has no form field of several choices", a.pay.client)}, nil
	}
	req.Params = params
	return a.Peer.Call(ctx, req)
}
