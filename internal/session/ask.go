package session

import (
	"context"
	"slices"
	"strconv"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
	"github.com/mcp-dualstack/bridge/negotiate"
)

// A peer is the client as the server sees it, through one outlet. It implements exchange.Peer.
type peer struct {
	s    *Session
	out  Outlet
	call *call // that the outlet belongs to; nil for the standing one
}

// A question is a request of the server's that waits for the client.
type question struct {
	answer    chan exchange.Response // capacity 1
	withdrawn chan struct{}          // closed when its call was cancelled and the client has been told
}

// Notify tells the client. What belongs to a call that the client has cancelled is not for it any
// more (translation.md 6.3).
func (p *peer) Notify(_ context.Context, note exchange.Request) error {
	if p.call != nil && p.call.ctx.Err() != nil {
		return context.Cause(p.call.ctx)
	}
	err := p.out.Notify(note.Method, jsonrpc.AppendNotification(nil, note.Method, note.Params))
	if err != nil {
		p.s.observe(exchange.Observation{Kind: exchange.SeenDropped, Detail: note.Method})
	}
	return err
}

// Call asks the client, if it declared that it can be asked (translation.md 9). It ends with
// client_timeout when the client does not answer in time and takes the question back when ctx or the call it is about ends.
func (p *peer) Call(ctx context.Context, req exchange.Request) (exchange.Response, error) {
	s := p.s
	if e := s.mayAsk(req); e != nil {
		return exchange.Response{Error: e}, nil
	}
	ctx, stop := context.WithTimeoutCause(ctx, s.o.AskTimeout, exchange.Fail(exchange.ReasonClientTimeout, nil))
	defer stop()
	q := &question{answer: make(chan exchange.Response, 1), withdrawn: make(chan struct{})}
	id, err := s.enter(q, p.call)
	if err != nil {
		return exchange.Response{}, err
	}
	defer s.forget(id)
	if err := p.out.Ask(ctx, jsonrpc.AppendRequest(nil, []byte(id), req.Method, req.Params)); err != nil {
		return exchange.Response{}, err
	}
	if req.Sent != nil {
		req.Sent()
	}
	select {
	case r := <-q.answer:
		return r, nil
	case <-q.withdrawn:
		return exchange.Response{}, context.Cause(p.call.ctx)
	case <-s.ctx.Done():
		return exchange.Response{}, context.Cause(s.ctx)
	case <-ctx.Done():
		s.takeBack(p.out, id)
		return exchange.Response{}, context.Cause(ctx)
	}
}

// takeBack tells the client that questions need no answer any more; those that are no longer open are left out.
func (s *Session) takeBack(out Outlet, ids ...string) {
	for _, id := range ids {
		q := s.forget(id)
		if q == nil {
			continue
		}
		close(q.withdrawn)
		params := jsonrpc.Set(nil, []byte(id), "requestId")
		const method = "notifications/cancelled"
		_ = out.Notify(method, jsonrpc.AppendNotification(nil, method, params)) // the stream may be gone, and the question with it
	}
}

// enter gives q an id. c is the call it is about, nil for none; the error is the cause when that was cancelled or has ended.
func (s *Session) enter(q *question, c *call) (id string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c != nil && c.left {
		return "", exchange.Fail(exchange.ReasonNoChannel, context.Cause(c.ctx))
	}
	s.lastID++
	id = strconv.FormatInt(s.lastID, 10)
	if s.asked == nil {
		s.asked = make(map[string]*question)
	}
	s.asked[id] = q
	if c != nil {
		c.asked = append(slices.DeleteFunc(c.asked, s.isClosed), id)
	}
	return id, nil
}

// isClosed reports whether a question is no longer open. The caller holds s.mu.
func (s *Session) isClosed(id string) bool { return s.asked[id] == nil }

// forget closes a question and returns it, nil if it was closed already.
func (s *Session) forget(id string) *question {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.asked[id]
	delete(s.asked, id)
	return q
}

// answer takes a client's response to a question.
func (s *Session) answer(m *jsonrpc.Message) {
	if q := s.forget(string(m.ID)); q != nil { // else late, or never asked
		q.answer <- exchange.Response{Result: m.Result, Error: m.Error}
	}
}

// capabilities are the declared abilities that the bridge gates questions by.
type capabilities struct {
	form, url, sampling, samplingTools, roots bool
}

// readCapabilities reads a ClientCapabilities object. An empty elicitation object means form (translation.md 12).
func readCapabilities(raw []byte) capabilities {
	var c capabilities
	if e := jsonrpc.Get(raw, "elicitation"); jsonrpc.IsObject(e) {
		c.url = !jsonrpc.IsNull(jsonrpc.Get(e, "url"))
		c.form = !jsonrpc.IsNull(jsonrpc.Get(e, "form")) || !c.url
	}
	c.sampling = !jsonrpc.IsNull(jsonrpc.Get(raw, "sampling"))
	c.samplingTools = !jsonrpc.IsNull(jsonrpc.Get(raw, "sampling", "tools"))
	c.roots = !jsonrpc.IsNull(jsonrpc.Get(raw, "roots"))
	return c
}

// mayAsk returns the error that the server gets for a question the client did not declare to answer
// (translation.md 7.3 step 8), or nil.
func (s *Session) mayAsk(req exchange.Request) *exchange.Error {
	s.mu.Lock()
	c := s.caps
	s.mu.Unlock()
	switch req.Method {
	case "roots/list":
		return undeclared(c.roots, jsonrpc.CodeMethodNotFound, "roots")
	case "sampling/createMessage":
		if c.sampling && !c.samplingTools && !jsonrpc.IsNull(jsonrpc.Get(req.Params, "tools")) {
			return undeclared(false, jsonrpc.CodeInvalidParams, "sampling.tools") // 2025-11-25 client/sampling, Capabilities
		}
		return undeclared(c.sampling, jsonrpc.CodeMethodNotFound, "sampling")
	case "elicitation/create":
		if !c.form && !c.url {
			return undeclared(false, jsonrpc.CodeMethodNotFound, "elicitation")
		}
		if mode, _ := jsonrpc.String(jsonrpc.Get(req.Params, "mode")); mode == "url" {
			return undeclared(c.url, jsonrpc.CodeInvalidParams, "elicitation.url")
		}
		return undeclared(c.form, jsonrpc.CodeInvalidParams, "elicitation.form")
	}
	return nil
}

func undeclared(declared bool, code int, name string) *exchange.Error {
	if declared {
		return nil
	}
	return negotiate.Refused(code, exchange.ReasonNoCapability, "the client did not declare the capability %s", name)
}
