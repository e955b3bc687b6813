package translate

import (
	"context"
	"time"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
	"github.com/mcp-dualstack/bridge/negotiate"
)

const (
	methodRoots    = "roots/list"
	methodSampling = "sampling/createMessage"
	methodElicit   = "elicitation/create"
)

// A question is a request of the server's that waits for the client.
type question struct {
	key    string // empty until the client has been told
	method string
	params []byte // as 2026-07-28 writes them; nil for none
	answer chan exchange.Response
}

// newQuestion reads a request of a handshake-era server as an InputRequest of 2026-07-28 (translation.md 7.3.2). ok is
// false if it cannot be one.
func newQuestion(req exchange.Request) (q *question, ok bool) {
	q = &question{method: req.Method, answer: make(chan exchange.Response, 1)}
	if req.Method == methodRoots {
		q.params = []byte("{}") // the schema leaves params free; go-sdk v1.8.0 as a client fails without (measured)
		return q, true
	}
	if !jsonrpc.IsObject(req.Params) {
		return nil, false
	}
	q.params = jsonrpc.DeleteFunc(req.Params, func(name string) bool {
		return name == "_meta" || name == "task" || name == "elicitationId"
	})
	return q, true
}

// isInputMethod reports whether a server can ask for it (2026-07-28 schema, InputRequest).
func isInputMethod(method string) bool {
	return method == methodRoots || method == methodSampling || method == methodElicit
}

// append appends the InputRequest.
func (q *question) append(dst []byte) []byte {
	dst = append(append(dst, `{"method":"`...), q.method...)
	dst = append(dst, '"')
	if q.params != nil {
		dst = append(append(dst, `,"params":`...), q.params...)
	}
	return append(dst, '}')
}

// lacks returns the ClientCapabilities that a client of d would need besides to be asked for method, nil if it has them. what is
// the word for a refusal.
func (d declared) lacks(method string, params []byte) (need []byte, what string) {
	switch method {
	case methodRoots:
		if !d.roots {
			return []byte(`{"roots":{}}`), "roots"
		}
	case methodSampling:
		if !d.sampling {
			return []byte(`{"sampling":{}}`), "sampling"
		}
		tools := !jsonrpc.IsNull(jsonrpc.Get(params, "tools")) || !jsonrpc.IsNull(jsonrpc.Get(params, "toolChoice"))
		if tools && !d.tools {
			return []byte(`{"sampling":{"tools":{}}}`), "sampling.tools"
		}
	case methodElicit:
		if is(jsonrpc.Get(params, "mode"), "url") {
			if !d.url {
				return []byte(`{"elicitation":{"url":{}}}`), "elicitation.url"
			}
			return nil, ""
		}
		if !d.form {
			return []byte(`{"elicitation":{"form":{}}}`), "elicitation"
		}
	}
	return nil, ""
}

// any reports whether a server may ask a client of d anything.
func (d declared) any() bool { return d.roots || d.sampling || d.form || d.url }

// notDeclared is what a handshake-era server is answered when it asks for what the client did not declare
// (translation.md 7.3.8).
func notDeclared(method string, d declared) *exchange.Error {
	if method == methodElicit && (d.form || d.url) {
		return negotiate.Refused(jsonrpc.CodeInvalidParams, exchange.ReasonNoCapability, "Invalid params: the client does not support this mode of elicitation")
	}
	return negotiate.Refused(jsonrpc.CodeMethodNotFound, exchange.ReasonNoCapability, "Method not found: the client did not declare the capability for %s", method)
}

// missingCapability is the error of a call that cannot go on without a capability (2026-07-28 schema,
// MissingRequiredClientCapabilityError).
func missingCapability(method string, need []byte, what string) *exchange.Error {
	e := jsonrpc.Errorf(jsonrpc.CodeMissingCapability, "the %s needs %s, which this request did not declare", thing(method), what)
	e.Data = append(append([]byte(`{"requiredCapabilities":`), need...), '}')
	return e
}

// thing is the word for what a method uses.
func thing(method string) string {
	switch method {
	case "prompts/get":
		return "prompt"
	case "resources/read":
		return "resource"
	}
	return "tool"
}

// answerOf returns an InputResponse as the result that a handshake-era server is given.
func answerOf(value []byte) exchange.Response {
	if is(jsonrpc.Get(value, "resultType"), resultComplete) {
		value = jsonrpc.Delete(value, "resultType")
	}
	return exchange.Response{Result: withoutReserved(value)}
}

// nobodyAnswered is what the server is told when its question ends without an answer (translation.md 7.3.6).
func nobodyAnswered(method string) exchange.Response {
	if method == methodElicit {
		return exchange.Response{Result: []byte(`{"action":"cancel"}`)}
	}
	return exchange.Response{Error: jsonrpc.Errorf(jsonrpc.CodeInternal, "client did not answer")}
}

// Call is asked by the server because of c. It waits for the client's answer across requests; the end of ctx takes the
// question back.
func (c *call) Call(ctx context.Context, req exchange.Request) (exchange.Response, error) {
	if !isInputMethod(req.Method) {
		return exchange.Response{Error: negotiate.Refused(jsonrpc.CodeMethodNotFound, negotiate.ReasonUnknownMethod, "Method not found: %s", req.Method)}, nil
	}
	q, ok := newQuestion(req)
	if !ok {
		return exchange.Response{Error: negotiate.Refused(jsonrpc.CodeInvalidParams, reasonQuestion, "Invalid params: %s needs an object", req.Method)}, nil
	}
	q.params, _ = c.sess.payload.question(q.method, q.params) // a modern client has words for everything
	if known, ok := c.journal.answerTo(q); ok {
		return answerOf(known), nil
	}
	now, bound := c.enter(q)
	c.s.reached(bound)
	if now != nil {
		return *now, nil
	}
	select {
	case a := <-q.answer:
		return a, nil
	case <-c.ctx.Done():
	case <-ctx.Done():
	}
	if a, answered := c.leave(q); answered {
		return a, nil
	}
	return nobodyAnswered(q.method), nil
}

// enter puts q with the others that are to be asked. A response is the answer at once; bound is what was reached.
func (c *call) enter(q *question) (now *exchange.Response, bound string) {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	switch {
	case c.state == stateOver || c.outcome != nil:
		r := nobodyAnswered(q.method)
		return &r, ""
	case len(c.pending) >= c.s.o.MaxQuestions:
		return &exchange.Response{Error: internal(reasonQuestions, "too many requests wait for the client")}, BoundQuestions
	}
	if c.state == stateRunning {
		if c.lacking(c.visit.declared, q) {
			return &exchange.Response{Error: notDeclared(q.method, c.visit.declared)}, ""
		}
		c.latest = time.Now()
		if len(c.pending) == 0 {
			c.first = c.latest
		}
		c.visit.notify()
	}
	c.pending = append(c.pending, q)
	return nil, ""
}

// lacking ends the call if the client did not declare what a question needs. The caller holds mu.
func (c *call) lacking(d declared, qs ...*question) bool {
	for _, q := range qs {
		need, what := d.lacks(q.method, q.params)
		if need == nil {
			continue
		}
		q.answer <- exchange.Response{Error: notDeclared(q.method, d)}
		o := outcome{resp: exchange.Response{Error: missingCapability(c.method, need, what)}, own: true}
		c.end(o, ending{refuse(reasonStateUsed)})
		c.cancel(&exchange.CancelError{Reason: "the client did not declare " + what})
		return true
	}
	return false
}

// leave takes q out when its wait has ended, unless the answer was faster.
func (c *call) leave(q *question) (a exchange.Response, answered bool) {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	for i, p := range c.pending {
		if p == q {
			c.pending = append(c.pending[:i:i], c.pending[i+1:]...)
			return exchange.Response{}, false
		}
	}
	select {
	case a = <-q.answer:
		return a, true
	default:
		return exchange.Response{}, false
	}
}
