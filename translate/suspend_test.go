package translate_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
	"github.com/mcp-dualstack/bridge/negotiate"
	"github.com/mcp-dualstack/bridge/translate"
)

func TestInputRequired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up := newLegacy(t, func(ctx context.Context, _ exchange.Request, back exchange.Peer) (exchange.Response, error) {
			go elicits(ctx, back, "Which?")
			time.Sleep(time.Millisecond)
			go back.Call(ctx, exchange.Request{Method: "elicitation/create", Params: []byte(`{"mode":"url","elicitationId":"e1","url":"https://a.example/","message":"Go","task":{"ttl":1},"x":1.0}`)})
			time.Sleep(time.Millisecond)
			resp, err := back.Call(ctx, exchange.Request{Method: "roots/list", Params: []byte(`{"_meta":{"progressToken":1}}`)})
			if err != nil || resp.Error != nil {
				return resp, err
			}
			return text("over")
		})
		d := newDesk(t, legacyHandler(t, up, nil))
		r := d.round("tools/call", deploy)
		equal(t, "inputRequests", r.requests, `{"1.1":{"method":"elicitation/create","params":`+strings.Replace(branchForm, "Which branch?", "Which?", 1)+`},`+
			`"1.2":{"method":"elicitation/create","params":{"mode":"url","url":"https://a.example/","message":"Go","x":1.0}},"1.3":{"method":"roots/list","params":{}}}`)
		got := d.show("tools/call", r.retry(deploy, `{"1.1":{"action":"decline"},"1.2":{"action":"accept"},"1.3":{"roots":[]}}`))
		equal(t, "result", got, `{"content":[{"type":"text","text":"over"}],"resultType":"complete","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"srv","version":"1.0"}}}`)
	})
}

// The client is asked 25 ms after the last question, 100 ms after the first at most.
func TestGatherWindow(t *testing.T) {
	for _, tc := range []struct {
		name  string
		every time.Duration
		n     int
		asked string
		after time.Duration
	}{
		{"one", 0, 1, "1.1", 25 * time.Millisecond},
		{"siblings", 20 * time.Millisecond, 3, "1.1 1.2 1.3", 65 * time.Millisecond},
		{"no end of siblings", 20 * time.Millisecond, 20, "1.1 1.2 1.3 1.4 1.5", 100 * time.Millisecond},
		{"late sibling", 30 * time.Millisecond, 2, "1.1", 25 * time.Millisecond},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				up := newLegacy(t, func(ctx context.Context, _ exchange.Request, back exchange.Peer) (exchange.Response, error) {
					for i := range tc.n {
						go elicits(ctx, back, fmt.Sprint(i))
						time.Sleep(tc.every - time.Duration(i/5)) // not in the same instant as the end of the window
					}
					<-ctx.Done()
					return exchange.Response{}, context.Cause(ctx)
				})
				d := newDesk(t, legacyHandler(t, up, nil))
				start := time.Now()
				r := d.round("tools/call", deploy)
				if tc.name == "no end of siblings" {
					equal(t, "asked", strings.HasPrefix(keys(r.requests), tc.asked), true)
				} else {
					equal(t, "asked", keys(r.requests), tc.asked)
				}
				equal(t, "after", time.Since(start), tc.after)
			})
		})
	}
}

// A question that the server takes back is not asked any more.
func TestWithdrawnQuestion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		withdraw := make(chan struct{})
		up := newLegacy(t, func(ctx context.Context, _ exchange.Request, back exchange.Peer) (exchange.Response, error) {
			first, cancel := context.WithCancel(ctx)
			defer cancel()
			go elicits(first, back, "first")
			time.Sleep(time.Millisecond)
			second := make(chan string)
			go func() { second <- elicits(ctx, back, "second") }()
			<-withdraw
			cancel()
			return text(<-second)
		})
		d := newDesk(t, legacyHandler(t, up, nil))
		r := d.round("tools/call", deploy)
		close(withdraw)
		synctest.Wait()
		r = d.round("tools/call", r.retry(deploy, `{"1.1":`+accepted+`}`))
		equal(t, "keys", keys(r.requests), "1.2")
		equal(t, "text", textOf(d.show("tools/call", r.retry(deploy, `{"1.2":`+accepted+`}`))), accepted)
	})
}

func TestAllQuestionsWithdrawn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up := newLegacy(t, func(ctx context.Context, _ exchange.Request, back exchange.Peer) (exchange.Response, error) {
			first, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
			defer cancel()
			elicits(first, back, "first")
			return text("went on")
		})
		d := newDesk(t, legacyHandler(t, up, nil))
		equal(t, "text", textOf(d.show("tools/call", deploy)), "went on")
	})
}

// waits is a server whose tool waits for the end of its ctx after having asked, and notes what it saw.
func waits(seen chan<- string) func(context.Context, exchange.Request, exchange.Peer) (exchange.Response, error) {
	return func(ctx context.Context, _ exchange.Request, back exchange.Peer) (exchange.Response, error) {
		answer := make(chan string, 1)
		go func() { answer <- elicits(context.WithoutCancel(ctx), back, "anybody?") }()
		<-ctx.Done()
		seen <- context.Cause(ctx).Error()
		seen <- <-answer
		return exchange.Response{}, context.Cause(ctx)
	}
}

func TestClientLeaves(t *testing.T) {
	t.Run("while the call runs", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			seen := make(chan string, 2)
			d := newDesk(t, legacyHandler(t, newLegacy(t, waits(seen)), &translate.Options{Suspend: translate.SuspendOptions{GatherQuiet: time.Hour, GatherMax: time.Hour}}))
			ctx, cancel := context.WithCancelCause(t.Context())
			go func() {
				time.Sleep(time.Second)
				cancel(&exchange.CancelError{Reason: "stream closed"})
			}()
			_, err := d.ask(ctx, "tools/call", deploy)
			equal(t, "error", fmt.Sprint(err), "cancelled by the caller: stream closed")
			equal(t, "server's ctx", <-seen, "cancelled by the caller: stream closed")
			equal(t, "answer", <-seen, `{"action":"cancel"}`)
		})
	})
	t.Run("while it is suspended", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			seen := make(chan string, 2)
			d := newDesk(t, legacyHandler(t, newLegacy(t, waits(seen)), nil))
			ctx, cancel := context.WithCancel(t.Context())
			if _, err := d.ask(ctx, "tools/call", deploy); err != nil {
				t.Fatal(err)
			}
			cancel()
			time.Sleep(599 * time.Second)
			if len(seen) > 0 {
				t.Error("the call ended before its time")
			}
			time.Sleep(2 * time.Second)
			synctest.Wait()
			equal(t, "server's ctx", <-seen, "cancelled by the caller: the client did not answer")
			equal(t, "answer", <-seen, `{"action":"cancel"}`)
		})
	})
	t.Run("and its session is closed", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			seen := make(chan string, 2)
			up := newLegacy(t, waits(seen))
			h := legacyHandler(t, up, &translate.Options{Suspend: translate.SuspendOptions{GatherQuiet: time.Hour, GatherMax: time.Hour}})
			s, err := h.Open(t.Context(), exchange.Client{Revision: negotiate.Rev20260728, Capabilities: []byte(`{"elicitation":{}}`)})
			if err != nil {
				t.Fatal(err)
			}
			ended := make(chan error)
			go func() {
				_, err := s.Call(t.Context(), exchange.Request{Method: "tools/call", Params: []byte(deploy)}, nil)
				ended <- err
			}()
			synctest.Wait()
			_ = s.Close()
			_ = s.Close()
			equal(t, "error", fmt.Sprint(<-ended), "session_closed")
			_, err = s.Call(t.Context(), exchange.Request{Method: "tools/call", Params: []byte(deploy)}, nil)
			equal(t, "after close", fmt.Sprint(err), "session_closed")
			synctest.Wait()
			equal(t, "closed below", up.closes(), 1)
		})
	})
}

// The session below outlives the request that opened it, until its call has returned.
func TestSessionBelowStaysOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up := newLegacy(t, asksFor("one"))
		d := newDesk(t, legacyHandler(t, up, nil))
		r := d.round("tools/call", deploy)
		synctest.Wait()
		equal(t, "closed while suspended", up.closes(), 0)
		d.show("tools/call", r.retry(deploy, `{"1.1":`+accepted+`}`))
		synctest.Wait()
		equal(t, "closed of the two", up.closes(), 2)
	})
}

func TestHandlerCloses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		seen := make(chan string, 2)
		h := legacyHandler(t, newLegacy(t, waits(seen)), nil)
		d := newDesk(t, h)
		r := d.round("tools/call", deploy)
		closeHandler(t, h)
		equal(t, "server's ctx", <-seen, "session_closed")
		equal(t, "retry", d.show("tools/call", r.retry(deploy, "")), "failed: session_closed")
		equal(t, "new call", d.show("tools/call", deploy), "failed: session_closed")
	})
}

func TestProgressGoesToTheAttachedRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		progress := func(back exchange.Peer, n int) {
			_ = back.Notify(context.Background(), exchange.Request{Method: "notifications/progress", Params: fmt.Appendf(nil, `{"progressToken":"first","progress":%d.0,"x":1}`, n)})
		}
		asked := make(chan struct{})
		up := newLegacy(t, func(ctx context.Context, _ exchange.Request, back exchange.Peer) (exchange.Response, error) {
			progress(back, 1)
			go func() {
				<-asked
				progress(back, 2) // nobody's
				asked <- struct{}{}
			}()
			elicits(ctx, back, "go?")
			progress(back, 3)
			return text("ok")
		})
		d := newDesk(t, legacyHandler(t, up, nil))
		d.meta = `,"progressToken":"first"`
		r := d.round("tools/call", deploy)
		asked <- struct{}{}
		<-asked
		d.meta = `,"progressToken":7`
		d.show("tools/call", r.retry(deploy, `{"1.1":`+accepted+`}`))
		equal(t, "told", strings.Join(told(d.back), "\n"), `notifications/progress {"progressToken":"first","progress":1.0,"x":1}`+"\n"+
			`notifications/progress {"progressToken":7,"progress":3.0,"x":1}`)
	})
}

func TestLogMessages(t *testing.T) {
	for _, tc := range []struct{ name, meta, levels, told string }{
		{"no level", ``, "", ""},
		{"warning", `,"io.modelcontextprotocol/logLevel":"warning"`, `{"level":"warning"}`, "warning error"},
		{"debug", `,"io.modelcontextprotocol/logLevel":"debug"`, `{"level":"debug"}`, "debug info warning error"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				up := newLegacy(t, func(ctx context.Context, _ exchange.Request, back exchange.Peer) (exchange.Response, error) {
					for _, level := range []string{"debug", "info", "warning", "error", "loud"} {
						_ = back.Notify(ctx, exchange.Request{Method: "notifications/message", Params: []byte(`{"level":"` + level + `","data":1.0}`)})
					}
					return text("ok")
				})
				d := newDesk(t, legacyHandler(t, up, nil))
				d.meta = tc.meta
				d.show("tools/call", deploy)
				equal(t, "setLevel", strings.Join(up.params("logging/setLevel"), " "), tc.levels)
				equal(t, "call", strings.Join(up.params("tools/call"), " "), deploy)
				var got []string
				for _, note := range d.back.Notes() {
					level, _ := jsonrpc.String(jsonrpc.Get(note.Params, "level"))
					got = append(got, level)
				}
				equal(t, "told", strings.Join(got, " "), tc.told)
			})
		})
	}
}

func TestCapabilityThatWasNotDeclared(t *testing.T) {
	const tool = `{"messages":[{"role":"user","content":{"type":"text","text":"?"}}],"maxTokens":5,"tools":[{"name":"a","inputSchema":{"type":"object"}}]}`
	for _, tc := range []struct{ name, caps, method, params, need, answered string }{
		{"nothing declared", `{}`, "elicitation/create", branchForm, `{"elicitation":{"form":{}}}`, "-32601"},
		{"url for form", `{"elicitation":{"url":{}}}`, "elicitation/create", branchForm, `{"elicitation":{"form":{}}}`, "-32602"},
		{"form for url", `{"elicitation":{}}`, "elicitation/create", `{"mode":"url","url":"https://a.example/","message":"m","elicitationId":"1"}`, `{"elicitation":{"url":{}}}`, "-32602"},
		{"roots", `{"elicitation":{}}`, "roots/list", `{}`, `{"roots":{}}`, "-32601"},
		{"sampling", `{"roots":{}}`, "sampling/createMessage", tool, `{"sampling":{}}`, "-32601"},
		{"sampling with tools", `{"sampling":{}}`, "sampling/createMessage", tool, `{"sampling":{"tools":{}}}`, "-32601"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				answered := make(chan string, 2)
				up := newLegacy(t, func(ctx context.Context, _ exchange.Request, back exchange.Peer) (exchange.Response, error) {
					resp, err := back.Call(context.WithoutCancel(ctx), exchange.Request{Method: tc.method, Params: []byte(tc.params)})
					answered <- shown(resp, err)
					<-ctx.Done()
					answered <- "cancelled"
					return exchange.Response{}, context.Cause(ctx)
				})
				d := newDesk(t, legacyHandler(t, up, nil))
				d.caps = tc.caps
				resp, err := d.ask(t.Context(), "tools/call", deploy)
				if err != nil || resp.Error == nil {
					t.Fatalf("got %s", shown(resp, err))
				}
				equal(t, "code", resp.Error.Code, -32021)
				equal(t, "data", string(resp.Error.Data), `{"requiredCapabilities":`+tc.need+`}`)
				equal(t, "answered upstream", <-answered, "error "+tc.answered+" client_capability")
				equal(t, "call", <-answered, "cancelled")
			})
		})
	}
}

func TestOtherMethodsCannotSuspend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up := newLegacy(t, func(ctx context.Context, req exchange.Request, back exchange.Peer) (exchange.Response, error) {
			resp, err := back.Call(ctx, exchange.Request{Method: "roots/list"})
			equal(t, "answer", shown(resp, err), "error -32602 no_call_to_ask_for")
			return exchange.Response{Result: []byte(`{"tools":[]}`)}, nil
		})
		d := newDesk(t, legacyHandler(t, up, nil))
		equal(t, "list", d.show("tools/list", `{}`), `{"tools":[],"resultType":"complete","ttlMs":0,"cacheScope":"private",`+
			`"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"srv","version":"1.0"}}}`)
		equal(t, "params", strings.Join(up.params("tools/list"), " "), "{}")
	})
}

func TestUnknownQuestions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up := newLegacy(t, func(ctx context.Context, _ exchange.Request, back exchange.Peer) (exchange.Response, error) {
			resp, err := back.Call(ctx, exchange.Request{Method: "tasks/list"})
			equal(t, "another method", shown(resp, err), "error -32601 unknown_method")
			resp, err = back.Call(ctx, exchange.Request{Method: "elicitation/create"})
			equal(t, "no params", shown(resp, err), "error -32602 invalid_input_request")
			return text("ok")
		})
		d := newDesk(t, legacyHandler(t, up, nil))
		equal(t, "text", textOf(d.show("tools/call", deploy)), "ok")
	})
}

func TestWhatTheLegacyServerIsSent(t *testing.T) {
	for _, tc := range []struct{ name, meta, params, want string }{
		{"nothing but the envelope", ``, deploy, deploy},
		{"progress token", `,"progressToken":4`, deploy, `{"name":"deploy","arguments":{"n":25.0},"_meta":{"progressToken":4}}`},
		{"other keys", `,"traceparent":"00-a","com.example/x":{"y":1.0}`, deploy, `{"name":"deploy","arguments":{"n":25.0},"_meta":{"traceparent":"00-a","com.example/x":{"y":1.0}}}`},
		{"task and responses", ``, `{"name":"a","task":{"ttl":5},"inputResponses":{},"x":[1e3]}`, `{"name":"a","x":[1e3]}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				up := newLegacy(t, results("tools/call", done))
				d := newDesk(t, legacyHandler(t, up, nil))
				d.meta = tc.meta
				d.show("tools/call", tc.params)
				equal(t, "params", strings.Join(up.params("tools/call"), " "), tc.want)
			})
		})
	}
}

func TestDiscoverIsMadeFromInitialize(t *testing.T) {
	d := newDesk(t, legacyHandler(t, newLegacy(t, elsewhereOnly), nil))
	want := `{"resultType":"complete","supportedVersions":["2026-07-28","2025-11-25","2025-06-18","2025-03-26","2024-11-05"],` +
		`"capabilities":{"tools":{"listChanged":true},"prompts":{},"resources":{"subscribe":true,"listChanged":true},"logging":{}},` +
		`"instructions":"ask \u0041","ttlMs":0,"cacheScope":"private","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"srv","version":"1.0"}}}`
	equal(t, "result", d.show("server/discover", "{}"), want)
	s, err := d.h.Open(t.Context(), exchange.Client{Revision: negotiate.Rev20260728})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	server := s.Server()
	equal(t, "revision", server.Revision, negotiate.Rev20260728)
	equal(t, "served", server.Served, negotiate.All)
	equal(t, "discover", string(server.Discover), want)
	equal(t, "initialize", string(server.Initialize), "")
	if err := s.Notify(t.Context(), exchange.Request{Method: "notifications/roots/list_changed"}); err != nil {
		t.Error(err)
	}
}

func TestErrorsOfALegacyServer(t *testing.T) {
	for _, tc := range []struct{ name, method, params, data, want string }{
		{"-32601", "x/unknown", `{}`, ``, `{"code":-32601,"message":"m"}`},
		{"-32602", "tools/call", deploy, `{"a":1.0}`, `{"code":-32602,"message":"m","data":{"a":1.0}}`},
		{"-32603", "tools/call", deploy, ``, `{"code":-32603,"message":"m"}`},
		{"-32000", "tools/call", deploy, ``, `{"code":-32000,"message":"m"}`},
		{"-32019", "tools/call", deploy, ``, `{"code":-32019,"message":"m"}`},
		{"42", "tools/call", deploy, ``, `{"code":42,"message":"m"}`},
		{"-32002", "resources/read", `{"uri":"a:b"}`, ``, `{"code":-32602,"message":"m","data":{"uri":"a:b","bridge":{"upstreamCode":-32002}}}`},
		{"-32002 with uri", "resources/read", `{"uri":"a:b"}`, `{"uri":"a:B"}`, `{"code":-32602,"message":"m","data":{"uri":"a:B","bridge":{"upstreamCode":-32002}}}`},
		{"-32002 elsewhere", "tools/call", deploy, `[1.0]`, `{"code":-32603,"message":"m","data":{"bridge":{"upstreamData":[1.0],"upstreamCode":-32002}}}`},
		{"-32020", "tools/call", deploy, `{"k":1}`, `{"code":-32603,"message":"m","data":{"k":1,"bridge":{"upstreamCode":-32020}}}`},
		{"-32099", "tools/list", `{}`, ``, `{"code":-32603,"message":"m","data":{"bridge":{"upstreamCode":-32099}}}`},
		{"-32042 without elicitations", "tools/call", deploy, ``, `{"code":-32603,"message":"m","data":{"bridge":{"upstreamCode":-32042}}}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				code := 0
				if _, err := fmt.Sscan(tc.name, &code); err != nil {
					t.Fatal(err)
				}
				up := newLegacy(t, func(context.Context, exchange.Request, exchange.Peer) (exchange.Response, error) {
					e := &exchange.Error{Code: code, Message: "m"}
					if tc.data != "" {
						e.Data = []byte(tc.data)
					}
					return exchange.Response{Error: e}, nil
				})
				if tc.method == "x/unknown" {
					up.schemas = nil
				}
				resp, err := newDesk(t, legacyHandler(t, up, nil)).ask(t.Context(), tc.method, tc.params)
				if err != nil || resp.Error == nil {
					t.Fatalf("got %s", shown(resp, err))
				}
				equal(t, "error", string(jsonrpc.Get(jsonrpc.AppendError(nil, []byte("1"), resp.Error), "error")), tc.want)
			})
		})
	}
}

func TestResultsOfALegacyServer(t *testing.T) {
	const info = `"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"srv","version":"1.0"}}}`
	for _, tc := range []struct{ name, method, params, result, want string }{
		{"unknown members", "tools/call", deploy, `{"content":[],"x":[1.0]}`, `{"content":[],"x":[1.0],"resultType":"complete",` + info},
		{"no content", "tools/call", deploy, `{"structuredContent":{"a":1}}`, `{"structuredContent":{"a":1},"content":[{"type":"text","text":"{\"a\":1}"}],"resultType":"complete",` + info},
		{"read", "resources/read", `{"uri":"a:b"}`, `{"contents":[]}`, `{"contents":[],"resultType":"complete","ttlMs":0,"cacheScope":"private",` + info},
		{"input_required", "tools/call", deploy, `{"resultType":"input_required","requestState":"x"}`, "error -32603 upstream_invalid"},
		{"no object", "tools/call", deploy, `[]`, "error -32603 upstream_invalid"},
		{"a task", "tasks/get", `{"taskId":"1"}`, `{}`, "error -32601 unknown_method"},
		{"unknown method", "x/y", `{}`, `{"z":1}`, `{"z":1,"resultType":"complete",` + info},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				up := newLegacy(t, func(context.Context, exchange.Request, exchange.Peer) (exchange.Response, error) {
					return exchange.Response{Result: []byte(tc.result)}, nil
				})
				equal(t, "answer", newDesk(t, legacyHandler(t, up, nil)).show(tc.method, tc.params), tc.want)
			})
		})
	}
}

// The result of a retry is nobody's to keep (translation.md 5).
func TestResultOfARetryIsNotCached(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up := newLegacy(t, func(ctx context.Context, _ exchange.Request, back exchange.Peer) (exchange.Response, error) {
			elicits(ctx, back, "may I?")
			return exchange.Response{Result: []byte(`{"contents":[],"ttlMs":5,"cacheScope":"public"}`)}, nil
		})
		d := newDesk(t, legacyHandler(t, up, nil))
		r := d.round("resources/read", `{"uri":"a:b"}`)
		got := d.show("resources/read", r.retry(`{"uri":"a:b"}`, `{"1.1":`+accepted+`}`))
		equal(t, "result", got, `{"contents":[],"ttlMs":0,"cacheScope":"private","resultType":"complete","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"srv","version":"1.0"}}}`)
	})
}

// Headers of a tools/call are checked in front of a server of any era (translation.md 3.1 step 9).
func TestHeadersInFrontOfALegacyServer(t *testing.T) {
	for _, tc := range []struct{ name, region, want string }{
		{"equal", "eu", "called"},
		{"different", "us", "error -32020"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				up := newLegacy(t, func(_ context.Context, req exchange.Request, _ exchange.Peer) (exchange.Response, error) {
					if req.Method == "tools/list" {
						return exchange.Response{Result: []byte(`{"tools":[{"name":"run","inputSchema":{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"}}}}]}`)}, nil
					}
					return text("called")
				})
				h := legacyHandler(t, up, nil)
				d := newDesk(t, h)
				s, err := h.Open(t.Context(), exchange.Client{Revision: negotiate.Rev20260728, Capabilities: []byte(`{}`)})
				if err != nil {
					t.Fatal(err)
				}
				defer s.Close()
				req := exchange.Request{Method: "tools/call", Params: d.with(`{"name":"run","arguments":{"region":"` + tc.region + `"}}`), Header: http.Header{"Mcp-Param-Region": {"eu"}}}
				resp, err := s.Call(t.Context(), req, nil)
				got := shown(resp, err)
				if resp.Error == nil {
					got = textOf(got)
				}
				equal(t, "answer", got, tc.want)
				equal(t, "list", strings.Join(up.params("tools/list"), " "), "{}")
			})
		})
	}
}
