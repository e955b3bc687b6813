package bridge

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/gorilla/mux"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/internal/guard"
	"github.com/mcp-dualstack/bridge/retire"
	"github.com/mcp-dualstack/bridge/streamable"
)

// Header names used here, in canonical form.
const (
	headerSession = "Mcp-Session-Id"
	headerVersion = "Mcp-Protocol-Version"
)

// sessionParam is the query parameter that names the session on the legacy message route.
const sessionParam = "sessionId"

// legacyRoutes are the routes of HTTP+SSE in their current stage.
type legacyRoutes struct {
	stream   http.Handler // GET of the SSE path without a session of Streamable HTTP
	messages http.Handler // POST of the message path
	knows    func(id, principal string) bool

	drain, shutdown shutdownFunc
	close           func() error
}

type shutdownFunc func(context.Context) error

// routes returns the router. Which method goes where on one path is decided in byMethod, so that a 405
// names what is allowed; the router only tells paths apart.
func (b *Bridge) routes() http.Handler {
	s := b.s
	r := mux.NewRouter().SkipClean(true)
	mcp := b.admitted(b.mcp)
	r.Handle(s.MCPPath, mcp)
	b.routeMetadata(r)
	shared := byMethod{http.MethodGet: b.stream(mcp), http.MethodPost: b.admitted(b.sameURL()), http.MethodDelete: mcp}
	if s.Retirement.SameURLOff {
		shared = byMethod{http.MethodGet: b.legacy.stream, http.MethodPost: http.HandlerFunc(b.retirement.newClient)}
	}
	if s.MessagePath == s.SSEPath {
		shared[http.MethodPost] = bySession(b.legacy.messages, shared[http.MethodPost])
	} else {
		r.Handle(s.MessagePath, byMethod{http.MethodPost: b.legacy.messages})
	}
	r.Handle(s.SSEPath, shared)
	status := http.HandlerFunc(b.retirement.serveStatus)
	r.Handle(statusPath, byMethod{http.MethodGet: status, http.MethodHead: status})
	r.NotFoundHandler = http.HandlerFunc(b.serveNotFound)
	return matched{r}
}

// matched serves what a router finds. The router would copy the request twice, to keep the route and its variables in it, which nobody
// here asks for.
type matched struct{ *mux.Router }

func (m matched) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var found mux.RouteMatch
	m.Match(r, &found) // NotFoundHandler is found where nothing else is
	found.Handler.ServeHTTP(w, r)
}

// stream tells the GETs of the SSE path apart (retirement.md R4): with a session id it is the
// standing stream of Streamable HTTP, without one it is legacy.
func (b *Bridge) stream(mcp http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if len(r.Header[headerSession]) > 0 {
			mcp.ServeHTTP(w, r)
			return
		}
		b.legacy.stream.ServeHTTP(w, r)
	})
}

// bySession tells the POSTs apart where the message route is the SSE path itself.
func bySession(messages, other http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Has(sessionParam) {
			messages.ServeHTTP(w, r)
			return
		}
		other.ServeHTTP(w, r)
	})
}

// transport returns which transport a request asked for, by where it would have gone.
func (b *Bridge) transport(r *http.Request) string {
	p := route(r.URL.Path, b.s.prefix)
	stream := p == b.s.SSEPath && r.Method == http.MethodGet && (len(r.Header[headerSession]) == 0 || b.s.Retirement.SameURLOff)
	message := p == b.s.MessagePath && r.Method == http.MethodPost && (p != b.s.SSEPath || r.URL.Query().Has(sessionParam))
	if stream || message {
		return exchange.HTTPSSE
	}
	return exchange.StreamableHTTP
}

// sameURL serves Streamable HTTP on the SSE path and reports each conversation that begins there.
func (b *Bridge) sameURL() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if len(r.Header[headerSession]) == 0 {
			b.observe(exchange.Observation{
				Kind:      exchange.SeenSameURL,
				Transport: exchange.StreamableHTTP,
				Version:   r.Header.Get(headerVersion),
				Principal: guard.IdentityOf(r).Principal,
				Addr:      b.s.addr(r),
				UserAgent: r.UserAgent(),
			})
		}
		b.mcp.ServeHTTP(w, r)
	})
}

// byMethod serves one path by method and answers 405 with Allow to the rest.
type byMethod map[string]http.Handler

func (m byMethod) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if h := m[r.Method]; h != nil {
		h.ServeHTTP(w, r)
		return
	}
	allow := strings.Join(slices.Sorted(maps.Keys(m)), ", ")
	w.Header().Set("Allow", allow)
	answer(w, r, http.StatusMethodNotAllowed, note{Error: fmt.Sprintf("this path takes %s only", allow)})
}

func (b *Bridge) serveNotFound(w http.ResponseWriter, r *http.Request) {
	s := b.s
	paths := "Streamable HTTP is served on " + s.MCPPath
	if !s.Retirement.SameURLOff {
		paths += " and " + s.SSEPath
	}
	if b.retirement.state().Stage != retire.Gone {
		paths += fmt.Sprintf(", HTTP+SSE on %s (messages on %s)", s.SSEPath, s.MessagePath)
	}
	answer(w, r, http.StatusNotFound, note{Error: "nothing is served on this path; " + paths, Successor: s.successor(r)})
}

// streamable returns the options of the Streamable HTTP front.
func (s *settings) streamable(observe func(exchange.Observation)) *streamable.Options {
	return &streamable.Options{
		Addr: s.addr, Observe: observe, Logger: s.Logger, Principal: s.principal, Authorization: s.passed(s.authorization),
		KeepAlive: s.KeepAlive, AskTimeout: s.AskTimeout, IdleTimeout: s.IdleTimeout, WriteTimeout: s.WriteTimeout,
		MaxSessions: s.MaxSessions, MaxStateless: s.MaxStateless, MaxCalls: s.MaxCalls, MaxBodyBytes: s.MaxBodyBytes, StreamBytes: s.StreamBytes,
		BodyTimeout: s.BodyTimeout, Grace: s.Grace, PollAfter: s.PollAfter, MaxStreamAge: s.MaxStreamAge,
		MaxSessionsPerPrincipal: s.MaxSessionsPerPrincipal, MaxCallsInTotal: s.MaxCallsInTotal,
		MaxStreams: s.MaxStreams, MaxStreamsPerSession: s.MaxStreamsPerSession,
		ReplayEvents: s.ReplayEvents, ReplayBytes: s.ReplayBytes, ReplayAge: s.ReplayAge,
		JSONResponses: s.JSONResponses, AcceptRawName: s.AcceptRawName,
	}
}
