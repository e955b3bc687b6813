package upstream_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/exchange/exchangetest"
	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
	"github.com/mcp-dualstack/bridge/negotiate"
	"github.com/mcp-dualstack/bridge/upstream"
)

// mirroring returns a tool whose argument of that name is repeated in the header.
func mirroring(name, argument, header string) string {
	return fmt.Sprintf(`{"name":%q,"inputSchema":{"type":"object","properties":{%q:{"type":"string","x-mcp-header":%q}}}}`, name, argument, header)
}

// mcpHeaders returns the Mcp-* fields of a request in order.
func mcpHeaders(h *hit) string {
	var fields []string
	for name, values := range h.Header {
		if strings.HasPrefix(name, "Mcp-") || name == "Last-Event-Id" {
			fields = append(fields, name+"="+strings.Join(values, "|"))
		}
	}
	slices.Sort(fields)
	return strings.Join(fields, " ")
}

// TestModernHeaders: the headers of translation.md 11, made from the body.
func TestModernHeaders(t *testing.T) {
	const version = "Mcp-Protocol-Version=2026-07-28"
	for _, test := range []struct {
		name   string
		raw    bool
		method string
		params string
		header http.Header
		want   string
	}{
		{"list", false, "tools/list", `{}`, nil, "Mcp-Method=tools/list " + version},
		{"tool with header", false, "tools/call", `{"name":"known","arguments":{"tenant":"köln-3"}}`, nil,
			"Mcp-Method=tools/call Mcp-Name=known Mcp-Param-Tenant==?base64?a8O2bG4tMw==?= " + version},
		{"argument absent", false, "tools/call", `{"name":"known","arguments":{}}`, nil, "Mcp-Method=tools/call Mcp-Name=known " + version},
		{"unclaimed passes, claimed does not", false, "tools/call", `{"name":"known","arguments":{"tenant":"a"}}`,
			http.Header{"Mcp-Param-Tenant": {"forged"}, "Mcp-Param-Other": {"x"}, "Mcp-Session-Id": {"s"}, "Last-Event-Id": {"e"}},
			"Mcp-Method=tools/call Mcp-Name=known Mcp-Param-Other=x Mcp-Param-Tenant=a " + version},
		{"unknown tool", false, "tools/call", `{"name":"other"}`, http.Header{"Mcp-Param-A": {"1"}}, "Mcp-Method=tools/call Mcp-Name=other Mcp-Param-A=1 " + version},
		{"encoded name", false, "prompts/get", `{"name":"größe"}`, nil, "Mcp-Method=prompts/get Mcp-Name==?base64?Z3LDtsOfZQ==?= " + version},
		{"raw name", true, "prompts/get", `{"name":"größe"}`, nil, "Mcp-Method=prompts/get Mcp-Name=größe " + version},
		{"raw name that no header can hold", true, "prompts/get", `{"name":"a\nb"}`, nil, "Mcp-Method=prompts/get Mcp-Name==?base64?YQpi?= " + version},
		{"uri", false, "resources/read", `{"uri":"db://x"}`, nil, "Mcp-Method=resources/read Mcp-Name=db://x " + version},
		{"task", false, "tasks/get", `{"taskId":"7"}`, nil, "Mcp-Method=tasks/get Mcp-Name=7 " + version},
	} {
		t.Run(test.name, func(t *testing.T) {
			inWeb(t, &upstream.Options{HTTP: &upstream.HTTPOptions{SendRawMcpName: test.raw}}, modernStub(func(w http.ResponseWriter, h *hit) {
				if h.m.Method == "tools/list" {
					say(w, h, `{"tools":[`+mirroring("known", "tenant", "Tenant")+`]}`)
					return
				}
				say(w, h, `{}`)
			}), func(ctx context.Context, s *webStub, r *upstream.Remote) {
				sess, _ := openWeb(ctx, t, r, negotiate.Rev20260728)
				for range 2 { // the schema is looked up once
					params := negotiate.WithEnvelope([]byte(test.params), negotiate.Envelope{Version: negotiate.Rev20260728})
					if resp, err := sess.Call(ctx, exchange.Request{Method: test.method, Params: params, Header: test.header}, nil); err != nil || resp.Error != nil {
						t.Fatalf("got %v, %v", err, resp.Error)
					}
				}
				calls := s.of(test.method)
				if got := mcpHeaders(calls[len(calls)-1]); got != test.want {
					t.Errorf("got %s\nwant %s", got, test.want)
				}
				if n := s.count("tools/list"); test.method == "tools/call" && n != 1 {
					t.Errorf("lists: got %d, want 1", n)
				}
			})
		})
	}
}

// TestArgumentWithoutHeader: -32602 for what no legal header can say, and nothing is sent.
func TestArgumentWithoutHeader(t *testing.T) {
	inWeb(t, nil, modernStub(func(w http.ResponseWriter, h *hit) {
		say(w, h, `{"tools":[{"name":"t","inputSchema":{"type":"object","properties":{"n":{"type":"integer","x-mcp-header":"N"}}}}]}`)
	}), func(ctx context.Context, s *webStub, r *upstream.Remote) {
		sess, _ := openWeb(ctx, t, r, negotiate.Rev20260728)
		resp, err := sess.Call(ctx, modernCall("t", `{"n":9007199254740993}`), nil)
		if err != nil || resp.Error == nil || resp.Error.Code != jsonrpc.CodeInvalidParams {
			t.Errorf("got %v, %v; want -32602", resp.Error, err)
		}
		if n := s.count("tools/call"); n != 0 {
			t.Errorf("sent %d times", n)
		}
	})
}

// TestHeaderRepair: -32020 leads to a fresh list and one more attempt, a second one to upstream_headers (translation.md 11).
func TestHeaderRepair(t *testing.T) {
	for _, test := range []struct {
		name     string
		mends    bool
		reason   string
		attempts int
	}{{"mended", true, "", 2}, {"not to be mended", false, exchange.ReasonHeaders, 2}} {
		t.Run(test.name, func(t *testing.T) {
			lists := 0
			inWeb(t, nil, modernStub(func(w http.ResponseWriter, h *hit) {
				switch {
				case h.m.Method == "tools/list":
					if lists++; lists == 1 {
						say(w, h, `{"tools":[`+mirroring("t", "a", "Old")+`],"ttlMs":3600000}`)
						return
					}
					say(w, h, `{"tools":[`+mirroring("t", "a", "New")+`]}`)
				case test.mends && h.Header.Get("Mcp-Param-New") == "v" && h.Header.Get("Mcp-Param-Old") == "":
					say(w, h, `{"ok":1}`)
				default:
					refuse(w, h, 400, "", `{"code":-32020,"message":"header mismatch"}`)
				}
			}), func(ctx context.Context, s *webStub, r *upstream.Remote) {
				sess, _ := openWeb(ctx, t, r, negotiate.Rev20260728)
				if _, err := sess.Call(ctx, exchange.Request{Method: "tools/list"}, nil); err != nil {
					t.Fatal(err)
				}
				req, sent := modernCall("t", `{"a":"v"}`), 0
				req.Sent = func() { sent++ }
				resp, err := sess.Call(ctx, req, nil)
				time.Sleep(time.Second)
				equal(t, "times that the caller was told that it is sent", sent, 1)
				f, _ := errors.AsType[*exchange.Failure](err)
				if (f != nil) != (test.reason != "") || f != nil && f.Reason != test.reason || f == nil && string(resp.Result) != `{"ok":1}` {
					t.Errorf("got %s, %v; want reason %q", resp.Result, err, test.reason)
				}
				if s.count("tools/call") != test.attempts || lists != 2 {
					t.Errorf("got %v", s.seen())
				}
			})
		})
	}
}

// TestVersionRefused: -32022 is repaired once where 2026-07-28 is listed; a legacy list changes the verdict.
func TestVersionRefused(t *testing.T) {
	for _, test := range []struct {
		name, supported, reason string
		calls, discovers        int
	}{
		{"listed", `["2026-07-28"]`, "", 2, 1},
		{"legacy only", `["2025-11-25"]`, exchange.ReasonVersion, 1, 2},
	} {
		t.Run(test.name, func(t *testing.T) {
			n := 0
			inWeb(t, nil, modernStub(func(w http.ResponseWriter, h *hit) {
				if n++; n == 1 {
					refuse(w, h, 400, "", `{"code":-32022,"message":"x","data":{"supported":`+test.supported+`}}`)
					return
				}
				say(w, h, `{}`)
			}), func(ctx context.Context, s *webStub, r *upstream.Remote) {
				sess, _ := openWeb(ctx, t, r, negotiate.Rev20260728)
				_, err := sess.Call(ctx, exchange.Request{Method: "prompts/get"}, nil)
				if f, _ := errors.AsType[*exchange.Failure](err); (err != nil) != (test.reason != "") || f != nil && f.Reason != test.reason {
					t.Errorf("got %v, want reason %q", err, test.reason)
				}
				if _, err := r.Probe(ctx); err != nil {
					t.Error(err)
				}
				if a, b := s.count("prompts/get"), s.count("server/discover"); a != test.calls || b != test.discovers {
					t.Errorf("got %d calls and %d discovers, want %d and %d", a, b, test.calls, test.discovers)
				}
			})
		})
	}
}

// TestInvalidToolsAreLeftOut: tools whose annotations break the rules are not offered over HTTP; the rest keeps its bytes.
func TestInvalidToolsAreLeftOut(t *testing.T) {
	good := mirroring("a", "x", "X") + `, ` + `{"name":"plain","x":1.0}`
	bad := mirroring("b", "x", "not a token")
	inWeb(t, nil, modernStub(func(w http.ResponseWriter, h *hit) {
		if jsonrpc.Get(h.m.Params, "all") != nil {
			say(w, h, `{"n":1.0,"tools":[`+good+`]}`)
			return
		}
		say(w, h, `{"n":1.0,"tools":[`+mirroring("a", "x", "X")+`, `+bad+`,{"name":"plain","x":1.0}]}`)
	}), func(ctx context.Context, _ *webStub, r *upstream.Remote) {
		sess, _ := openWeb(ctx, t, r, negotiate.Rev20260728)
		for params, want := range map[string]string{
			`{}`:        `{"n":1.0,"tools":[` + mirroring("a", "x", "X") + `,{"name":"plain","x":1.0}]}`,
			`{"all":1}`: `{"n":1.0,"tools":[` + good + `]}`,
		} {
			resp, err := sess.Call(ctx, exchange.Request{Method: "tools/list", Params: []byte(params)}, nil)
			if err != nil || string(resp.Result) != want {
				t.Errorf("got %s, %v\nwant %s", resp.Result, err, want)
			}
		}
	})
}

// TestListen: a listen lasts beyond CallTimeout, what comes on it goes to its peer, and its ctx closes the response.
func TestListen(t *testing.T) {
	closed := make(chan struct{})
	inWeb(t, &upstream.Options{HTTP: &upstream.HTTPOptions{CallTimeout: time.Second}}, modernStub(func(w http.ResponseWriter, h *hit) {
		if h.m.Method != "subscriptions/listen" {
			<-h.Context().Done()
			return
		}
		write := events(w)
		write("data: %s\n\n", `{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"notifications":{}}}`)
		time.Sleep(time.Minute)
		write("data: %s\n\n", `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
		<-h.Context().Done()
		close(closed)
	}), func(ctx context.Context, _ *webStub, r *upstream.Remote) {
		sess, _ := openWeb(ctx, t, r, negotiate.Rev20260728)
		var peer exchangetest.Peer
		listening, cancel := context.WithCancelCause(ctx)
		cause := &exchange.CancelError{}
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, err := sess.Call(listening, exchange.Request{Method: "subscriptions/listen"}, &peer); !errors.Is(err, cause) {
				t.Errorf("got %v, want the cause", err)
			}
		})
		peer.Wait(ctx, 2)
		_, err := sess.Call(ctx, exchange.Request{Method: "prompts/get"}, nil)
		if f, ok := errors.AsType[*exchange.Failure](err); !ok || f.Reason != exchange.ReasonTimeout {
			t.Errorf("call beyond CallTimeout: got %v, want %s", err, exchange.ReasonTimeout)
		}
		cancel(cause)
		wg.Wait()
		<-closed
	})
}

// TestSchemasAreFetchedOnce: many first calls at once cost one list; the schema cache is bounded.
func TestSchemasAreFetchedOnce(t *testing.T) {
	inWeb(t, &upstream.Options{HTTP: &upstream.HTTPOptions{MaxTools: 1}}, modernStub(func(w http.ResponseWriter, h *hit) {
		if h.m.Method == "tools/list" {
			time.Sleep(time.Second)
			say(w, h, `{"tools":[`+mirroring("t", "a", "A")+`]}`)
			return
		}
		say(w, h, `{}`)
	}), func(ctx context.Context, s *webStub, r *upstream.Remote) {
		sess, _ := openWeb(ctx, t, r, negotiate.Rev20260728)
		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() {
				if _, err := sess.Call(ctx, modernCall("t", `{"a":"v"}`), nil); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if n := s.count("tools/list"); n != 1 {
			t.Errorf("lists: got %d, want 1", n)
		}
		for _, h := range s.of("tools/call") {
			if h.Header.Get("Mcp-Param-A") != "v" {
				t.Fatal("a call went without its header")
			}
		}
		if _, err := sess.Call(ctx, modernCall("another", `{}`), nil); err != nil { // takes the only place
			t.Error(err)
		}
		if _, err := sess.Call(ctx, modernCall("t", `{"a":"v"}`), nil); err != nil {
			t.Error(err)
		}
		if n := s.count("tools/list"); n != 3 {
			t.Errorf("lists after the only place was taken: got %d, want 3", n)
		}
		synctest.Wait()
	})
}
