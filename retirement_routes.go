package bridge

import (
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/internal/guard"
	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
	"github.com/mcp-dualstack/bridge/retire"
)

// An opening is how the front is to begin a stream.
type opening struct {
	tombstone bool          // everything on it is refused
	retry     time.Duration // told to the client; zero: not said
	full      http.Handler  // answers when there is no room for one more tombstone
}

const (
	tombstoneRetry = 10 * time.Minute // retirement.md 6, closed
	brownoutRetry  = 30 * time.Second // a client that loses its stream has it again soon, and not with all others at once
)

// stream is the GET route: the stage first, then the front.
func (t *retirement) stream(serve func(http.ResponseWriter, *http.Request, opening)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s := t.state()
		d := t.decide(s, retire.AtGet, t.client(r), false)
		t.header(w, r, s)
		switch {
		case d.Status != 0:
			t.refuseStream(w, r, s, d)
		case d.Tombstone:
			full := d
			full.Status = http.StatusMethodNotAllowed
			serve(w, r, opening{tombstone: true, retry: tombstoneRetry, full: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				t.refuseStream(w, r, s, full)
			})})
		case d.Mode != "":
			serve(w, r, opening{retry: brownoutRetry})
		default:
			serve(w, r, opening{})
		}
	})
}

// refuseStream answers GET with a status. At gone it is 405 and not 410 where POST on the same path is served: some clients
// fall back to that only from 404 and 405 (retirement.md 0.3).
func (t *retirement) refuseStream(w http.ResponseWriter, r *http.Request, s *retire.State, d retire.Decision) {
	t.seen(exchange.SeenRefused, retire.AtGet, d, t.client(r))
	l := t.links(r)
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	switch {
	case d.Status == http.StatusServiceUnavailable:
		t.retryAfter(w, r, d)
	case t.s.Retirement.SameURLOff:
		d.Status = http.StatusGone
	default:
		h.Set("Allow", "POST, GET, DELETE")
	}
	answer(w, r, d.Status, note{Error: s.Sentence(d, l), Data: s.Data(d, l)})
}

func (t *retirement) retryAfter(w http.ResponseWriter, r *http.Request, d retire.Decision) {
	after := d.RetryAfter(time.Now(), r.RemoteAddr)
	w.Header().Set("Retry-After", strconv.Itoa(int(after/time.Second)))
}

// messages is the POST route. whose returns who has the session that a request names, if anybody has.
func (t *retirement) messages(next http.Handler, whose func(*http.Request) (exchange.Client, bool)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s := t.state()
		t.header(w, r, s)
		if !s.Stage.Reached(retire.Brownout) {
			next.ServeHTTP(w, r)
			return
		}
		c, ok := whose(r)
		if !ok {
			c = t.client(r)
		}
		if d := t.decide(s, retire.AtMessage, c, false); d.Status != 0 {
			t.refuseMessage(w, r, s, d)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// lost answers a message for which there is no session, or reports false where that means nothing yet. Until drain the status is
// 404, as ever: a client may have lost its stream. The body names the successor from closed on.
func (t *retirement) lost(w http.ResponseWriter, r *http.Request) bool {
	s := t.state()
	if !s.Stage.Reached(retire.Closed) {
		return false
	}
	d := t.decide(s, retire.AtMessage, t.client(r), false)
	if d.Exempt {
		return false
	}
	d.Refuse, d.Code, d.Status = true, http.StatusGone, d.Unknown
	t.refuseMessage(w, r, s, d)
	return true
}

// refuseMessage answers POST with a status and a JSON-RPC error that carries the request's id; that body is what users of
// the TypeScript SDK see.
func (t *retirement) refuseMessage(w http.ResponseWriter, r *http.Request, s *retire.State, d retire.Decision) {
	t.seen(exchange.SeenRefused, retire.AtMessage, d, t.client(r))
	id, ok := t.readID(w, r)
	if !ok {
		return
	}
	l := t.links(r)
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	if d.Status == http.StatusServiceUnavailable {
		t.retryAfter(w, r, d)
	}
	w.WriteHeader(d.Status)
	_, _ = w.Write(jsonrpc.AppendError(nil, id, refusal(s, d, l))) // #nosec G705 -- JSON, no page; nobody to tell: the client went away
}

// maxIDBody is how much of a refused message is read for its id, in bytes. Nobody has been asked who they are at that point, and what
// is larger is refused without its id.
const maxIDBody = 64 << 10

const refusedBodyTimeout = 30 * time.Second // where no other is configured

// readID returns the raw id of the request in r, nil if there is none to be found. ok is false when the client has gone.
func (t *retirement) readID(w http.ResponseWriter, r *http.Request) (id []byte, ok bool) {
	limit, patience := t.s.MaxBodyBytes, t.s.BodyTimeout
	if limit == 0 {
		limit = maxIDBody
	}
	if patience == 0 {
		patience = refusedBodyTimeout
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(patience)) // a reader without deadlines has none to keep
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, min(limit, maxIDBody)))
	if _, large := errors.AsType[*http.MaxBytesError](err); err != nil {
		return nil, large
	}
	if m, bad := jsonrpc.Scan(body); bad == nil && m.Kind == jsonrpc.Request {
		id = m.ID
	}
	return id, true
}

// refusal is the error of retirement.md R3: a positive code, which every measured client prints.
func refusal(s *retire.State, d retire.Decision, l retire.Links) *exchange.Error {
	return &exchange.Error{Code: d.Code, Message: s.Sentence(d, l), Data: s.Data(d, l)}
}

// newClient answers POST on the SSE path where Streamable HTTP is not served there (retirement.md 6). A client that tries it falls
// back to GET from 405.
func (t *retirement) newClient(w http.ResponseWriter, r *http.Request) {
	s, l := t.state(), t.links(r)
	t.header(w, r, s)
	t.observe(exchange.Observation{
		Kind: exchange.SeenRefused, Transport: exchange.StreamableHTTP, Version: r.Header.Get(headerVersion), Principal: guard.IdentityOf(r).Principal, Addr: t.s.addr(r),
		UserAgent: r.UserAgent(), Detail: "same URL off",
	})
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	switch {
	case s.Stage != retire.Gone:
		h.Set("Allow", http.MethodGet)
		answer(w, r, http.StatusMethodNotAllowed, note{Error: "Streamable HTTP is served at " + l.Successor + ", not on this path", Successor: l.Successor})
	case t.s.Retirement.GoneRedirect:
		h.Set("Location", l.Successor)
		w.WriteHeader(http.StatusPermanentRedirect)
	default:
		id, ok := t.readID(w, r)
		if !ok {
			return
		}
		d := retire.Decision{Stage: s.Stage, Refuse: true, Code: http.StatusGone}
		h.Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusGone)
		_, _ = w.Write(jsonrpc.AppendError(nil, id, refusal(s, d, l))) // nobody to tell: the client went away
	}
}
