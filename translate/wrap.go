package translate

import (
	"context"
	"time"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
)

// A wrapSession is a modern client's session with a modern server, as far as rounds are concerned (translation.md 7.5):
// the server binds its requestState to its caller, which is the bridge, so that one user's would be valid for another.
type wrapSession struct {
	exchange.Session
	s         *suspender
	seals     bool
	declared  declared
	principal principalHash
}

func newWrap(h *handler, c exchange.Client, s exchange.Session) exchange.Session {
	return &wrapSession{Session: s, s: h.suspender, seals: h.o.Wrap, declared: readDeclared(c.Capabilities), principal: hashPrincipal(c.Principal)}
}

// Call asks the server. What is no round passes untouched.
func (w *wrapSession) Call(ctx context.Context, req exchange.Request, back exchange.Peer) (exchange.Response, error) {
	if methodNumber(req.Method) == 0 {
		return w.Session.Call(ctx, req, back)
	}
	cl := claim{principal: w.principal, method: req.Method}
	below := req
	if w.seals {
		var refusal *exchange.Error
		if below, refusal = w.unwrapped(req, &cl); refusal != nil {
			return exchange.Response{Error: refusal}, nil
		}
	}
	resp, err := w.Session.Call(ctx, below, back)
	if err != nil || resp.Error != nil || !isInputRequired(resp.Result) {
		return resp, err
	}
	if refusal := w.undeclared(req.Method, resp.Result); refusal != nil {
		return exchange.Response{Error: refusal}, nil
	}
	if w.seals {
		return w.wrapped(resp, req, cl)
	}
	return resp, nil
}

// unwrapped returns the request of a retry with the server's own requestState, byte for byte, and completes the claim.
func (w *wrapSession) unwrapped(req exchange.Request, cl *claim) (exchange.Request, *exchange.Error) {
	state := jsonrpc.Get(req.Params, "requestState")
	if state == nil {
		return req, nil
	}
	cl.digest = salientDigest(req.Params)
	t, refusal := w.s.check(state, *cl)
	if refusal != nil {
		return req, refusal
	}
	if t.kind != kindWrap {
		return req, w.s.refuseState(req.Method, reasonStateInvalid, "another kind")
	}
	req.Params = jsonrpc.Set(req.Params, t.inner, "requestState")
	return req, nil
}

// undeclared refuses an InputRequiredResult that asks for what the client did not declare (translation.md 7.3.8).
func (w *wrapSession) undeclared(method string, result []byte) (refusal *exchange.Error) {
	jsonrpc.Members(jsonrpc.Get(result, "inputRequests"), func(_ string, v []byte) bool {
		asked, _ := jsonrpc.String(jsonrpc.Get(v, "method"))
		if need, what := w.declared.lacks(asked, jsonrpc.Get(v, "params")); need != nil {
			w.s.log.Warn("server asks for what the client did not declare", "method", method, "capability", what)
			refusal = missingCapability(method, need, what)
		}
		return refusal == nil
	})
	return refusal
}

// wrapped returns an InputRequiredResult with its requestState sealed. One without stays as it is.
func (w *wrapSession) wrapped(resp exchange.Response, req exchange.Request, cl claim) (exchange.Response, error) {
	state := jsonrpc.Get(resp.Result, "requestState")
	switch {
	case state == nil:
		return resp, nil
	case len(state) > maxInner:
		w.s.reached(BoundState)
		w.s.log.Warn("requestState too large", "method", req.Method, "bytes", len(state))
		return exchange.Response{Error: internal(reasonStateTooLarge, "the state that the server keeps between rounds is too large")}, nil
	}
	t := &token{
		kind: kindWrap, exp: time.Now().Add(w.s.o.TTL), principal: cl.principal, method: cl.method, digest: salientDigest(req.Params),
		upstream: w.s.o.Upstream, owner: w.s.o.Owner, inner: state,
	}
	resp.Result = jsonrpc.Set(resp.Result, jsonrpc.Quote(w.s.sealed(t)), "requestState")
	return resp, nil
}
