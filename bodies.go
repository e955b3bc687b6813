package bridge

import (
	"context"
	"io"
	"net/http"
	"time"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/internal/guard"
	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
	"github.com/mcp-dualstack/bridge/negotiate"
)

// defaultAllBodies is the default of Options.MaxBodyBytesInTotal.
const defaultAllBodies = 128 << 20

// countedParams is the size from which params count while the server works at them, in bytes. Smaller ones are bounded well
// enough by how many calls there may be.
const countedParams = 64 << 10

// smallBody is the size below which a body whose length is known is not counted, in bytes: it takes no more than its connection
// does, and who asks for little is served while large bodies, or readers too slow for what they asked for, fill the bound.
const smallBody = 16 << 10

// boundBodies is the name of the bound on all bodies together.
const boundBodies = "max_body_bytes_in_total"

// fullRetry is what who finds no room for a body is told to wait.
const fullRetry = time.Second

// errFull is why the rest of a body is not read.
var errFull = &exchange.Failure{Reason: exchange.ReasonBusy, RetryAfter: fullRetry, Message: "too much is being read at the moment; try again in a moment"}

// bodies returns next for requests whose bodies have room beside those of the others. A body counts for what has come of it, so
// that a large Content-Length alone takes nothing from anybody, while its HTTP exchange lasts. Small ones always have room.
func (b *Bridge) bodies(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost || 0 <= r.ContentLength && r.ContentLength < smallBody {
			next.ServeHTTP(w, r)
			return
		}
		if most := b.s.maxBody(); r.ContentLength <= most && !b.held.Fits(r.ContentLength) && !b.unknown(r) {
			b.reached(r, boundBodies)
			refuseBody(w)
			return
		}
		body := &countedBody{ReadCloser: r.Body, held: b.held, full: func() { b.reached(r, boundBodies) }}
		defer body.give()
		r2 := new(http.Request)
		*r2 = *r
		r2.Body = body
		next.ServeHTTP(w, r2)
	})
}

// refuseBody answers 503 before anything of the body was read.
func refuseBody(w http.ResponseWriter) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Retry-After", "1")
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(http.StatusServiceUnavailable)
	_, _ = w.Write(jsonrpc.AppendError(nil, nil, exchange.PublicError(errFull))) // nobody to tell: the client went away
}

// maxBody is the bound of one body, in bytes.
func (s *settings) maxBody() int64 {
	if s.MaxBodyBytes == 0 {
		return 8 << 20 // of both transports
	}
	return s.MaxBodyBytes
}

// A countedBody takes from a budget what it reads. It is read and given back by one goroutine.
type countedBody struct {
	io.ReadCloser
	held  *guard.Budget
	taken int64
	full  func() // told when there is no room
}

// Read returns errFull when there is no room for what has come.
func (c *countedBody) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p)
	if n > 0 && !c.held.Take(int64(n)) {
		c.full()
		return 0, errFull
	}
	c.taken += int64(n)
	return n, err
}

func (c *countedBody) give() {
	c.held.Give(c.taken)
	c.taken = 0
}

// reached reports that a request was refused for a bound.
func (b *Bridge) reached(r *http.Request, bound string) {
	b.observe(exchange.Observation{
		Kind: exchange.SeenBound, Transport: b.transport(r), Principal: guard.IdentityOf(r).Principal, Addr: b.s.addr(r), UserAgent: r.UserAgent(), Detail: bound,
	})
}

// quotas returns next with a count of what lasts longer than the HTTP exchange it came with: large params, which the server may
// work at for long and which leave less room for further bodies, and the calls of one caller on the legacy stream, whose POSTs
// are answered at once.
func (b *Bridge) quotas(next exchange.Handler) exchange.Handler {
	return &quotaHandler{next: next, held: b.held, calls: newCounts(b.s.PrincipalLimit.Calls), observe: b.observe}
}

type quotaHandler struct {
	next    exchange.Handler
	held    *guard.Budget
	calls   *counts
	observe func(exchange.Observation)
}

func (h *quotaHandler) Open(ctx context.Context, c exchange.Client) (exchange.Session, error) {
	s, err := h.next.Open(ctx, c)
	if err != nil {
		return nil, err
	}
	return &quotaSession{s, h, c}, nil
}

type quotaSession struct {
	exchange.Session
	h *quotaHandler
	c exchange.Client
}

func (s *quotaSession) Call(ctx context.Context, req exchange.Request, back exchange.Peer) (exchange.Response, error) {
	if s.c.Transport == exchange.HTTPSSE && s.c.Principal != "" {
		if !s.h.calls.enter(s.c.Principal) {
			s.reached(guard.BoundCalls)
			return exchange.Response{Error: negotiate.Refused(jsonrpc.CodeInternal, exchange.ReasonTooManyCalls,
				"too many calls of yours are in flight; wait for some to end")}, nil
		}
		defer s.h.calls.leave(s.c.Principal)
	}
	if n := int64(len(req.Params)); n >= countedParams {
		s.h.held.Hold(n) // who comes next finds less room
		defer s.h.held.Give(n)
	}
	return s.Session.Call(ctx, req, back)
}

func (s *quotaSession) reached(bound string) {
	s.h.observe(exchange.Observation{
		Kind: exchange.SeenBound, Transport: s.c.Transport, Session: s.c.Session, Principal: s.c.Principal, Addr: s.c.Addr, UserAgent: s.c.UserAgent, Detail: bound,
	})
}
