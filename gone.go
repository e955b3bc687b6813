package bridge

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
)

// The stages of the retirement that exist so far (retirement.md 6).
const (
	stageOpen = "open"
	stageGone = "gone"
)

type shutdownFunc func(context.Context) error

// gone answers on the legacy routes in the stage of that name: no stream is opened and nothing is asked of the
// server.
type gone struct {
	s       *settings
	observe func(exchange.Observation)
}

func goneRoutes(s *settings, observe func(exchange.Observation)) legacyRoutes {
	g := &gone{s, observe}
	return legacyRoutes{
		stream:   http.HandlerFunc(g.stream),
		messages: http.HandlerFunc(g.message),
		drain:    func(context.Context) error { return nil },
		shutdown: func(context.Context) error { return nil },
		close:    func() error { return nil },
	}
}

// stream answers GET. 405 and not 410, since POST on the same path is served and some clients fall back to it
// only from 404 and 405 (retirement.md 0.3).
func (g *gone) stream(w http.ResponseWriter, r *http.Request) {
	successor := g.begin(w, r, "get")
	w.Header().Set("Allow", "POST, GET, DELETE")
	answer(w, r, http.StatusMethodNotAllowed, note{Error: goneSentence(successor, g.s.MCPPath), Stage: stageGone, Successor: successor})
}

// message answers POST on the message route with 410 and a JSON-RPC error that carries the request's
// id; that body is what users of the TypeScript SDK see.
func (g *gone) message(w http.ResponseWriter, r *http.Request) {
	successor := g.begin(w, r, "message")
	limit := g.s.MaxBodyBytes
	if limit == 0 {
		limit = maxGoneBody
	}
	var id []byte
	patience := g.s.BodyTimeout
	if patience == 0 {
		patience = goneBodyTimeout
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(patience)) // a reader without deadlines has none to keep
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, min(limit, maxGoneBody)))
	if err == nil {
		if m, bad := jsonrpc.Scan(body); bad == nil && m.Kind == jsonrpc.Request {
			id = m.ID
		}
	} else if _, large := errors.AsType[*http.MaxBytesError](err); !large {
		return // the client went away
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusGone)
	_, _ = w.Write(jsonrpc.AppendError(nil, id, goneError(successor, g.s.MCPPath))) // nobody to tell: the client went away
}

// maxGoneBody is how much of a message is read for its id, in bytes.
const maxGoneBody = 1 << 20

const goneBodyTimeout = 30 * time.Second

// begin reports the refusal and writes the headers that every retired answer has (retirement.md R6).
func (g *gone) begin(w http.ResponseWriter, r *http.Request, point string) (successor string) {
	successor = g.s.successor(r)
	g.observe(exchange.Observation{
		Kind:      exchange.SeenRefused,
		Transport: exchange.HTTPSSE,
		Version:   r.Header.Get(headerVersion),
		Addr:      g.s.addr(r),
		UserAgent: r.UserAgent(),
		Detail:    "gone: " + point,
	})
	h := w.Header()
	h.Set("Link", "<"+successor+`>; rel="successor-version"`)
	h.Add("Access-Control-Expose-Headers", "Link")
	h.Set("Cache-Control", "no-store")
	return successor
}

// goneError is the refusal of retirement.md R3: a positive code, which every measured client prints.
func goneError(successor, mcpPath string) *jsonrpc.Error {
	data := jsonrpc.Set(nil, jsonrpc.Quote(stageGone), "stage")
	data = jsonrpc.Set(data, jsonrpc.Quote(successor), "successor")
	return &jsonrpc.Error{Code: http.StatusGone, Message: goneSentence(successor, mcpPath), Data: data}
}

// maxSentence bounds a refusal's text, in bytes (retirement.md R3).
const maxSentence = 240

// goneSentence says what happened and what to do, with the absolute URL as long as that fits.
func goneSentence(successor, mcpPath string) string {
	for _, to := range []string{successor, "the path " + mcpPath, "the URL in the Link header"} {
		if s := "The HTTP+SSE transport (MCP 2024-11-05) is no longer served here; connect with Streamable HTTP to " + to + " instead."; len(s) <= maxSentence {
			return s
		}
	}
	panic("bridge: the last sentence is too long")
}
