package upstream_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/exchange/exchangetest"
	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
	"github.com/mcp-dualstack/bridge/negotiate"
	"github.com/mcp-dualstack/bridge/upstream"
)

// TestEveryLegHasItsVersion: R21, after initialize each request names the revision agreed with this server and its
// session, and nothing of the client's own leg.
func TestEveryLegHasItsVersion(t *testing.T) {
	for _, client := range []negotiate.Revision{negotiate.Rev20241105, negotiate.Rev20251125} {
		t.Run(client.String(), func(t *testing.T) {
			strict := legacyStub("2025-06-18", func(w http.ResponseWriter, h *hit) { say(w, h, `{}`) })
			inWeb(t, nil, func(w http.ResponseWriter, h *hit) {
				version := h.Header.Get(negotiate.HeaderVersion)
				if name := h.name(); name != "server/discover" && name != "initialize" && (version != "2025-06-18" || h.Header.Get(negotiate.HeaderSession) != "S1") {
					t.Errorf("%s: got version %q of session %q", name, version, h.Header.Get(negotiate.HeaderSession))
				}
				strict(w, h)
			}, func(ctx context.Context, s *webStub, r *upstream.Remote) {
				sess, _ := openWeb(ctx, t, r, client)
				req := toolCall(`{}`)
				req.Header = http.Header{"Mcp-Param-X": {"1"}}
				if _, err := sess.Call(ctx, req, nil); err != nil {
					t.Error(err)
				}
				if err := sess.Close(); err != nil {
					t.Error(err)
				}
				synctest.Wait()
				first := s.of("initialize")[0]
				if v, id := first.Header.Get(negotiate.HeaderVersion), first.Header.Get(negotiate.HeaderSession); v != "" || id != "" {
					t.Errorf("initialize: got version %q, session %q", v, id)
				}
				if got := string(jsonrpc.Get(first.m.Params, "protocolVersion")); got != `"`+client.String()+`"` {
					t.Errorf("offered %s, want the client's own %s", got, client)
				}
				want := []string{"server/discover", "initialize", "GET", "notifications/initialized", "tools/call", "DELETE"}
				if got := s.seen(); !slices.Equal(got, want) {
					t.Errorf("got %v, want %v", got, want)
				}
				for name := range s.of("tools/call")[0].Header {
					if strings.HasPrefix(name, "Mcp-Param") || name == negotiate.HeaderMethod || name == "Last-Event-Id" {
						t.Errorf("header %s of another leg", name)
					}
				}
			})
		})
	}
}

// TestNoStandingStream: a 405 to the GET clears what depends on it before Open returns (translation.md 4, 8.3); another refusal is
// tried again after notifications/initialized.
func TestNoStandingStream(t *testing.T) {
	for _, test := range []struct {
		status       int
		capabilities string
		gets         int
	}{
		{405, `{"tools":{},"resources":{}}`, 1},
		{400, `{"tools":{"listChanged":true},"resources":{"listChanged":true,"subscribe":true}}`, 2},
	} {
		t.Run(fmt.Sprint(test.status), func(t *testing.T) {
			rest := legacyStub("2025-11-25", func(w http.ResponseWriter, h *hit) { say(w, h, `{}`) })
			greeted := false
			inWeb(t, nil, func(w http.ResponseWriter, h *hit) {
				switch h.name() {
				case "notifications/initialized":
					greeted = true
				case "GET":
					if !greeted {
						w.WriteHeader(test.status)
						return
					}
					events(w)("data: %s\n\n", `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
					<-h.Context().Done()
					return
				}
				rest(w, h)
			}, func(ctx context.Context, s *webStub, r *upstream.Remote) {
				sess, back := openWeb(ctx, t, r, negotiate.Rev20251125)
				if got := string(sess.Server().Capabilities); got != test.capabilities {
					t.Errorf("capabilities: got %s, want %s", got, test.capabilities)
				}
				if got := string(jsonrpc.Get(sess.Server().Initialize, "capabilities")); got != test.capabilities {
					t.Errorf("capabilities in the initialize result: got %s, want %s", got, test.capabilities)
				}
				if _, err := sess.Call(ctx, toolCall(`{}`), nil); err != nil {
					t.Error(err)
				}
				synctest.Wait()
				if got := s.count("GET"); got != test.gets {
					t.Errorf("GETs: got %d, want %d", got, test.gets)
				}
				if got := len(back.Notes()); got != test.gets-1 {
					t.Errorf("notes on the standing stream: got %d, want %d", got, test.gets-1)
				}
			})
		})
	}
}

// TestSessionForgotten: R06, a 404 ends the session, with what is in flight, and nothing is sent again; so does the wording
// of the TypeScript examples.
func TestSessionForgotten(t *testing.T) {
	for _, test := range []struct {
		name   string
		forget func(w http.ResponseWriter, h *hit)
	}{
		{"404", status(404, "text/plain", "unknown session")},
		{"404 with -32001", fault(404, "null", `{"code":-32001,"message":"Session not found"}`)},
		{"404 with -32001 and our id", fault(404, "", `{"code":-32001,"message":"Session not found"}`)},
		{"400 with -32000", fault(400, "null", `{"code":-32000,"message":"Bad Request: No valid session ID provided"}`)},
	} {
		t.Run(test.name, func(t *testing.T) {
			inWeb(t, nil, legacyStub("2025-11-25", func(w http.ResponseWriter, h *hit) {
				if h.m.Method == "prompts/get" {
					<-h.Context().Done()
					return
				}
				test.forget(w, h)
			}), func(ctx context.Context, s *webStub, r *upstream.Remote) {
				sess, _ := openWeb(ctx, t, r, negotiate.Rev20251125)
				var wg sync.WaitGroup
				for _, method := range []string{"prompts/get", "tools/list"} {
					wg.Go(func() {
						_, err := sess.Call(ctx, exchange.Request{Method: method}, nil)
						if f, ok := errors.AsType[*exchange.Failure](err); !ok || f.Reason != exchange.ReasonSessionLost {
							t.Errorf("%s: got %v, want %s", method, err, exchange.ReasonSessionLost)
						}
					})
					synctest.Wait()
				}
				wg.Wait()
				<-sess.Done()
				_ = sess.Close()
				synctest.Wait()
				if a, b, c := s.count("initialize"), s.count("tools/list"), s.count("DELETE"); a != 1 || b != 1 || c != 0 {
					t.Errorf("got %d initialize, %d tools/list, %d DELETE; want 1, 1, 0", a, b, c)
				}
				if _, err := r.Open(ctx, webClient(negotiate.Rev20251125, nil)); err != nil {
					t.Errorf("the next session: %v", err)
				}
			})
		})
	}
}

// TestOnceAndNoMore: R39, what may have run is not sent again; a list or read is, once (translation.md 1.5).
func TestOnceAndNoMore(t *testing.T) {
	drop := func(http.ResponseWriter, *hit) { panic(http.ErrAbortHandler) }
	breakOff := func(w http.ResponseWriter, _ *hit) {
		events(w)(": hello\n\n")
		panic(http.ErrAbortHandler)
	}
	half := func(w http.ResponseWriter, _ *hit) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", "1000")
		_, _ = w.Write([]byte(`{"jsonrpc":`))
		panic(http.ErrAbortHandler)
	}
	malformed := status(200, "application/json", `{"jsonrpc":"2.0","id":`)
	for _, revision := range []negotiate.Revision{negotiate.Rev20251125, negotiate.Rev20260728} {
		for _, test := range []struct {
			name, method, reason string
			answer               func(http.ResponseWriter, *hit)
			runs                 int
		}{
			{"dropped", "tools/call", exchange.ReasonStreamLost, drop, 1},
			{"broken stream", "tools/call", exchange.ReasonStreamLost, breakOff, 1},
			{"broken JSON", "tools/call", exchange.ReasonStreamLost, half, 1},
			{"malformed", "tools/call", exchange.ReasonInvalid, malformed, 1},
			{"not MCP", "tools/call", exchange.ReasonInvalid, status(200, "text/html", "<html>"), 1},
			{"502", "tools/call", exchange.ReasonUnavailable, status(502, "", ""), 1},
			{"401", "tools/call", exchange.ReasonAuth, status(401, "", ""), 1},
			{"429", "tools/call", exchange.ReasonBusy, status(429, "", ""), 1},
			{"dropped prompt", "prompts/get", exchange.ReasonStreamLost, drop, 1},
			{"dropped unknown", "x/y", exchange.ReasonStreamLost, drop, 1},
			{"dropped list", "tools/list", exchange.ReasonStreamLost, drop, 2},
			{"broken read", "resources/read", exchange.ReasonStreamLost, breakOff, 2},
			{"dropped completion", "completion/complete", exchange.ReasonStreamLost, half, 2},
			{"malformed list", "tools/list", exchange.ReasonInvalid, malformed, 1},
		} {
			t.Run(revision.String()+" "+test.name, func(t *testing.T) {
				wrap := modernStub
				if !revision.Modern() {
					wrap = func(f func(http.ResponseWriter, *hit)) func(http.ResponseWriter, *hit) {
						return legacyStub("2025-11-25", f)
					}
				}
				inWeb(t, nil, wrap(func(w http.ResponseWriter, h *hit) {
					if h.m.Method != test.method {
						say(w, h, `{"tools":[]}`)
						return
					}
					test.answer(w, h)
				}), func(ctx context.Context, s *webStub, r *upstream.Remote) {
					sess, _ := openWeb(ctx, t, r, revision)
					_, err := sess.Call(ctx, exchange.Request{Method: test.method, Params: []byte(`{"name":"t"}`)}, nil)
					if f, ok := errors.AsType[*exchange.Failure](err); !ok || f.Reason != test.reason {
						t.Errorf("got %v, want %s", err, test.reason)
					}
					if got := s.count(test.method); got != test.runs {
						t.Errorf("runs: got %d, want %d", got, test.runs)
					}
				})
			})
		}
	}
}

// TestRefusedConnection: R39 (b), a request of which nothing was sent is sent once more.
func TestRefusedConnection(t *testing.T) {
	for _, test := range []struct {
		refusals int
		reason   string
	}{{1, ""}, {2, exchange.ReasonUnavailable}} {
		t.Run(fmt.Sprint(test.refusals), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &webStub{TB: t, answer: legacyStub("2025-11-25", func(w http.ResponseWriter, h *hit) { say(w, h, `{}`) })}
				var faulty refusing
				r := remoteThrough(t, s, nil, func(rt http.RoundTripper) http.RoundTripper { faulty.RoundTripper = rt; return &faulty })
				defer r.Close()
				sess, _ := openWeb(t.Context(), t, r, negotiate.Rev20251125)
				if err := sess.Notify(t.Context(), exchange.Request{Method: "notifications/initialized"}); err != nil {
					t.Fatal(err)
				}
				faulty.left = test.refusals
				_, err := sess.Call(t.Context(), toolCall(`{}`), nil)
				if f, _ := errors.AsType[*exchange.Failure](err); (err != nil) != (test.reason != "") || f != nil && f.Reason != test.reason {
					t.Errorf("got %v, want reason %q", err, test.reason)
				}
			})
		})
	}
}

// A refusing transport refuses that many connections.
type refusing struct {
	http.RoundTripper
	left int
}

func (f *refusing) RoundTrip(r *http.Request) (*http.Response, error) {
	if f.left > 0 {
		f.left--
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	}
	return f.RoundTripper.RoundTrip(r)
}

// TestStreams: R26 and R28 as client: any line ends, a BOM, comments, and an event with an id and no data before the answer.
func TestStreams(t *testing.T) {
	for _, test := range []struct{ name, text string }{
		{"LF", "id: 1\ndata:\n\n: comment\n\nevent: message\ndata: ANSWER\n\n"},
		{"CRLF", "id: 1\r\ndata:\r\n\r\n: comment\r\n\r\nevent: message\r\ndata: ANSWER\r\n\r\n"},
		{"CR", "id: 1\rdata:\r\r: comment\r\revent: message\rdata: ANSWER\r\r"},
		{"mixed with BOM", "\ufeffid: 1\r\ndata:\n\r: comment\r\r\n\nevent: message\rdata: ANSWER\n\r\n"},
		{"other events", "event: heartbeat\ndata: {}\n\ndata: ANSWER\n\n"},
		{"noise", "data: hello\n\ndata: {\"jsonrpc\":\"2.0\",\"id\":999,\"result\":{}}\n\ndata: ANSWER\n\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			inWeb(t, nil, legacyStub("2025-03-26", func(w http.ResponseWriter, h *hit) {
				events(w)("%s", strings.ReplaceAll(test.text, "ANSWER", fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"x":1.0}}`, h.m.ID)))
			}), func(ctx context.Context, _ *webStub, r *upstream.Remote) {
				sess, _ := openWeb(ctx, t, r, negotiate.Rev20250326)
				resp, err := sess.Call(ctx, toolCall(`{}`), nil)
				if err != nil || string(resp.Result) != `{"x":1.0}` {
					t.Errorf("got %s, %v", resp.Result, err)
				}
			})
		})
	}
}

// TestResumption: a broken stream with an event id is asked for after the server's retry time with Last-Event-ID, as often as
// the server likes, and the call runs once (2025-11-25 transports, SEP-1699).
func TestResumption(t *testing.T) {
	var asked []time.Duration
	var ids []string
	id := ""
	last := time.Time{}
	rest := legacyStub("2025-11-25", func(w http.ResponseWriter, h *hit) {
		id = string(h.m.ID)
		events(w)("id: e0\nretry: 700\ndata:\n\n")
		last = time.Now()
	})
	inWeb(t, nil, func(w http.ResponseWriter, h *hit) {
		lastID := h.Header.Get("Last-Event-Id")
		if h.Method != http.MethodGet || lastID == "" {
			rest(w, h)
			return
		}
		asked, ids = append(asked, time.Since(last)), append(ids, lastID)
		switch len(ids) {
		case 1:
			events(w)("id: e1\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{\"progressToken\":\"p%s\",\"progress\":1}}\n\n", id)
		case 2:
			w.WriteHeader(http.StatusServiceUnavailable)
		default:
			events(w)("id: e2\ndata: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{}}\n\n", id)
		}
		last = time.Now()
	}, func(ctx context.Context, s *webStub, r *upstream.Remote) {
		sess, _ := openWeb(ctx, t, r, negotiate.Rev20251125)
		var peer exchangetest.Peer
		req := toolCall(`{}`)
		req.Params = jsonrpc.Set(req.Params, []byte(`"tok"`), "_meta", "progressToken")
		if _, err := sess.Call(ctx, req, &peer); err != nil {
			t.Fatal(err)
		}
		if want := []string{"e0", "e1", "e1"}; !slices.Equal(ids, want) {
			t.Errorf("Last-Event-ID: got %v, want %v", ids, want)
		}
		if want := []time.Duration{700 * time.Millisecond, 700 * time.Millisecond, 1400 * time.Millisecond}; !slices.Equal(asked, want) {
			t.Errorf("waits: got %v, want %v", asked, want)
		}
		if n := peer.Notes(); len(n) != 1 || string(n[0].Params) != `{"progressToken":"tok","progress":1}` {
			t.Errorf("notes: got %v", n)
		}
		if n := s.count("tools/call"); n != 1 {
			t.Errorf("runs: got %d, want 1", n)
		}
	})
}

// TestResumptionEnds: a stream that cannot be had again fails the call in bounded time.
func TestResumptionEnds(t *testing.T) {
	for _, test := range []struct {
		name, reason string
		again        func(http.ResponseWriter, *hit)
	}{
		{"405", exchange.ReasonStreamLost, status(405, "", "")},
		{"400", exchange.ReasonStreamLost, status(400, "", "")},
		{"500 for ever", exchange.ReasonStreamLost, status(500, "", "")},
		{"empty for ever", exchange.ReasonStreamLost, func(w http.ResponseWriter, _ *hit) { events(w)(": nothing\n\n") }},
		{"404", exchange.ReasonSessionLost, status(404, "", "")},
	} {
		t.Run(test.name, func(t *testing.T) {
			rest := legacyStub("2025-11-25", func(w http.ResponseWriter, _ *hit) { events(w)("id: e0\ndata:\n\n") })
			inWeb(t, nil, func(w http.ResponseWriter, h *hit) {
				if h.Header.Get("Last-Event-Id") != "" {
					test.again(w, h)
					return
				}
				rest(w, h)
			}, func(ctx context.Context, _ *webStub, r *upstream.Remote) {
				sess, _ := openWeb(ctx, t, r, negotiate.Rev20251125)
				began := time.Now()
				_, err := sess.Call(ctx, toolCall(`{}`), nil)
				if f, ok := errors.AsType[*exchange.Failure](err); !ok || f.Reason != test.reason {
					t.Errorf("got %v, want %s", err, test.reason)
				}
				if d := time.Since(began); d > 2*time.Minute {
					t.Errorf("took %v", d)
				}
			})
		})
	}
}
