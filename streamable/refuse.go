package streamable

import (
	"net/http"
	"strconv"
	"time"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
	core "github.com/mcp-dualstack/bridge/internal/session"
	"github.com/mcp-dualstack/bridge/negotiate"
)

// Reasons of refusals made here, for data.bridge.reason.
const (
	reasonShutdown  = "shutting_down"
	reasonReplayGap = "replay_gap"
)

const allowed = "POST, GET, DELETE"

// A refusal is the answer to an HTTP exchange that goes no further.
type refusal struct {
	status     int
	retryAfter time.Duration // zero: not said
	challenge  string        // WWW-Authenticate; empty: none
	bound      string        // the option whose bound was reached; empty: none
	err        *jsonrpc.Error
}

func refused(status, code int, reason, format string, args ...any) *refusal {
	return &refusal{status: status, err: negotiate.Refused(code, reason, format, args...)}
}

var (
	refusedAccept = refused(http.StatusNotAcceptable, jsonrpc.CodeInvalidRequest, negotiate.ReasonNotAcceptable,
		"Not acceptable: the Accept header must admit application/json or text/event-stream; clients list both")
	refusedAcceptStream = refused(http.StatusNotAcceptable, jsonrpc.CodeInvalidRequest, negotiate.ReasonNotAcceptable,
		"Not acceptable: this is answered with an event stream only; the Accept header must admit text/event-stream")
	refusedContentType = refused(http.StatusUnsupportedMediaType, jsonrpc.CodeInvalidRequest, negotiate.ReasonMediaType,
		"Unsupported media type: send Content-Type: application/json, in UTF-8")
	refusedEncoding = refused(http.StatusUnsupportedMediaType, jsonrpc.CodeInvalidRequest, negotiate.ReasonMediaType,
		"Unsupported content coding: send the body as it is, without Content-Encoding")
	refusedTwoIDs = refused(http.StatusBadRequest, jsonrpc.CodeInvalidRequest, negotiate.ReasonMalformedRequest,
		"Invalid request: Mcp-Session-Id occurs more than once; something on the way has added to the client's")
	refusedShutdown = &refusal{status: http.StatusServiceUnavailable, retryAfter: time.Second, err: negotiate.Refused(jsonrpc.CodeInternal, reasonShutdown,
		"the bridge is shutting down; try again in a moment")}
	refusedSlow = refused(http.StatusRequestTimeout, jsonrpc.CodeInvalidRequest, negotiate.ReasonBodySlow,
		"Invalid request: the body did not arrive in time")
	refusedNoID = refused(http.StatusBadRequest, jsonrpc.CodeInvalidRequest, negotiate.ReasonMissingSession,
		"Invalid request: the Mcp-Session-Id header is missing; initialize first and send the id that the answer carries")
	refusedUnknown = refused(http.StatusNotFound, jsonrpc.CodeInvalidRequest, negotiate.ReasonUnknownSession,
		"Session not found: it has ended or never was; start a new one with initialize and without Mcp-Session-Id")
	refusedExists = refused(http.StatusBadRequest, jsonrpc.CodeInvalidRequest, negotiate.ReasonSessionExists,
		"Invalid request: initialize names a session that is open; leave out Mcp-Session-Id to open another, or end this one with DELETE")
	refusedGap = refused(http.StatusBadRequest, jsonrpc.CodeInvalidRequest, reasonReplayGap,
		"the stream of this Last-Event-ID is not kept any more, so that what followed cannot be sent again; repeat the request if that is safe")
	refusedBatch = refused(http.StatusBadRequest, jsonrpc.CodeInvalidRequest, negotiate.ReasonBatch,
		"Invalid request: batches belong to revision 2025-03-26; send each message in a POST of its own")
	refusedModernBatch = refused(http.StatusBadRequest, jsonrpc.CodeInvalidRequest, negotiate.ReasonBatch,
		"Invalid request: 2026-07-28 has no batches; send each request in a POST of its own")
	refusedBatchElement = refused(http.StatusBadRequest, jsonrpc.CodeInvalidRequest, negotiate.ReasonBatch,
		"Invalid request: neither initialize nor a request of 2026-07-28 may be in a batch; send it in a POST of its own")
)

// refuse answers with an error; id is that of the request, nil if there is none or it was not read.
func (c *carrier) refuse(r *http.Request, id []byte, x *refusal) {
	c.f.o.Observe(c.f.observation(r, exchange.SeenRefused, reasonOf(x.err)))
	c.reached(r, x)
	c.answerRefusal(id, x)
}

// refuseInitialize is refuse for an initialize request: the observation has who the client says it is.
func (c *carrier) refuseInitialize(r *http.Request, m *jsonrpc.Message, x *refusal) {
	o, said := c.f.observation(r, exchange.SeenRefused, reasonOf(x.err)), core.RefusedInitialize(m, x.err)
	o.Version, o.Info = said.Version, said.Info
	c.f.o.Observe(o)
	c.reached(r, x)
	c.answerRefusal(m.ID, x)
}

// reached reports the bound that a refusal is for.
func (c *carrier) reached(r *http.Request, x *refusal) {
	if x.bound != "" {
		c.f.o.Observe(c.f.observation(r, exchange.SeenBound, x.bound))
	}
}

// answerRefusal writes x as the answer.
func (c *carrier) answerRefusal(id []byte, x *refusal) {
	c.answer(jsonrpc.AppendError(nil, id, x.err), answer{x.status, x.retryAfter, x.challenge})
}

// answer writes a response as JSON.
func (c *carrier) answer(msg []byte, a answer) {
	h := c.w.Header()
	if a.retryAfter > 0 {
		seconds := int64((a.retryAfter + time.Second - 1) / time.Second)
		h["Retry-After"] = []string{strconv.FormatInt(seconds, 10)}
	}
	if a.challenge != "" {
		h["Www-Authenticate"] = []string{a.challenge}
	}
	c.json(max(a.status, http.StatusOK), msg)
}

// methodNotAllowed answers 405 with text that is no JSON-RPC: clients of both transports take that as
// the sign to try the other one (clients.md 3).
func (c *carrier) methodNotAllowed() {
	c.w.Header()["Allow"] = []string{allowed}
	http.Error(c.w, "method not allowed here: POST a message, or GET with the id of a session", http.StatusMethodNotAllowed)
}

// reasonOf reads data.bridge.reason.
func reasonOf(e *jsonrpc.Error) string {
	s, _ := jsonrpc.String(jsonrpc.Get(e.Data, "bridge", "reason"))
	return s
}

func (f *Front) observation(r *http.Request, kind, detail string) exchange.Observation {
	return exchange.Observation{
		Kind: kind, Detail: detail,
		Transport: exchange.StreamableHTTP,
		Session:   r.Header.Get(negotiate.HeaderSession),
		Version:   r.Header.Get(negotiate.HeaderVersion),
		Principal: f.o.Principal(r),
		Addr:      f.o.Addr(r),
		UserAgent: r.UserAgent(),
	}
}
