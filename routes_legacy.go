//go:build !nolegacy

package bridge

import (
	"net/http"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/internal/guard"
	"github.com/mcp-dualstack/bridge/legacy"
)

// LegacyBuilt says whether the HTTP+SSE transport is part of this build; the build tag nolegacy leaves it out.
const LegacyBuilt = true

func newLegacyRoutes(h exchange.Handler, s *settings, t *retirement, admitted func(http.Handler) http.Handler) legacyRoutes {
	if t.fixed {
		return t.goneRoutes()
	}
	f := legacy.New(h, &legacy.Options{
		Addr: s.addr, Observe: t.observe, Logger: s.Logger, Stage: legacyStage(t),
		Principal: s.principal, Authorization: s.passed(s.authorization),
		KeepAlive: s.KeepAlive, AskTimeout: s.AskTimeout, WriteTimeout: s.WriteTimeout, BridgeInfo: s.info(),
		MaxSessions: s.MaxSessions, MaxCalls: s.MaxCalls, MaxBodyBytes: s.MaxBodyBytes, StreamBytes: s.StreamBytes,
		BodyTimeout: s.BodyTimeout, MaxStreamAge: s.MaxStreamAge, Reattach: s.Reattach,
		MaxSessionsPerPrincipal: s.MaxSessionsPerPrincipal, MaxCallsInTotal: s.MaxCallsInTotal, MaxTombstones: s.Retirement.MaxTombstones,
		PublicURL: s.publicURL, SSEPath: s.SSEPath, MessagePath: s.MessagePath,
		EndpointURL: s.EndpointURL, Forwarded: s.forwarded,
	})
	t.follow(func(w *windDown) {
		if w == nil {
			f.WindDown(nil)
			return
		}
		f.WindDown(&legacy.WindDown{Idle: w.idle, Deadline: w.deadline, Spread: w.spread, Tombstones: w.tombstones})
	})
	open := func(w http.ResponseWriter, r *http.Request, o opening) {
		if o.tombstone && !guard.Admitted(r) && len(r.Header["Authorization"]) == 0 { // nobody is to log in for a refusal (report R51)
			o.full.ServeHTTP(w, r)
			return
		}
		admitted(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			f.ServeStream(w, r, legacy.Opening{Tombstone: o.tombstone, Retry: o.retry, Full: o.full})
		})).ServeHTTP(w, r)
	}
	return legacyRoutes{
		stream: asSpelled(t.stream(open)), messages: t.messages(admitted(f.Messages()), f.Client), knows: f.Knows,
		drain: f.Drain, shutdown: f.Shutdown, close: f.Close,
	}
}

// legacyStage tells the transport what the stage does to its clients.
func legacyStage(t *retirement) legacy.Stage {
	return legacy.Stage{
		Refuse: func(r *http.Request, q legacy.Question) *legacy.Refusal {
			c := q.Client
			c.Requested = q.Requested
			e, end := t.request(r, q.Method, c, q.Fresh)
			if e == nil {
				return nil
			}
			return &legacy.Refusal{Error: e, End: end}
		},
		Greet:  t.greeting,
		Notice: func(r *http.Request, _ exchange.Client) []byte { return t.notice(r) },
		Lost:   t.lost,
		Stays:  t.stays,
	}
}
