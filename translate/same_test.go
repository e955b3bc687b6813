package translate_test

import (
	"context"
	"strings"
	"testing"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/exchange/exchangetest"
	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
	"github.com/mcp-dualstack/bridge/negotiate"
	"github.com/mcp-dualstack/bridge/translate"
)

// newLegacyScript returns a server that answered initialize with the revision.
func newLegacyScript(t testing.TB, r negotiate.Revision, answer func(ctx context.Context, req exchange.Request, back exchange.Peer) (exchange.Response, error)) *script {
	s := newScript(t, answer)
	const caps = `{"tools":{},"tasks":{"list":{}},"x-cap":[1.50]}`
	s.server = exchange.Server{
		Revision: r, Info: []byte(`{"name":"srv","version":"1"}`), Capabilities: []byte(caps),
		Initialize: []byte(`{"protocolVersion":"` + r.String() + `","capabilities":` + caps + `,"serverInfo":{"name":"srv","version":"1"}}`),
	}
	return s
}

const withAudio = `{"content":[{"type":"audio","data":"UklGRg==","mimeType":"audio/wav"}],"n":1.50}`

// TestSameEraPassesBytes: within an era what the client's revision defines is the server's own slice (architecture.md 3).
func TestSameEraPassesBytes(t *testing.T) {
	for _, r := range []negotiate.Revision{l0, l1, l2, l3, m} {
		params := []byte(`{"name":"a", "arguments":{"n":25.0,"n":1e3},"_meta":{"x":1}}`)
		result := []byte(`{"content":[ {"type":"text","text":"\u0041","x":1.50} ],"y":[1e2]}`)
		fault := &exchange.Error{Code: -32055, Message: "no", Raw: []byte(`{"code":-32055,"message":"no","x":1.0}`)}
		n := 0
		s := newLegacyScript(t, r, func(_ context.Context, req exchange.Request, _ exchange.Peer) (exchange.Response, error) {
			if &req.Params[0] != &params[0] || len(req.Params) != len(params) {
				t.Errorf("%v: params were copied: %s", r, req.Params)
			}
			if n++; n == 2 {
				return exchange.Response{Error: fault}, nil
			}
			return exchange.Response{Result: result}, nil
		})
		s.schemas = nil // the params are those of any revision
		sess := open(t, modern(s), r)
		req := exchange.Request{Method: "tools/call", Params: params}
		resp, err := sess.Call(t.Context(), req, nil)
		if err != nil || len(resp.Result) != len(result) || &resp.Result[0] != &result[0] {
			t.Errorf("%v: got %s, %v", r, resp.Result, err)
		}
		if resp, err = sess.Call(t.Context(), req, nil); err != nil || resp.Error != fault {
			t.Errorf("%v: got %v, %v, want the server's error", r, resp.Error, err)
		}
	}
}

// TestOlderClientOfANewerServer: a handshake-era server that insisted on a newer revision (translation.md 4, LL cells).
func TestOlderClientOfANewerServer(t *testing.T) {
	s := newLegacyScript(t, l3, results("tools/call", withAudio))
	u := newUser(t, modern(s), l0, `{}`, agreeable)
	got := u.must("tools/call", `{"name":"a","task":{"ttl":1}}`)
	equal(t, "T1", got, `{"content":[{"type":"resource","resource":{"uri":"urn:bridge:audio:aa40ebcc97ccf9ef","mimeType":"audio/wav","blob":"UklGRg=="}}],"n":1.50}`)
	equal(t, "params", s.params("tools/call")[0], `{"name":"a"}`)
	equal(t, "capabilities", string(u.session.Server().Capabilities), `{"tools":{},"x-cap":[1.50]}`)
	resp, err := u.ask("tasks/list", `{}`)
	equal(t, "tasks/list", outcome(resp, err), `-32601 {"bridge":{"reason":"unknown_method"}}`)
	equal(t, "served", u.session.Server().Served, negotiate.All)
}

func TestTasksPassWhereBothKnowThem(t *testing.T) {
	s := newLegacyScript(t, l3, func(_ context.Context, req exchange.Request, _ exchange.Peer) (exchange.Response, error) {
		if req.Method == "tasks/list" {
			return exchange.Response{Result: []byte(`{"tasks":[]}`)}, nil
		}
		return exchange.Response{Result: []byte(`{"task":{"taskId":"1"}}`)}, nil
	})
	u := newUser(t, modern(s), l3, `{"tasks":{}}`, agreeable)
	u.schemas = nil // the result is a CreateTaskResult
	equal(t, "result", u.must("tools/call", `{"name":"a","task":{"ttl":1}}`), `{"task":{"taskId":"1"}}`)
	equal(t, "params", s.params("tools/call")[0], `{"name":"a","task":{"ttl":1}}`)
	equal(t, "tasks/list", u.must("tasks/list", `{}`), `{"tasks":[]}`)
	equal(t, "initialize", string(u.session.Server().Initialize), string(s.server.Initialize))
}

// TestQuestionsOfANewerServer: questions reach the client in its own words, on a call and on the standing stream.
func TestQuestionsOfANewerServer(t *testing.T) {
	ask := func(ctx context.Context, to exchange.Peer, input string) exchange.Response {
		method, _ := jsonrpc.String(jsonrpc.Get([]byte(input), "method"))
		resp, err := to.Call(ctx, exchange.Request{Method: method, Params: jsonrpc.Get([]byte(input), "params")})
		if err != nil {
			t.Error(err)
		}
		return resp
	}
	s := newLegacyScript(t, l3, nil)
	var refused exchange.Response
	s.answer = func(ctx context.Context, _ exchange.Request, back exchange.Peer) (exchange.Response, error) {
		ask(ctx, back, sample)
		ask(ctx, s.opened[0].Back, sample)
		refused = ask(ctx, back, choices)
		return exchange.Response{Result: []byte(plain)}, nil
	}
	u := newUser(t, modern(s), l2, `{"sampling":{},"elicitation":{}}`, agreeable)
	u.must("tools/call", `{"name":"a"}`)
	const split = `sampling/createMessage {"messages":[{"role":"user","content":{"type":"text","text":"a"}},{"role":"user","content":{"type":"text","text":"b"}}],"maxTokens":100}`
	equal(t, "questions", strings.Join(u.questions(), "\n"), split+"\n"+split)
	equal(t, "several choices", outcome(refused, nil), `-32602 {"bridge":{"reason":"client_capability"}}`)
}

// TestQuestionsAtTheSameRevision: a server that says in the client's own revision what that does not have is not
// corrected, for there are clients that understand it.
func TestQuestionsAtTheSameRevision(t *testing.T) {
	s := newLegacyScript(t, l2, nil)
	params := jsonrpc.Get([]byte(choices), "params")
	s.answer = func(ctx context.Context, _ exchange.Request, back exchange.Peer) (exchange.Response, error) {
		return back.Call(ctx, exchange.Request{Method: "elicitation/create", Params: params})
	}
	u := newUser(t, modern(s), l2, `{"elicitation":{}}`, agreeable)
	u.schemas = nil // such a form is not what the revision says
	u.must("tools/call", `{"name":"a"}`)
	equal(t, "questions", strings.Join(u.questions(), "\n"), "elicitation/create "+string(params))
}

// TestURLErrorOfAHandshakeServer is translation.md 7.6 for handshake-era clients.
func TestURLErrorOfAHandshakeServer(t *testing.T) {
	const data = `{"elicitations":[{"mode":"url","elicitationId":"1","url":"https://secret.example/x","message":"m"}]}`
	for _, tc := range []struct {
		name         string
		client       negotiate.Revision
		caps, method string
		want         string
	}{
		{"declared", l3, `{"elicitation":{"url":{}}}`, "tools/call", `-32042 ` + data},
		{"not declared", l3, `{"elicitation":{}}`, "tools/call",
			`{"content":[{"type":"text","text":"a needs the client capability elicitation.url; this client did not declare it."}],"isError":true}`},
		{"older client", l2, `{"elicitation":{"url":{}}}`, "tools/call",
			`{"content":[{"type":"text","text":"a needs the client capability elicitation.url; this client speaks 2025-06-18 and cannot provide it."}],"isError":true}`},
		{"another method", l1, `{}`, "prompts/get", `-32603 {"bridge":{"reason":"url_elicitation_required"}}`},
	} {
		s := newLegacyScript(t, l3, func(context.Context, exchange.Request, exchange.Peer) (exchange.Response, error) {
			return exchange.Response{Error: fault(-32042, data)}, nil
		})
		u := newUser(t, modern(s), tc.client, tc.caps, agreeable)
		resp, err := u.ask(tc.method, `{"name":"a"}`)
		equal(t, tc.name, outcome(resp, err), tc.want)
	}
}

func TestInputRequiredIsNoWordOfAHandshake(t *testing.T) {
	s := newLegacyScript(t, l3, results("tools/call", inputs(`{"1":`+roots+`}`, "")))
	u := newUser(t, modern(s), l3, allCapabilities, agreeable)
	got := u.must("tools/call", `{"name":"a"}`)
	if !strings.Contains(got, `"isError":true`) || len(u.questions()) != 0 {
		t.Errorf("got %s and %d questions, want a failed result and none", got, len(u.questions()))
	}
}

// TestModernOnModern: what a modern server must not say to a modern client (translation.md 6.6, 10).
func TestModernOnModern(t *testing.T) {
	for _, tc := range []struct {
		name, caps string
		resp       exchange.Response
		want       string
	}{
		{"unknown block", `{}`, exchange.Response{Result: []byte(`{"resultType":"complete","content":[` + `{"type":"video"}` + `]}`)},
			`{"resultType":"complete","content":[{"type":"text","text":"{\"type\":\"video\"}"}]}`},
		{"questions pass", `{}`, exchange.Response{Result: []byte(inputs(`{}`, `"s"`))}, inputs(`{}`, `"s"`)},
		{"task undeclared", `{}`, exchange.Response{Result: []byte(`{"resultType":"task","taskId":"1"}`)}, `upstream_invalid`},
		{"task declared", `{"extensions":{"io.modelcontextprotocol/tasks":{}}}`, exchange.Response{Result: []byte(`{"resultType":"task","taskId":"1"}`)},
			`{"resultType":"task","taskId":"1"}`},
		{"URL of the handshake era", `{}`, exchange.Response{Error: fault(-32042, `{}`)}, `upstream_invalid`},
		{"own error", `{}`, exchange.Response{Error: fault(-32021, `{"requiredCapabilities":{}}`)}, `-32021 {"requiredCapabilities":{}}`},
	} {
		s := newScript(t, func(context.Context, exchange.Request, exchange.Peer) (exchange.Response, error) { return tc.resp, nil })
		sess := open(t, modern(s), m)
		resp, err := sess.Call(t.Context(), exchange.Request{Method: "tools/call", Params: []byte(`{"name":"a","_meta":{` + envelope(tc.caps) + `}}`)}, nil)
		equal(t, tc.name, outcome(resp, err), tc.want)
		equal(t, "served", sess.Server().Served, negotiate.All)
	}
}

// TestServedIsTheServersWord: a server that lets only some clients in (upstream.Options.SameEra) is not promised to others.
func TestServedIsTheServersWord(t *testing.T) {
	s := newScript(t, nil)
	s.server.Served = negotiate.Modern
	equal(t, "modern", open(t, modern(s), m).Server().Served, negotiate.Modern)
	old := newLegacyScript(t, l3, nil)
	old.server.Served = negotiate.Legacy
	equal(t, "same era", newUser(t, modern(old), l3, `{}`, agreeable).session.Server().Served, negotiate.Legacy)
}

// TestIdentityCostsNothingThatGrows: a call within an era allocates the same few bytes whatever its payload.
func TestIdentityCostsNothingThatGrows(t *testing.T) {
	for _, r := range []negotiate.Revision{l3, m} {
		var allocs [2]float64
		for i, size := range []int{10, 1 << 20} {
			result := []byte(`{"content":[{"type":"text","text":"` + strings.Repeat("x", size) + `"}],"resultType":"complete"}`)
			s := newLegacyScript(t, r, func(context.Context, exchange.Request, exchange.Peer) (exchange.Response, error) {
				return exchange.Response{Result: result}, nil
			})
			s.schemas = nil
			sess := open(t, modern(s), r)
			req := exchange.Request{Method: "tools/call", Params: []byte(`{"name":"a","arguments":{"x":"` + strings.Repeat("x", size) + `"}}`)}
			peer := &exchangetest.Peer{}
			allocs[i] = testing.AllocsPerRun(10, func() {
				s.calls = s.calls[:0]
				if _, err := sess.Call(t.Context(), req, peer); err != nil {
					t.Fatal(err)
				}
			})
		}
		if allocs[0] != allocs[1] || allocs[0] > 2 {
			t.Errorf("%v: got %v allocations for a small call and a large one, want the same few", r, allocs)
		}
	}
}

// The end of an elicitation is told to the session that it belongs to (translation.md 6.4): where sessions of the server's are shared,
// that is known of a caller's own only.
func TestEndOfAnElicitationInThePool(t *testing.T) {
	const note, change = "notifications/elicitation/complete", "notifications/tools/list_changed"
	for _, c := range []struct {
		name, principal string
		pooled          bool
		want            string
	}{
		{"a session of its own", "", false, note + " " + change},
		{"pooled, known", "a", true, note + " " + change},
		{"pooled, not known", "", true, change},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newLegacyScript(t, l3, nil)
			back := &exchangetest.Peer{}
			sess, err := translate.Handler(s, &translate.Options{Pooled: c.pooled}).Open(t.Context(), exchange.Client{Revision: l3, Principal: c.principal, Back: back})
			if err != nil {
				t.Fatal(err)
			}
			defer sess.Close()
			for _, method := range []string{note, change} {
				if err := s.opened[0].Back.Notify(t.Context(), exchange.Request{Method: method}); err != nil {
					t.Error(err)
				}
			}
			var got []string
			for _, n := range back.Notes() {
				got = append(got, n.Method)
			}
			equal(t, "told", strings.Join(got, " "), c.want)
		})
	}
}
