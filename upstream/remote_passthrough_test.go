package upstream_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
	"github.com/mcp-dualstack/bridge/negotiate"
	"github.com/mcp-dualstack/bridge/upstream"
)

func passThrough() *upstream.Options {
	return &upstream.Options{HTTP: &upstream.HTTPOptions{PassThrough: true}}
}

// withToken is a client with credentials of its own.
func withToken(revision negotiate.Revision, token string) exchange.Client {
	c := webClient(revision, nil)
	c.Authorization = token
	return c
}

// What a server shows to nobody is not held against those who have credentials (translation.md 13, R46): neither that it is
// not there, nor what it speaks.
func TestPassThroughVerdictOfNobody(t *testing.T) {
	modern := modernStub(func(w http.ResponseWriter, h *hit) { say(w, h, `{}`) })
	for name, nobody := range map[string]func(http.ResponseWriter, *hit){
		"not found": status(http.StatusNotFound, "text/plain", "no"),
		"another":   legacyStub("2024-11-05", nil),
		"401":       status(http.StatusUnauthorized, "", ""),
	} {
		t.Run(name, func(t *testing.T) {
			inWeb(t, passThrough(), func(w http.ResponseWriter, h *hit) {
				if h.Header.Get("Authorization") == "" {
					nobody(w, h)
					return
				}
				modern(w, h)
			}, func(ctx context.Context, s *webStub, r *upstream.Remote) {
				_, _ = r.Probe(ctx) // as at the start, before any client came
				sess, err := r.Open(ctx, withToken(negotiate.Rev20260728, "Bearer a"))
				if err != nil {
					t.Fatalf("with a token: %v", err)
				}
				if _, err := sess.Call(ctx, exchange.Request{Method: "prompts/get"}, nil); err != nil {
					t.Error(err)
				}
				asked := s.count("server/discover")
				if _, err := r.Open(ctx, withToken(negotiate.Rev20260728, "Bearer a")); err != nil {
					t.Error(err)
				}
				equal(t, "asked again", s.count("server/discover")-asked, 0)
			})
		})
	}
}

// A server of 2026-07-28 shows itself to each caller, and one that it refuses learns nothing of it from what another saw.
func TestPassThroughViews(t *testing.T) {
	const challenge = `Bearer realm="x"`
	inWeb(t, passThrough(), func(w http.ResponseWriter, h *hit) {
		token := h.Header.Get("Authorization")
		if token == "" {
			w.Header().Set("WWW-Authenticate", challenge)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		say(w, h, strings.Replace(okDiscover, `"ttlMs"`, `"instructions":"for `+token+`","ttlMs"`, 1))
	}, func(ctx context.Context, s *webStub, r *upstream.Remote) {
		for range 2 {
			for _, token := range []string{"Bearer a", "Bearer b"} {
				sess, err := r.Open(ctx, withToken(negotiate.Rev20260728, token))
				if err != nil {
					t.Fatal(err)
				}
				equal(t, "instructions", string(sess.Server().Instructions), `"for `+token+`"`)
			}
			_, err := r.Open(ctx, withToken(negotiate.Rev20260728, ""))
			f, ok := errors.AsType[*exchange.Failure](err)
			if !ok || f.Status != http.StatusUnauthorized || f.Challenge != challenge {
				t.Errorf("without a token: got %v, want 401 and its challenge", err)
			}
		}
		// The probe of the first, what each sees, and the refusals.
		equal(t, "requests", len(s.seen()), 1+2+2)
	})
}

// TestPassThroughMaxCallers: no more views are remembered than are allowed.
func TestPassThroughMaxCallers(t *testing.T) {
	o := passThrough()
	o.HTTP.MaxCallers = 2
	inWeb(t, o, modernStub(nil), func(ctx context.Context, s *webStub, r *upstream.Remote) {
		open := func(token string) {
			t.Helper()
			if _, err := r.Open(ctx, withToken(negotiate.Rev20260728, token)); err != nil {
				t.Fatal(err)
			}
		}
		for _, token := range []string{"a", "b", "c"} {
			open(token)
		}
		asked := len(s.seen())
		open("c")
		open("b")
		equal(t, "asked of those that are remembered", len(s.seen())-asked, 0)
		open("a")
		equal(t, "asked of the one that is not", len(s.seen())-asked, 1)
	})
}

// A memory is a server of sessions that remembers for each who has used it, and with which credentials.
type memory struct {
	mu       sync.Mutex
	sessions int
	users    map[string][]string // by session
	tokens   map[string]string
	mixed    bool // a session was used with several
}

func (m *memory) answer(w http.ResponseWriter, h *hit) {
	m.mu.Lock()
	defer m.mu.Unlock()
	id, token := h.Header.Get(negotiate.HeaderSession), h.Header.Get("Authorization")
	switch {
	case h.name() == "initialize":
		m.sessions++
		id = fmt.Sprint("S", m.sessions)
		m.tokens[id] = token
		w.Header().Set(negotiate.HeaderSession, id)
		say(w, h, okInitialize("2025-11-25"))
		return
	case id == "":
		refuse(w, h, http.StatusBadRequest, "null", `{"code":-32000,"message":"Bad Request: Mcp-Session-Id header is required"}`)
		return
	case m.tokens[id] != token:
		m.mixed = true
	}
	if h.m.Kind != jsonrpc.Request {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	m.users[id] = append(m.users[id], toolName(h))
	say(w, h, `{"content":[],"users":"`+strings.Join(m.users[id], " ")+`"}`)
}

// TestR22StateOfOnePrincipal: a server of sessions behind clients that have none. A single call without anything before it succeeds; of ten at
// once by two principals none sees what the server keeps for the other, nor a session with other credentials than its own.
func TestR22StateOfOnePrincipal(t *testing.T) {
	for _, through := range []bool{false, true} {
		for _, capabilities := range []string{`{}`, `{"elicitation":{}}`, `{"roots":{}}`} {
			t.Run(fmt.Sprintf("pass-through %v, %s", through, capabilities), func(t *testing.T) {
				m := &memory{users: make(map[string][]string), tokens: make(map[string]string)}
				o := &upstream.Options{Sharing: "pool", HTTP: &upstream.HTTPOptions{PassThrough: through}}
				inWeb(t, o, m.answer, func(ctx context.Context, _ *webStub, r *upstream.Remote) {
					use := func(who string) {
						c := webClient(negotiate.Rev20251125, nil)
						c.Capabilities, c.Principal, c.Authorization = []byte(capabilities), who, "Bearer "+who
						if through {
							c.Principal = "" // the same for all, as when nobody tells who they are
						}
						sess, err := r.Open(ctx, c)
						if err != nil {
							t.Error(err)
							return
						}
						defer sess.Close()
						resp, err := sess.Call(ctx, named(who), nil)
						users, _ := jsonrpc.String(jsonrpc.Get(resp.Result, "users"))
						if err != nil || resp.Error != nil || strings.Trim(users, who+" ") != "" || users == "" {
							t.Errorf("%s: got %q, %v, %v", who, users, resp.Error, err)
						}
					}
					use("a")
					var wg sync.WaitGroup
					for i := range 10 {
						wg.Go(func() { use([]string{"a", "b"}[i%2]) })
					}
					wg.Wait()
				})
				if m.mixed {
					t.Error("a session was used with other credentials than its own")
				}
			})
		}
	}
}

// TestPassThroughIsNotShared: one session for everybody cannot have everybody's credentials.
func TestPassThroughIsNotShared(t *testing.T) {
	o := passThrough()
	o.Sharing, o.Stateless = "shared", true
	if _, err := upstream.URL("http://localhost/mcp", o); err == nil || !strings.Contains(err.Error(), "pass-through") {
		t.Errorf("got %v", err)
	}
}

// R46: refused in the middle of a session, or without one, whatever the transport: status and challenge of that call, nothing is sent again, and
// the session goes on with the credentials that it has.
func TestR46Challenges(t *testing.T) {
	refusal := func(w http.ResponseWriter, status int) {
		w.Header().Set("WWW-Authenticate", fmt.Sprintf(`Bearer error="%d"`, status))
		w.WriteHeader(status)
	}
	check := func(ctx context.Context, sess exchange.Session, tokens func() []string) {
		t.Helper()
		for _, status := range []int{http.StatusUnauthorized, http.StatusForbidden} {
			before := len(tokens())
			_, err := sess.Call(ctx, exchange.Request{Method: "prompts/get", Params: fmt.Appendf(nil, `{"name":"%d"}`, status)}, nil)
			f, ok := errors.AsType[*exchange.Failure](err)
			if !ok || f.Reason != exchange.ReasonAuth || f.Status != status || f.Challenge != fmt.Sprintf(`Bearer error="%d"`, status) {
				t.Errorf("%d: got %+v", status, err)
			}
			equal(t, "requests", len(tokens())-before, 1)
		}
		if _, err := sess.Call(ctx, named("x"), nil); err != nil {
			t.Errorf("after the refusals: %v", err)
		}
		for _, token := range tokens() {
			equal(t, "credentials", token, "Bearer own")
		}
	}
	call := func(w http.ResponseWriter, h *hit) {
		switch toolName(h) {
		case "401":
			refusal(w, http.StatusUnauthorized)
		case "403":
			refusal(w, http.StatusForbidden)
		default:
			say(w, h, `{}`)
		}
	}
	for name, test := range map[string]struct {
		revision negotiate.Revision
		answer   func(http.ResponseWriter, *hit)
	}{
		"sessions":  {negotiate.Rev20251125, legacyStub("2025-11-25", call)},
		"stateless": {negotiate.Rev20260728, modernStub(call)},
	} {
		t.Run(name, func(t *testing.T) {
			o := passThrough()
			o.HTTP.Headers = http.Header{"Authorization": {"Bearer of the bridge"}}
			inWeb(t, o, test.answer, func(ctx context.Context, s *webStub, r *upstream.Remote) {
				sess, err := r.Open(ctx, withToken(test.revision, "Bearer own"))
				if err != nil {
					t.Fatal(err)
				}
				if _, err := sess.Call(ctx, named("first"), nil); err != nil {
					t.Fatal(err)
				}
				check(ctx, sess, func() (tokens []string) {
					s.mu.Lock()
					defer s.mu.Unlock()
					for _, h := range s.hits {
						tokens = append(tokens, h.Header.Get("Authorization"))
					}
					return tokens
				})
			})
		})
	}
	t.Run("SSE", func(t *testing.T) {
		s := &sseScript{call: func(x *sseTalk, w http.ResponseWriter, h *hit) {
			if name := toolName(h); name == "401" || name == "403" {
				call(w, h)
				return
			}
			w.WriteHeader(http.StatusAccepted)
			x.say(`{"jsonrpc":"2.0","id":%s,"result":{}}`, h.m.ID)
		}}
		inSSE(t, s, passThrough(), func(t *testing.T, up *upstream.Upstream) {
			c := legacyClient(negotiate.Rev20241105, nil)
			c.Authorization = "Bearer own"
			sess, err := up.Open(t.Context(), c)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := sess.Call(t.Context(), named("first"), nil); err != nil {
				t.Fatal(err)
			}
			check(t.Context(), sess, func() []string {
				s.mu.Lock()
				defer s.mu.Unlock()
				return s.auths[:len(s.auths):len(s.auths)]
			})
		})
	})
}
