package translate

import (
	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
)

// conclude returns the outcome of the call as v's client is shown it.
func (c *call) conclude(o *outcome, v *visit) (exchange.Response, error) {
	switch {
	case o.err != nil:
		return failed(o.err)
	case o.own:
		return o.resp, nil
	case o.resp.Error != nil && o.resp.Error.Code == jsonrpc.CodeURLElicitation:
		return c.urlRequired(o.resp.Error, v)
	}
	resp := c.sess.modern(c.method, c.params, o.resp)
	if c.round > 0 || c.urls != nil || c.journal.again() {
		resp.Result = uncached(resp.Result)
	}
	return resp, nil
}

// uncached returns the complete result of a retry, which no one may keep (translation.md 5).
func uncached(r []byte) []byte {
	if jsonrpc.Get(r, "ttlMs") == nil {
		return r
	}
	r = jsonrpc.Set(r, []byte("0"), "ttlMs")
	return jsonrpc.Set(r, []byte(`"private"`), "cacheScope")
}

// modern returns the answer of a handshake-era server as a modern client is shown it.
func (s *suspendSession) modern(method string, params []byte, resp exchange.Response) exchange.Response {
	if resp.Error != nil {
		return exchange.Response{Error: modernError(method, params, resp.Error)}
	}
	result := resp.Result
	if result == nil {
		result = []byte("{}")
	}
	// A server without resultType cannot say that it needs input, and one that says so anyway is answered by
	// nobody (translation.md 6.6).
	if t := jsonrpc.Get(result, "resultType"); t != nil && !is(t, resultComplete) || !jsonrpc.IsObject(result) {
		s.s.log.Warn("upstream result is none of its revision", "method", method)
		return exchange.Response{Error: exchange.PublicError(exchange.Fail(exchange.ReasonInvalid, nil))}
	}
	result = s.payload.result(method, result)
	if isList(method) {
		result = s.scopes.keep(s.principal, method, params, result)
	}
	return exchange.Response{Result: result}
}

// modernError maps the error of a handshake-era server (translation.md 13). An error that passes keeps its bytes.
func modernError(method string, params []byte, e *exchange.Error) *exchange.Error {
	switch {
	case e.Code == jsonrpc.CodeResourceNotFound && method == "resources/read":
		return rewritten(e, jsonrpc.CodeInvalidParams, jsonrpc.Get(params, "uri"))
	case e.Code == jsonrpc.CodeResourceNotFound, e.Code >= -32099 && e.Code <= -32020:
		return rewritten(e, jsonrpc.CodeInternal, nil)
	}
	return e
}

// rewritten is recoded with uri in data.uri if there is none. Data that is not an object stays as the bridge's
// upstreamData.
func rewritten(e *exchange.Error, code int, uri []byte) *exchange.Error {
	known := *e
	if !jsonrpc.IsObject(e.Data) {
		known.Data = []byte("{}")
		if !jsonrpc.IsNull(e.Data) {
			known.Data = jsonrpc.Set(known.Data, e.Data, "bridge", "upstreamData")
		}
	}
	if uri != nil && jsonrpc.IsNull(jsonrpc.Get(known.Data, "uri")) {
		known.Data = jsonrpc.Set(known.Data, uri, "uri")
	}
	return recoded(&known, code)
}
