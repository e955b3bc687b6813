package legacy

import (
	"mime"
	"net/http"
	"strconv"
	"strings"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
	"github.com/mcp-dualstack/bridge/negotiate"
)

// A refusal is an answer to an HTTP request that goes no further. Its body is a JSON-RPC error, because the
// text of one is what clients show (clients.md 7).
type refusal struct {
	status int
	id     []byte // raw id of the request, nil if it could not be read
	err    *exchange.Error
	header [2]string // name and value of one more field; empty: none
	bound  string    // the option whose bound was reached; empty: none
}

// refuse answers a request and reports it.
func (f *Front) refuse(w http.ResponseWriter, r *http.Request, x *refusal) {
	f.observe(r, exchange.SeenRefused, strconv.Itoa(x.status)+" "+http.StatusText(x.status))
	f.seeBound(r, x)
	h := w.Header()
	if x.header[0] != "" {
		h.Set(x.header[0], x.header[1])
	}
	body := jsonrpc.AppendError(nil, x.id, x.err)
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(x.status)
	_, _ = w.Write(body) // #nosec G705 -- JSON, no page; a client that is gone needs no answer
}

// seeBound reports the bound that x is for, if it is for one.
func (f *Front) seeBound(r *http.Request, x *refusal) {
	if x.bound != "" {
		f.observe(r, exchange.SeenBound, x.bound)
	}
}

func (f *Front) observe(r *http.Request, kind, detail string) {
	f.o.Observe(exchange.Observation{
		Kind:      kind,
		Transport: exchange.HTTPSSE,
		Version:   r.Header.Get(negotiate.HeaderVersion),
		Principal: f.o.Principal(r),
		Addr:      f.o.Addr(r),
		UserAgent: r.UserAgent(),
		Detail:    detail,
	})
}

// reasonMethod is for data.bridge.reason.
const reasonMethod = "method_not_allowed"

func notAllowed(allow string) *refusal {
	return &refusal{status: http.StatusMethodNotAllowed, header: [2]string{"Allow", allow},
		err: negotiate.Refused(jsonrpc.CodeInvalidRequest, reasonMethod, "this URL takes %s only", allow)}
}

func notAcceptable() *refusal {
	return &refusal{status: http.StatusNotAcceptable,
		err: negotiate.Refused(jsonrpc.CodeInvalidRequest, negotiate.ReasonNotAcceptable, "this URL answers with text/event-stream, which the Accept header does not admit")}
}

func unavailable(err error) *refusal {
	return &refusal{status: http.StatusServiceUnavailable, header: [2]string{"Retry-After", retryAfter},
		err: negotiate.Refused(jsonrpc.CodeInternal, exchange.ReasonClosed, "%s; try again later", err)}
}

func tooManySessions() *refusal {
	return &refusal{status: http.StatusServiceUnavailable, header: [2]string{"Retry-After", retryAfter}, bound: "max_sessions",
		err: negotiate.Refused(jsonrpc.CodeInternal, negotiate.ReasonTooManySessions, "too many sessions; try again later")}
}

func tooManyOfOne() *refusal {
	return &refusal{status: http.StatusTooManyRequests, header: [2]string{"Retry-After", retryAfter}, bound: "max_sessions_per_principal",
		err: negotiate.Refused(jsonrpc.CodeInternal, negotiate.ReasonTooManySessions, "too many sessions of yours are open; close some")}
}

func badRequest(e *exchange.Error, id []byte) *refusal {
	return &refusal{status: http.StatusBadRequest, err: e, id: id}
}

// acceptsStream reports whether the Accept header admits text/event-stream. An absent one admits everything (RFC 9110, 12.5.1).
func acceptsStream(h http.Header) bool {
	lines := h["Accept"]
	if len(lines) == 0 {
		return true
	}
	for part := range strings.SplitSeq(strings.Join(lines, ","), ",") {
		kind, params, _ := strings.Cut(part, ";")
		switch strings.ToLower(strings.TrimSpace(kind)) {
		case "text/event-stream", "text/*", "*/*":
			if !hasZeroWeight(params) {
				return true
			}
		}
	}
	return false
}

// hasZeroWeight reports whether the parameters of a media range have q=0.
func hasZeroWeight(params string) bool {
	for p := range strings.SplitSeq(params, ";") {
		name, value, _ := strings.Cut(p, "=")
		if strings.EqualFold(strings.TrimSpace(name), "q") {
			q, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			return err == nil && q == 0
		}
	}
	return false
}

// isJSON reports whether Content-Type is application/json, in any spelling, in UTF-8 (RFC 9110, 8.3).
func isJSON(h http.Header) bool {
	kind, params, err := mime.ParseMediaType(h.Get("Content-Type"))
	if err != nil && err != mime.ErrInvalidMediaParameter || kind != "application/json" {
		return false
	}
	charset, ok := params["charset"]
	return !ok || strings.EqualFold(charset, "utf-8") || strings.EqualFold(charset, "utf8")
}

// isEncoded reports whether the body is said to be in a content coding (RFC 9110, 8.4).
func isEncoded(h http.Header) bool {
	for _, coding := range h["Content-Encoding"] {
		if !strings.EqualFold(strings.TrimSpace(coding), "identity") {
			return true
		}
	}
	return false
}
