package upstream_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/negotiate"
	"github.com/mcp-dualstack/bridge/upstream"
)

// status answers with a status and a text.
func status(code int, kind, text string) func(http.ResponseWriter, *hit) {
	return func(w http.ResponseWriter, _ *hit) {
		w.Header().Set("Content-Type", kind)
		w.WriteHeader(code)
		_, _ = w.Write([]byte(text))
	}
}

func fault(code int, id, e string) func(http.ResponseWriter, *hit) {
	return func(w http.ResponseWriter, h *hit) { refuse(w, h, code, id, e) }
}

// TestProbeVerdicts: the HTTP rows of translation.md 4; reports R17 and R18.
func TestProbeVerdicts(t *testing.T) {
	initialized := func(w http.ResponseWriter, h *hit) { say(w, h, okInitialize("2025-06-18")) }
	endpoint := func(w http.ResponseWriter, h *hit) {
		events(w)("event: endpoint\ndata: /messages?s=1\n\n")
		<-h.Context().Done()
	}
	silent := func(_ http.ResponseWriter, h *hit) { <-h.Context().Done() }
	type answers map[string]func(http.ResponseWriter, *hit)
	legacyOnly, modernOnly := negotiate.Legacy, negotiate.Modern
	tests := []struct {
		name      string
		era       string
		answers   answers // by name; others are 405
		served    negotiate.Set
		transport string
		reason    string
		handshake int // initialize requests of the probe
	}{
		{"modern", "", answers{"server/discover": func(w http.ResponseWriter, h *hit) { say(w, h, okDiscover) }}, modernOnly, "streamable_http", "", 0},
		{"dual", "", answers{"server/discover": func(w http.ResponseWriter, h *hit) {
			say(w, h, strings.Replace(okDiscover, `"2026-07-28"`, `"2026-07-28","2025-11-25"`, 1))
		}}, negotiate.All, "streamable_http", "", 0},
		{"legacy versions only", "", answers{"server/discover": func(w http.ResponseWriter, h *hit) { say(w, h, `{"supportedVersions":["2025-06-18"]}`) }}, legacyOnly, "streamable_http", "", 0},
		{"-32022 of a legacy server", "", answers{"server/discover": fault(400, "", `{"code":-32022,"message":"x","data":{"supported":["2025-11-25"]}}`)}, legacyOnly, "streamable_http", "", 0},
		{"-32601 with 200", "", answers{"server/discover": fault(200, "", `{"code":-32601,"message":"x"}`)}, legacyOnly, "streamable_http", "", 0},
		{"R17 404 with text", "", answers{"server/discover": status(404, "text/plain", "not found"), "initialize": initialized}, legacyOnly, "streamable_http", "", 1},
		{"R18 empty body", "", answers{"server/discover": status(400, "", ""), "initialize": initialized}, legacyOnly, "streamable_http", "", 1},
		{"R18 HTML", "", answers{"server/discover": status(400, "text/html", "<html>"), "initialize": initialized}, legacyOnly, "streamable_http", "", 1},
		{"R18 -32000 without id", "", answers{"server/discover": fault(400, "null", `{"code":-32000,"message":"Bad Request: No valid session ID provided"}`), "initialize": initialized}, legacyOnly, "streamable_http", "", 0},
		{"R18 -32600", "", answers{"server/discover": fault(400, "", `{"code":-32600,"message":"x"}`), "initialize": initialized}, legacyOnly, "streamable_http", "", 0},
		{"R18 -32602", "", answers{"server/discover": fault(400, "", `{"code":-32602,"message":"x"}`), "initialize": initialized}, legacyOnly, "streamable_http", "", 0},
		{"R18 text naming versions", "", answers{"server/discover": status(400, "text/plain", "Unsupported protocol version (supported: 2025-06-18)"), "initialize": initialized}, legacyOnly, "streamable_http", "", 1},
		{"R18 -32020", "", answers{"server/discover": fault(400, "", `{"code":-32020,"message":"x"}`), "initialize": initialized}, modernOnly, "streamable_http", "", 0},
		{"-32021", "", answers{"server/discover": fault(400, "null", `{"code":-32021,"message":"x"}`)}, modernOnly, "streamable_http", "", 0},
		{"page for everything", "", answers{"server/discover": status(200, "text/html", "<html>"), "initialize": initialized}, legacyOnly, "streamable_http", "", 1},
		{"silence", "", answers{"server/discover": silent, "initialize": initialized}, legacyOnly, "streamable_http", "", 1},
		{"HTTP+SSE", "", answers{"GET": endpoint}, legacyOnly, "http_sse", "", 1},
		{"401", "", answers{"server/discover": status(401, "", ""), "initialize": initialized}, 0, "", exchange.ReasonAuth, 0},
		{"403", "", answers{"server/discover": status(403, "", ""), "initialize": initialized}, 0, "", exchange.ReasonAuth, 0},
		{"502", "", answers{"server/discover": status(502, "", ""), "initialize": initialized}, 0, "", exchange.ReasonUnavailable, 0},
		{"503", "", answers{"server/discover": status(503, "", ""), "initialize": initialized}, 0, "", exchange.ReasonBusy, 0},
		{"redirect elsewhere", "", answers{"server/discover": func(w http.ResponseWriter, h *hit) {
			http.Redirect(w, h.Request, "http://elsewhere.example/mcp", http.StatusTemporaryRedirect)
		}}, 0, "", exchange.ReasonUnavailable, 0},
		{"no MCP", "", answers{}, 0, "", exchange.ReasonUnavailable, 1},
		{"silence throughout", "", answers{"server/discover": silent, "initialize": silent, "GET": silent}, 0, "", exchange.ReasonUnavailable, 1},
		{"era legacy", "legacy", answers{"initialize": initialized}, legacyOnly, "streamable_http", "", 1},
		{"era modern", "modern", answers{"server/discover": func(w http.ResponseWriter, h *hit) {
			say(w, h, strings.Replace(okDiscover, `"2026-07-28"`, `"2026-07-28","2025-11-25"`, 1))
		}}, modernOnly, "streamable_http", "", 0},
		{"era modern, legacy server", "modern", answers{"server/discover": fault(200, "", `{"code":-32601,"message":"x"}`)}, 0, "", exchange.ReasonVersion, 0},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			inWeb(t, &upstream.Options{Era: test.era}, func(w http.ResponseWriter, h *hit) {
				answer := test.answers[h.name()]
				if answer == nil {
					answer = status(405, "", "")
				}
				answer(w, h)
			}, func(ctx context.Context, s *webStub, r *upstream.Remote) {
				v, err := r.Probe(ctx)
				reason := ""
				if f, ok := errors.AsType[*exchange.Failure](err); ok {
					reason = f.Reason
				} else if err != nil {
					t.Errorf("got error %v, want a failure", err)
				}
				if v.Served != test.served || v.Transport != test.transport || reason != test.reason {
					t.Errorf("got %v over %q, failure %q (%v); want %v over %q, failure %q",
						v.Served.Strings(), v.Transport, reason, err, test.served.Strings(), test.transport, test.reason)
				}
				if got := s.count("initialize"); got != test.handshake {
					t.Errorf("initialize requests: got %d, want %d", got, test.handshake)
				}
			})
		})
	}
}

// TestProbeRetriesVersion: R18, -32022 that lists 2026-07-28 is tried once more and never answered by initialize.
func TestProbeRetriesVersion(t *testing.T) {
	for _, test := range []struct {
		name     string
		refusals int
		reason   string
	}{{"once", 1, ""}, {"always", 99, exchange.ReasonVersion}} {
		t.Run(test.name, func(t *testing.T) {
			n := 0
			inWeb(t, nil, func(w http.ResponseWriter, h *hit) {
				if n++; n <= test.refusals {
					refuse(w, h, 400, "", `{"code":-32022,"message":"x","data":{"supported":["2026-07-28"]}}`)
					return
				}
				say(w, h, okDiscover)
			}, func(ctx context.Context, s *webStub, r *upstream.Remote) {
				v, err := r.Probe(ctx)
				if f, _ := errors.AsType[*exchange.Failure](err); (f == nil) != (test.reason == "") || f != nil && f.Reason != test.reason || f == nil && !v.Modern {
					t.Errorf("got %v, %v; want reason %q", v, err, test.reason)
				}
				if len(s.seen()) != 2 || s.count("initialize") != 0 {
					t.Errorf("got requests %v, want two discovers", s.seen())
				}
			})
		})
	}
}

// TestProbeIsKept: the verdict counts for an hour, a failure holds the next probe off for a while, and credentials
// that were refused do not (translation.md 4).
func TestProbeIsKept(t *testing.T) {
	code := 502
	inWeb(t, nil, func(w http.ResponseWriter, h *hit) {
		if code != 200 {
			w.WriteHeader(code)
			return
		}
		say(w, h, okDiscover)
	}, func(ctx context.Context, s *webStub, r *upstream.Remote) {
		for range 3 {
			_, err := r.Probe(ctx)
			if f, ok := errors.AsType[*exchange.Failure](err); !ok || f.Reason != exchange.ReasonUnavailable {
				t.Fatalf("got %v, want %s", err, exchange.ReasonUnavailable)
			}
		}
		if n := len(s.seen()); n != 1 {
			t.Errorf("probes of a server that is down: got %d, want 1", n)
		}
		time.Sleep(time.Minute)
		code = 401
		for range 2 {
			if _, err := r.Probe(ctx); err == nil {
				t.Fatal("401: got a verdict")
			}
		}
		if n := len(s.seen()); n != 3 {
			t.Errorf("probes after refused credentials: got %d, want 3", n)
		}
		code = 200
		for range 2 {
			if v, err := r.Probe(ctx); err != nil || !v.Modern {
				t.Fatalf("got %v, %v", v, err)
			}
		}
		if n := len(s.seen()); n != 4 {
			t.Errorf("probes for a verdict: got %d, want 4", n)
		}
		time.Sleep(2 * time.Hour)
		if _, err := r.Probe(ctx); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if n := len(s.seen()); n != 5 {
			t.Errorf("probes after two hours: got %d, want 5", n)
		}
	})
}

// TestDualServerWithoutHandshake: a server that lists legacy revisions and does not know initialize is modern only from
// then on (translation.md 12).
func TestDualServerWithoutHandshake(t *testing.T) {
	inWeb(t, nil, func(w http.ResponseWriter, h *hit) {
		if h.name() == "server/discover" {
			say(w, h, strings.Replace(okDiscover, `"2026-07-28"`, `"2026-07-28","2025-11-25"`, 1))
			return
		}
		refuse(w, h, 404, "", `{"code":-32601,"message":"Method not found"}`)
	}, func(ctx context.Context, _ *webStub, r *upstream.Remote) {
		_, err := r.Open(ctx, webClient(negotiate.Rev20251125, nil))
		if f, ok := errors.AsType[*exchange.Failure](err); !ok || f.Reason != exchange.ReasonEra || f.Served != negotiate.Modern {
			t.Errorf("got %v, want %s", err, exchange.ReasonEra)
		}
		if v, err := r.Probe(ctx); err != nil || v.Served != negotiate.Modern {
			t.Errorf("got %v, %v; want a modern server", v, err)
		}
	})
}

// TestChallenge: R46, in pass-through mode status and challenge are told and the caller's own token is sent; otherwise neither.
func TestChallenge(t *testing.T) {
	const challenge = `Bearer resource_metadata="https://x.example/.well-known/oauth-protected-resource"`
	answer := legacyStub("2025-11-25", func(w http.ResponseWriter, h *hit) { say(w, h, `{}`) })
	expired := false
	guard := func(w http.ResponseWriter, h *hit) {
		switch token := h.Header.Get("Authorization"); {
		case token == "Bearer poor":
			w.Header().Set("WWW-Authenticate", `Bearer error="insufficient_scope"`)
			w.WriteHeader(http.StatusForbidden)
		case token != "Bearer good" || expired:
			w.Header().Set("WWW-Authenticate", challenge)
			w.WriteHeader(http.StatusUnauthorized)
		default:
			answer(w, h)
		}
	}
	inWeb(t, &upstream.Options{HTTP: &upstream.HTTPOptions{PassThrough: true, Headers: http.Header{"Authorization": {"Bearer good"}}}}, guard,
		func(ctx context.Context, s *webStub, r *upstream.Remote) {
			for _, test := range []struct {
				token, challenge string
				status           int
			}{{"", challenge, 401}, {"Bearer poor", `Bearer error="insufficient_scope"`, 403}} {
				c := webClient(negotiate.Rev20251125, nil)
				c.Authorization = test.token
				_, err := r.Open(ctx, c)
				f, ok := errors.AsType[*exchange.Failure](err)
				if !ok || f.Reason != exchange.ReasonAuth || f.Status != test.status || f.Challenge != test.challenge {
					t.Errorf("%q: got %+v, want status %d and its challenge", test.token, err, test.status)
				}
			}
			c := webClient(negotiate.Rev20251125, nil)
			c.Authorization = "Bearer good"
			sess, err := r.Open(ctx, c)
			if err != nil {
				t.Fatal(err)
			}
			expired = true
			before := len(s.seen())
			_, err = sess.Call(ctx, exchange.Request{Method: "tools/call"}, nil)
			if f, ok := errors.AsType[*exchange.Failure](err); !ok || f.Status != 401 || f.Challenge != challenge {
				t.Errorf("expired in mid-session: got %v", err)
			}
			if n := len(s.seen()) - before; n != 1 {
				t.Errorf("requests after the expiry: got %d, want 1", n)
			}
		})
	inWeb(t, nil, guard, func(ctx context.Context, _ *webStub, r *upstream.Remote) {
		c := webClient(negotiate.Rev20251125, nil)
		c.Authorization = "Bearer good"
		_, err := r.Open(ctx, c)
		if f, ok := errors.AsType[*exchange.Failure](err); !ok || f.Reason != exchange.ReasonAuth || f.Status != 0 || f.Challenge != "" {
			t.Errorf("without pass-through: got %+v", err)
		}
	})
}
