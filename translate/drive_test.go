package translate_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/exchange/exchangetest"
	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
	"github.com/mcp-dualstack/bridge/negotiate"
)

const (
	l0 = negotiate.Rev20241105
	l1 = negotiate.Rev20250326
	l2 = negotiate.Rev20250618
	l3 = negotiate.Rev20251125
	m  = negotiate.Rev20260728

	form    = `{"method":"elicitation/create","params":{"mode":"form","message":"Which?","requestedSchema":{"type":"object","properties":{"branch":{"type":"string"}}}}}`
	choices = `{"method":"elicitation/create","params":{"message":"Which?","requestedSchema":{"type":"object","properties":{"b":{"type":"array","items":{"type":"string","enum":["a"]}}}}}}`
	link    = `{"method":"elicitation/create","params":{"mode":"url","url":"https://accounts.example.net/link/7","message":"Link it."}}`
	roots   = `{"method":"roots/list"}`
	sample  = `{"method":"sampling/createMessage","params":{"messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}],"maxTokens":100}}`
	tooled  = `{"method":"sampling/createMessage","params":{"messages":[],"maxTokens":100,"tools":[]}}`

	final = `{"content":[{"type":"text","text":"done"}],"resultType":"complete"}`
	plain = `{"content":[{"type":"text","text":"done"}]}`
)

// inputs returns an InputRequiredResult.
func inputs(requests, state string) string {
	r := `{"resultType":"input_required"`
	if requests != "" {
		r += `,"inputRequests":` + requests
	}
	if state != "" {
		r += `,"requestState":` + state
	}
	return r + `}`
}

// envelope returns the _meta members of a request by a client with those capabilities.
func envelope(caps string) string {
	return `"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":` + caps +
		`,"io.modelcontextprotocol/clientInfo":{"name":"desk","version":"3.1"}`
}

const sentCapabilities = `{"roots":{},"sampling":{"tools":{}},"elicitation":{"form":{},"url":{}}}`

// TestRounds: the client sees one long request. Each round has the client's own params byte for byte and the state as
// the server wrote it (translation.md 7.4).
func TestRounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScript(t, results("tools/call",
			inputs(`{"b":`+form+`,"a":`+sample+`,"c":`+roots+`}`, `"s\u0031\/"`),
			inputs(`{"d":`+form+`}`, ""), final))
		u := newUser(t, modern(s), l3, allCapabilities, agreeable)
		got := u.must("tools/call", `{"name":"deploy","arguments":{"rows":25.0},"x":1e3,"_meta":{"progressToken":4}}`)
		equal(t, "result", got, plain)
		base := `{"name":"deploy","arguments":{"rows":25.0},"x":1e3,"_meta":{"progressToken":4,` + envelope(sentCapabilities) + `}`
		const accepted = `{"action":"accept","content":{"branch":"main","n":1.0}}`
		want := []string{
			base + `}`,
			base + `,"inputResponses":{"b":` + accepted + `,"a":{"role":"assistant","content":{"type":"text","text":"Paris"},"model":"m"},"c":{"roots":[{"uri":"file:///home"}]}},"requestState":"s\u0031\/"}`,
			base + `,"inputResponses":{"d":` + accepted + `}}`,
		}
		if got := s.params("tools/call"); !slices.Equal(got, want) {
			t.Errorf("rounds:\n got %s\nwant %s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		equal(t, "questions in document order", strings.Join(methodsOf(u), " "), "elicitation/create sampling/createMessage roots/list elicitation/create")
	})
}

func methodsOf(u *user) (out []string) {
	for _, q := range u.questions() {
		method, _, _ := strings.Cut(q, " ")
		out = append(out, method)
	}
	return out
}

// TestWhatTheServerIsTold: capabilities by client revision (translation.md 4), and nothing that a client could forge.
func TestWhatTheServerIsTold(t *testing.T) {
	for _, tc := range []struct {
		name   string
		client negotiate.Revision
		caps   string
		want   string
	}{
		{"L3 all", l3, `{"experimental":{"a":{}},"roots":{"listChanged":true},"sampling":{"context":{},"tools":{}},"elicitation":{"form":{},"url":{}},"tasks":{"list":{}},"extensions":{"io.modelcontextprotocol/tasks":{},"com.example/x":{"n":1.0}}}`,
			`{"roots":{},"sampling":{"context":{},"tools":{}},"elicitation":{"form":{},"url":{}},"extensions":{"com.example/x":{"n":1.0}}}`},
		{"only the tasks extension", l3, `{"extensions":{"io.modelcontextprotocol/tasks":{}}}`, `{}`},
		{"L2 empty elicitation", l2, `{"elicitation":{},"sampling":{"tools":{}}}`, `{"elicitation":{},"sampling":{}}`},
		{"L2 has no URL mode", l2, `{"elicitation":{"url":{}}}`, `{"elicitation":{}}`},
		{"L1 that can be asked", l1, `{"elicitation":{"url":{}},"roots":{}}`, `{"elicitation":{},"roots":{}}`},
		{"L0", l0, `{"sampling":{}}`, `{"sampling":{}}`},
		{"nulls", l2, `{"roots":null,"sampling":null,"x":{},"elicitation":null}`, `{"x":{}}`},
		{"none", l0, ``, `{}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newScript(t, results("tools/call", final))
			u := newUser(t, modern(s), tc.client, tc.caps, agreeable)
			u.must("tools/call", `{"name":"a","inputResponses":{"x":{}},"requestState":"forged","task":{"ttl":1}}`)
			equal(t, "params", s.params("tools/call")[0], `{"name":"a","_meta":{`+envelope(tc.want)+`}}`)
		})
	}
}

func TestInitializeIsMadeFromDiscover(t *testing.T) {
	s := newScript(t, elsewhereOnly)
	u := newUser(t, modern(s), l2, "{}", agreeable)
	server := u.session.Server()
	equal(t, "initialize", string(server.Initialize), `{"instructions":"ask \u0041","x-more":[1.50],"protocolVersion":"2025-11-25",`+
		`"capabilities":{"tools":{"listChanged":true},"prompts":{},"resources":{"subscribe":true,"listChanged":true},"logging":{},"completions":{},`+
		`"extensions":{"com.example/x":{"n":1.0}}},"serverInfo":{"name":"srv","version":"1.0"}}`)
	equal(t, "served", server.Served, negotiate.All)
}

func elsewhereOnly(ctx context.Context, req exchange.Request, _ exchange.Peer) (exchange.Response, error) {
	return elsewhere(ctx, req)
}

func TestServerWithoutAName(t *testing.T) {
	s := newScript(t, elsewhereOnly)
	s.server.Discover = []byte(`{"supportedVersions":["2026-07-28"],"capabilities":{},"instructions":null,"resultType":"complete"}`)
	s.server.Info, s.server.Instructions, s.server.Capabilities = nil, []byte("null"), []byte("{}")
	u := newUser(t, modern(s), l0, "{}", agreeable)
	equal(t, "initialize", string(u.session.Server().Initialize),
		`{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"mcp-dualstack-bridge","version":"0"}}`)
}

// TestGate: if one question cannot be put, none is, and the call fails with a reason the model can read (7.4 steps 3 and 6).
func TestGate(t *testing.T) {
	for _, tc := range []struct {
		name   string
		client negotiate.Revision
		caps   string
		asks   string
		text   string
	}{
		{"URL for L2", l2, `{"elicitation":{}}`, `{"1":` + form + `,"2":` + link + `}`, "deploy needs the client capability elicitation.url; this client speaks 2025-06-18 and cannot provide it."},
		{"URL not declared", l3, `{"elicitation":{}}`, `{"1":` + form + `,"2":` + link + `}`, "deploy needs the client capability elicitation.url; this client did not declare it."},
		{"form where only URL is declared", l3, `{"elicitation":{"url":{}}}`, `{"1":` + link + `,"2":` + form + `}`, "deploy needs the client capability elicitation.form; this client did not declare it."},
		{"form for L0", l0, `{}`, `{"1":` + form + `}`, "deploy needs the client capability elicitation.form; this client speaks 2024-11-05 and cannot provide it."},
		{"several choices for L2", l2, `{"elicitation":{}}`, `{"1":` + form + `,"2":` + choices + `}`, "deploy asks for several choices in one form field; this client speaks 2025-06-18, which has no such field."},
		{"sampling", l1, `{}`, `{"1":` + sample + `}`, "deploy needs the client capability sampling; this client did not declare it."},
		{"sampling with tools", l2, `{"sampling":{"tools":{}}}`, `{"1":` + sample + `,"2":` + tooled + `}`, "deploy needs the client capability sampling.tools; this client speaks 2025-06-18 and cannot provide it."},
		{"roots", l3, `{"elicitation":{}}`, `{"1":` + form + `,"2":` + roots + `}`, "deploy needs the client capability roots; this client did not declare it."},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newScript(t, results("tools/call", inputs(tc.asks, "")))
			u := newUser(t, modern(s), tc.client, tc.caps, agreeable)
			equal(t, "result", u.must("tools/call", `{"name":"deploy"}`),
				`{"content":[{"type":"text","text":`+string(jsonrpc.Quote(tc.text))+`}],"isError":true}`)
			equal(t, "questions", len(u.questions()), 0)
			equal(t, "calls", len(s.params("tools/call")), 1)
		})
	}
}

// TestSentIsCalledOnce: the order of a session's requests hangs on the first round (architecture.md 3, contract 8).
func TestSentIsCalledOnce(t *testing.T) {
	s := newScript(t, results("tools/call", inputs(`{"1":`+roots+`}`, ""), final))
	u := newUser(t, modern(s), l3, allCapabilities, agreeable)
	sent := 0
	req := exchange.Request{Method: "tools/call", Params: []byte(`{"name":"a"}`), Sent: func() { sent++ }}
	if _, err := u.session.Call(t.Context(), req, &u.call); err != nil {
		t.Fatal(err)
	}
	equal(t, "sent", sent, 1)
}

func TestOtherMethodsFailWithAnError(t *testing.T) {
	for method, params := range map[string]string{"prompts/get": `{"name":"p"}`, "resources/read": `{"uri":"a:b"}`} {
		s := newScript(t, results(method, inputs(`{"1":`+form+`}`, "")))
		u := newUser(t, modern(s), l1, "{}", agreeable)
		resp, err := u.ask(method, params)
		if err != nil || resp.Error == nil || resp.Error.Code != jsonrpc.CodeInternal {
			t.Fatalf("%s: got %v, %v", method, resp.Error, err)
		}
		equal(t, method, string(resp.Error.Data), `{"bridge":{"reason":"client_capability"}}`)
	}
}

// TestAnswers: what the server is told when the client answers with something else than a result (7.4 step 4).
func TestAnswers(t *testing.T) {
	const cancelled = `{"1":{"action":"cancel"}}`
	slow := func(ctx context.Context, _ exchange.Request) (exchange.Response, error) {
		<-ctx.Done()
		return exchange.Response{}, context.Cause(ctx)
	}
	noStream := func(context.Context, exchange.Request) (exchange.Response, error) {
		return exchange.Response{}, exchange.Fail(exchange.ReasonNoChannel, nil)
	}
	result := func(text string) func(context.Context, exchange.Request) (exchange.Response, error) {
		return func(context.Context, exchange.Request) (exchange.Response, error) {
			return exchange.Response{Result: []byte(text)}, nil
		}
	}
	for _, tc := range []struct {
		name  string
		asks  string
		reply func(context.Context, exchange.Request) (exchange.Response, error)
		told  string // inputResponses; empty: the call fails
		text  string // that is part of the failure
		after time.Duration
	}{
		{"elicitation error", form, replies(nil), cancelled, "", 0},
		{"elicitation malformed", form, result(`{"action":"maybe"}`), cancelled, "", 0},
		{"elicitation declined", form, result(`{"action":"decline","x":1.0}`), `{"1":{"action":"decline","x":1.0}}`, "", 0},
		{"elicitation unanswered", form, slow, cancelled, "", 10 * time.Minute},
		{"elicitation without a stream", form, noStream, "", "the client has no open stream on which it could be asked", 0},
		{"sampling error", sample, replies(nil), "", `deploy asked the client for sampling/createMessage and got none: it answered with the error \"user said no\".`, 0},
		{"sampling malformed", sample, result(`{"role":"assistant"}`), "", "its answer is not what MCP defines", 0},
		{"sampling unanswered", sample, slow, "", "the client did not answer in time", 10 * time.Minute},
		{"roots error", roots, replies(nil), "", "roots/list", 0},
		{"roots malformed", roots, result(`{"roots":{}}`), "", "its answer is not what MCP defines", 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newScript(t, results("tools/call", inputs(`{"1":`+tc.asks+`}`, ""), final))
				u := newUser(t, modern(s), l3, allCapabilities, tc.reply)
				start := time.Now()
				got := u.must("tools/call", `{"name":"deploy"}`)
				equal(t, "time", time.Since(start), tc.after)
				calls := s.params("tools/call")
				if tc.told == "" {
					if !strings.Contains(got, tc.text) || !strings.Contains(got, `"isError":true`) || len(calls) != 1 {
						t.Errorf("got %s after %d calls, want a failure with %q after one", got, len(calls), tc.text)
					}
					return
				}
				equal(t, "result", got, plain)
				equal(t, "answers", string(jsonrpc.Get([]byte(calls[1]), "inputResponses")), tc.told)
			})
		})
	}
}

// TestOneErrorTakesTheOthersBack: the siblings of a question that failed are cancelled.
func TestOneErrorTakesTheOthersBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScript(t, results("tools/call", inputs(`{"1":`+form+`,"2":`+roots+`}`, "")))
		var withdrawn error
		u := newUser(t, modern(s), l3, allCapabilities, func(ctx context.Context, req exchange.Request) (exchange.Response, error) {
			if req.Method == "roots/list" {
				time.Sleep(time.Second)
				return exchange.Response{Error: jsonrpc.Errorf(-32000, "no roots")}, nil
			}
			<-ctx.Done()
			withdrawn = context.Cause(ctx)
			return exchange.Response{}, withdrawn
		})
		if got := u.must("tools/call", `{"name":"deploy"}`); !strings.Contains(got, "no roots") {
			t.Errorf("got %s", got)
		}
		if withdrawn == nil {
			t.Error("the other question was not taken back")
		}
	})
}

// TestQuestionsAreOpenTogether: the client may answer the last one first.
func TestQuestionsAreOpenTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScript(t, results("tools/call", inputs(`{"1":`+form+`,"2":`+roots+`}`, ""), final))
		second := make(chan struct{})
		u := newUser(t, modern(s), l3, allCapabilities, func(ctx context.Context, req exchange.Request) (exchange.Response, error) {
			if req.Method == "roots/list" {
				close(second)
			}
			<-second
			return agreeable(ctx, req)
		})
		equal(t, "result", u.must("tools/call", `{"name":"deploy"}`), plain)
	})
}

// TestQuestionsInTheClientsWords: T10, T11 and T12 on the way to the client.
func TestQuestionsInTheClientsWords(t *testing.T) {
	s := newScript(t, results("tools/call", inputs(`{"1":`+sample+`}`, ""), final))
	u := newUser(t, modern(s), l2, `{"sampling":{}}`, agreeable)
	u.must("tools/call", `{"name":"deploy"}`)
	equal(t, "question", u.questions()[0], `sampling/createMessage {"messages":[{"role":"user","content":{"type":"text","text":"a"}},{"role":"user","content":{"type":"text","text":"b"}}],"maxTokens":100}`)
}

// TestServerThatIsNotReady: no question and a state is "come back later" (7.4 step 7).
func TestServerThatIsNotReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var at []time.Duration
		start := time.Now()
		s := newScript(t, nil)
		later := results("tools/call", inputs(`{}`, `"s"`))
		s.answer = func(ctx context.Context, req exchange.Request, back exchange.Peer) (exchange.Response, error) {
			if req.Method == "tools/call" {
				at = append(at, time.Since(start))
			}
			return later(ctx, req, back)
		}
		u := newUser(t, modern(s), l3, "{}", agreeable)
		got := u.must("tools/call", `{"name":"deploy"}`)
		if !strings.Contains(got, "did not come to an end") {
			t.Errorf("got %s", got)
		}
		ms := time.Millisecond
		want := []time.Duration{0, 250 * ms, 750 * ms, 1750 * ms, 3750 * ms, 7750 * ms, 12750 * ms, 17750 * ms, 22750 * ms, 27750 * ms, 32750 * ms}
		if !slices.Equal(at, want) {
			t.Errorf("calls at %v, want %v", at, want)
		}
		if last := s.params("tools/call")[10]; jsonrpc.Get([]byte(last), "inputResponses") != nil || string(jsonrpc.Get([]byte(last), "requestState")) != `"s"` {
			t.Errorf("got %s, want the state and no answers", last)
		}
	})
}

func TestRoundsAreBounded(t *testing.T) {
	s := newScript(t, results("prompts/get", inputs(`{"1":`+roots+`}`, "")))
	u := newUser(t, modern(s), l3, allCapabilities, agreeable)
	resp, err := u.ask("prompts/get", `{"name":"p"}`)
	if err != nil || resp.Error == nil {
		t.Fatalf("got %s, %v", resp.Result, err)
	}
	equal(t, "reason", string(resp.Error.Data), `{"bridge":{"reason":"too_many_rounds"}}`)
	equal(t, "questions", len(u.questions()), 10)
	equal(t, "calls", len(s.params("prompts/get")), 11)
}

// TestURLThatTakesTime: the user is sent to a URL once, and hears when it has served its purpose (7.4 step 8).
func TestURLThatTakesTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		again := inputs(`{"l":`+link+`}`, `"s"`)
		s := newScript(t, results("tools/call", again, again, again, again, again, final))
		u := newUser(t, modern(s), l3, allCapabilities, replies(map[string]string{"elicitation/create": `{"action":"accept"}`}))
		start := time.Now()
		equal(t, "result", u.must("tools/call", `{"name":"link"}`), plain)
		equal(t, "time", time.Since(start), (2+4+8+15)*time.Second)
		asked := u.questions()
		if len(asked) != 1 {
			t.Fatalf("got %d questions, want 1", len(asked))
		}
		id, _ := jsonrpc.String(jsonrpc.Get([]byte(strings.TrimPrefix(asked[0], "elicitation/create ")), "elicitationId"))
		equal(t, "id", len(id), 36)
		equal(t, "told", strings.Join(told(&u.call), "\n"), `notifications/elicitation/complete {"elicitationId":"`+id+`"}`)
		equal(t, "last answer", string(jsonrpc.Get([]byte(s.params("tools/call")[5]), "inputResponses")), `{"l":{"action":"accept"}}`)
	})
}

func TestURLThatTakesForever(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScript(t, results("tools/call", inputs(`{"l":`+link+`}`, `"s"`)))
		u := newUser(t, modern(s), l3, allCapabilities, replies(map[string]string{"elicitation/create": `{"action":"accept"}`}))
		if got := u.must("tools/call", `{"name":"link"}`); !strings.Contains(got, "asked for input 30 times") {
			t.Errorf("got %s", got)
		}
		equal(t, "questions", len(u.questions()), 1)
		equal(t, "calls", len(s.params("tools/call")), 32)
	})
}

func TestURLThatWasDeclinedIsAskedAgain(t *testing.T) {
	again := inputs(`{"l":`+link+`}`, `"s"`)
	s := newScript(t, results("tools/call", again, again, final))
	u := newUser(t, modern(s), l3, allCapabilities, replies(map[string]string{"elicitation/create": `{"action":"decline"}`}))
	u.must("tools/call", `{"name":"link"}`)
	equal(t, "questions", len(u.questions()), 2)
	equal(t, "told", len(told(&u.call)), 0)
}

// TestWhatIsNoAnswer: nothing but a result of the client's own era ever reaches it (7.4 steps 7 and 9).
func TestWhatIsNoAnswer(t *testing.T) {
	for _, tc := range []struct{ name, method, result string }{
		{"no object", "tools/call", `[]`},
		{"a task", "tools/call", `{"resultType":"task","taskId":"1"}`},
		{"resultType that is no string", "tools/call", `{"resultType":7}`},
		{"neither questions nor state", "tools/call", `{"resultType":"input_required"}`},
		{"questions that are no object", "tools/call", inputs(`[]`, "")},
		{"another method", "tools/call", inputs(`{"1":{"method":"ping"}}`, "")},
		{"no params", "tools/call", inputs(`{"1":{"method":"elicitation/create"}}`, "")},
		{"too many questions", "tools/call", inputs(`{`+strings.Repeat(`"a":`+roots+`,`, 64)+`"b":`+roots+`}`, "")},
		{"a list that asks", "tools/list", inputs(`{"1":`+roots+`}`, "")},
	} {
		s := newScript(t, results(tc.method, tc.result))
		u := newUser(t, modern(s), l3, allCapabilities, agreeable)
		resp, err := u.ask(tc.method, `{"name":"a"}`)
		if f, ok := errors.AsType[*exchange.Failure](err); !ok || f.Reason != exchange.ReasonInvalid {
			t.Errorf("%s: got %s, %v, want upstream_invalid", tc.name, resp.Result, err)
		}
	}
	s := newScript(t, results("tools/call", `{"resultType":"input_required","content":null,"inputRequests":{"1":`+roots+`}}`, final))
	u := newUser(t, modern(s), l3, allCapabilities, agreeable)
	equal(t, "content beside the questions", u.must("tools/call", `{"name":"a"}`), plain)
}

// TestErrorsOfAModernServer is the column of translation.md 13 for clients of the handshake era.
func TestErrorsOfAModernServer(t *testing.T) {
	for _, tc := range []struct {
		name, method, params string
		e                    *exchange.Error
		want                 string // code, data of the error, or a result, or the reason of a failure
	}{
		{"missing resource", "resources/read", `{"uri":"a:b"}`, fault(-32602, `{"uri":"a:\u0062","x":1.0}`), `-32002 {"uri":"a:\u0062","x":1.0,"bridge":{"upstreamCode":-32602}}`},
		{"another URI", "resources/read", `{"uri":"a:b"}`, fault(-32602, `{"uri":"a:c"}`), `-32602 {"uri":"a:c"}`},
		{"invalid params", "prompts/get", `{"name":"a:b"}`, fault(-32602, `{"uri":"a:b"}`), `-32602 {"uri":"a:b"}`},
		{"own code", "tools/call", `{"name":"a"}`, fault(-32007, `[1.0]`), `-32007 [1.0]`},
		{"missing capability", "tools/call", `{"name":"a"}`, fault(-32021, `{"requiredCapabilities":{"elicitation":{"form":{},"url":{}},"roots":{}}}`),
			`{"content":[{"type":"text","text":"a needs the client capability elicitation.form, elicitation.url, roots; this client did not declare it."}],"isError":true}`},
		{"missing capability", "resources/read", `{"uri":"a:b"}`, fault(-32021, `{}`), `-32603 {"bridge":{"reason":"client_capability"}}`},
		{"header mismatch", "tools/call", `{"name":"a"}`, fault(-32020, ``), `upstream_headers`},
		{"version", "tools/call", `{"name":"a"}`, fault(-32022, `{}`), `upstream_version`},
		{"URL of the handshake era", "tools/call", `{"name":"a"}`, fault(-32042, `{"elicitations":[]}`), `upstream_invalid`},
	} {
		s := newScript(t, func(ctx context.Context, req exchange.Request, _ exchange.Peer) (exchange.Response, error) {
			if req.Method != tc.method {
				return elsewhere(ctx, req)
			}
			return exchange.Response{Error: tc.e}, nil
		})
		u := newUser(t, modern(s), l3, "{}", agreeable)
		resp, err := u.ask(tc.method, tc.params)
		equal(t, tc.name+" "+tc.method, outcome(resp, err), tc.want)
	}
}

func fault(code int, data string) *exchange.Error {
	e := &exchange.Error{Code: code, Message: "server says"}
	if data != "" {
		e.Data = []byte(data)
	}
	return e
}

func outcome(resp exchange.Response, err error) string {
	if f, ok := errors.AsType[*exchange.Failure](err); ok {
		return f.Reason
	}
	switch {
	case err != nil:
		return err.Error()
	case resp.Error != nil:
		return string(jsonrpc.Get(jsonrpc.AppendError(nil, nil, resp.Error), "error", "code")) + " " + string(resp.Error.Data)
	}
	return string(resp.Result)
}

// TestProgressOnlyRises: one token, one rising row of values over all rounds (7.4 step 5).
func TestProgressOnlyRises(t *testing.T) {
	rounds := results("tools/call", inputs(`{"1":`+roots+`}`, ""), final)
	s := newScript(t, func(ctx context.Context, req exchange.Request, back exchange.Peer) (exchange.Response, error) {
		for _, p := range []string{"1", "2.5", "2.5", "2"} {
			if req.Method == "tools/call" {
				_ = back.Notify(ctx, exchange.Request{Method: "notifications/progress", Params: []byte(`{"progressToken":4,"progress":` + p + `,"total":10}`)})
			}
		}
		return rounds(ctx, req, back)
	})
	u := newUser(t, modern(s), l3, allCapabilities, agreeable)
	u.must("tools/call", `{"name":"a","_meta":{"progressToken":4}}`)
	equal(t, "told", strings.Join(told(&u.call), "\n"),
		"notifications/progress {\"progressToken\":4,\"progress\":1,\"total\":10}\nnotifications/progress {\"progressToken\":4,\"progress\":2.5,\"total\":10}")
}

// TestModernServerDoesNotAsk: a request of the server's is a violation (6.6), and notes lose what is the bridge's.
func TestModernServerDoesNotAsk(t *testing.T) {
	var answer exchange.Response
	s := newScript(t, func(ctx context.Context, req exchange.Request, back exchange.Peer) (exchange.Response, error) {
		if req.Method != "tools/call" {
			return elsewhere(ctx, req)
		}
		answer, _ = back.Call(ctx, exchange.Request{Method: "roots/list"})
		_ = back.Notify(ctx, exchange.Request{Method: "notifications/message", Params: []byte(`{"level":"info","data":1.0,"_meta":{"io.modelcontextprotocol/x":1}}`)})
		return exchange.Response{Result: []byte(final)}, nil
	})
	u := newUser(t, modern(s), l3, allCapabilities, agreeable)
	u.must("tools/call", `{"name":"a"}`)
	if answer.Error == nil || answer.Error.Code != jsonrpc.CodeMethodNotFound || len(u.questions()) != 0 {
		t.Errorf("got %v and %d questions, want -32601 and none", answer.Error, len(u.questions()))
	}
	equal(t, "told", strings.Join(told(&u.call), "\n"), `notifications/message {"level":"info","data":1.0}`)
}

func TestLogLevelTravelsWithEveryRequest(t *testing.T) {
	s := newScript(t, elsewhereOnly)
	u := newUser(t, modern(s), l2, "{}", agreeable)
	u.must("prompts/list", `{}`)
	equal(t, "answer", u.must("logging/setLevel", `{"level":"warning"}`), `{}`)
	u.must("prompts/list", `{"cursor":"c"}`)
	equal(t, "before", s.params("prompts/list")[0], `{"_meta":{`+envelope("{}")+`}}`)
	equal(t, "after", s.params("prompts/list")[1], `{"cursor":"c","_meta":{`+envelope("{}")+`,"io.modelcontextprotocol/logLevel":"warning"}}`)
	resp, err := u.ask("logging/setLevel", `{"level":"loud"}`)
	equal(t, "invalid", outcome(resp, err), `-32602 {"bridge":{"reason":"invalid_log_level"}}`)

	mute := newScript(t, elsewhereOnly)
	mute.server.Capabilities = []byte(`{}`)
	resp, err = newUser(t, modern(mute), l2, "{}", agreeable).ask("logging/setLevel", `{"level":"info"}`)
	equal(t, "without logging", outcome(resp, err), `-32601 {"bridge":{"reason":"unknown_method"}}`)
}

// TestWhatDoesNotCross: ping is the bridge's, tasks are not bridged, notes have no use, and what is unknown passes.
func TestWhatDoesNotCross(t *testing.T) {
	s := newScript(t, elsewhereOnly)
	u := newUser(t, modern(s), l3, "{}", agreeable)
	equal(t, "ping", u.must("ping", `{}`), `{}`)
	for _, method := range []string{"tasks/get", "tasks/list", "server/discover", "subscriptions/listen", "initialize"} {
		resp, err := u.ask(method, `{}`)
		equal(t, method, outcome(resp, err), `-32601 {"bridge":{"reason":"unknown_method"}}`)
	}
	for _, method := range []string{"notifications/initialized", "notifications/roots/list_changed", "x/unknown"} {
		if err := u.session.Notify(t.Context(), exchange.Request{Method: method}); err != nil {
			t.Errorf("%s: %v", method, err)
		}
	}
	u.must("x/unknown", `{"a":[1.0]}`)
	equal(t, "unknown method", s.params("x/unknown")[0], `{"a":[1.0],"_meta":{`+envelope("{}")+`}}`)
	equal(t, "notes", len(s.notes), 0)
}

// TestCancellation: the end of the client's call ends the round, the questions and the waits, whatever is going on.
func TestCancellation(t *testing.T) {
	gone := &exchange.CancelError{Reason: "enough"}
	for name, result := range map[string]string{
		"while asking":  inputs(`{"1":`+form+`,"2":`+roots+`}`, ""),
		"while waiting": inputs(``, `"s"`),
	} {
		for _, how := range []string{"cancelled", "closed"} {
			t.Run(name+" "+how, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := newScript(t, results("tools/call", result))
					u := newUser(t, modern(s), l3, allCapabilities, func(ctx context.Context, _ exchange.Request) (exchange.Response, error) {
						<-ctx.Done()
						return exchange.Response{}, context.Cause(ctx)
					})
					ctx, cancel := context.WithCancelCause(t.Context())
					defer cancel(nil)
					ended := make(chan error, 1)
					go func() {
						_, err := u.askCtx(ctx, "tools/call", `{"name":"a"}`)
						ended <- err
					}()
					time.Sleep(100 * time.Millisecond)
					want := "cancelled by the caller: enough"
					if how == "closed" {
						want = "session_closed"
						_ = u.session.Close()
					} else {
						cancel(gone)
					}
					synctest.Wait()
					select {
					case err := <-ended:
						equal(t, "error", err.Error(), want)
					default:
						t.Error("the call goes on")
					}
				})
			})
		}
	}
}

func TestAfterClose(t *testing.T) {
	s := newScript(t, elsewhereOnly)
	u := newUser(t, modern(s), l3, "{}", agreeable)
	for range 2 {
		if err := u.session.Close(); err != nil {
			t.Fatal(err)
		}
	}
	_, err := u.ask("tools/list", `{}`)
	equal(t, "call", outcome(exchange.Response{}, err), exchange.ReasonClosed)
	err = u.session.Notify(t.Context(), exchange.Request{Method: "x"})
	equal(t, "note", outcome(exchange.Response{}, err), exchange.ReasonClosed)
	equal(t, "session below closed", s.closed >= 1, true)
}

// FuzzRounds: whatever a modern server answers, what the client gets is valid and of its own era, and what the
// server gets in the next round is valid and has all of the client's params.
func FuzzRounds(f *testing.F) {
	for _, seed := range []string{
		final, inputs(`{"1":`+form+`,"1":`+sample+`}`, `"s\u0031"`), inputs(`{"":`+roots+`, "b" : `+link+`}`, ""), inputs("", `"s"`), inputs(`{}`, `null`),
		`{"r\u0065sultType":"input_required","inputRequests":{"\ud800":` + roots + `}}`, `[]`, `7`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, first []byte) {
		if !json.Valid(first) || !utf8.Valid(first) {
			t.Skip()
		}
		synctest.Test(t, func(t *testing.T) {
			s := newScript(t, nil)
			s.schemas = nil
			s.answer = results("tools/call", string(bytes.TrimSpace(first)), final)
			u := newUser(t, modern(s), l3, allCapabilities, agreeable)
			u.schemas = nil
			resp, err := u.ask("tools/call", `{"name":"a","arguments":{"rows":25.0}}`)
			if err == nil && resp.Error == nil && (!json.Valid(resp.Result) || !jsonrpc.IsObject(resp.Result) || jsonrpc.Get(resp.Result, "resultType") != nil) {
				t.Errorf("the client got %s", resp.Result)
			}
			for _, params := range s.params("tools/call") {
				if !json.Valid([]byte(params)) || string(jsonrpc.Get([]byte(params), "arguments")) != `{"rows":25.0}` {
					t.Errorf("the server got %s", params)
				}
			}
			for _, q := range u.questions() {
				if _, params, _ := strings.Cut(q, " "); params != "" && !json.Valid([]byte(params)) {
					t.Errorf("the client was asked %s", q)
				}
			}
			_ = u.session.Close()
		})
	})
}

// BenchmarkDrive: a call of one round, and one of two rounds with a question between them.
func BenchmarkDrive(b *testing.B) {
	for _, tc := range []struct {
		name    string
		results []string
	}{{"final", []string{final}}, {"round", []string{inputs(`{"1":`+roots+`}`, `"s"`), final}}} {
		b.Run(tc.name, func(b *testing.B) {
			n := 0
			s := newScript(b, func(ctx context.Context, req exchange.Request, _ exchange.Peer) (exchange.Response, error) {
				if req.Method != "tools/call" {
					return elsewhere(ctx, req)
				}
				n++
				return exchange.Response{Result: []byte(tc.results[n%len(tc.results)])}, nil
			})
			if len(tc.results) == 2 {
				n = 1
			}
			h := modern(s)
			peer := &exchangetest.Peer{Answer: func(ctx context.Context, req exchange.Request) (exchange.Response, error) {
				req.Sent()
				return agreeable(ctx, req)
			}}
			sess, err := h.Open(b.Context(), exchange.Client{Revision: l3, Capabilities: []byte(allCapabilities), Back: peer})
			if err != nil {
				b.Fatal(err)
			}
			defer sess.Close()
			req := exchange.Request{Method: "tools/call", Params: []byte(`{"name":"deploy","arguments":{"rows":25.0}}`)}
			b.ReportAllocs()
			for b.Loop() {
				s.calls = s.calls[:0]
				if _, err := sess.Call(b.Context(), req, peer); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
