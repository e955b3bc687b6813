package streamable_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/negotiate"
	"github.com/mcp-dualstack/bridge/streamable"
)

var modernServer = exchange.Server{Revision: negotiate.Rev20260728, Served: negotiate.Modern}

func TestStatelessCall(t *testing.T) {
	inBubble(t, &script{server: modernServer}, streamable.Options{}, func(t *testing.T, b *bed) {
		var got exchange.Request
		b.script.call = func(_ context.Context, req exchange.Request, _ exchange.Peer) (exchange.Response, error) {
			got = req
			return result(`{"resultType":"complete"}`), nil
		}
		body, headers := modern(`"x"`, "tools/call", `"name":"echo"`)
		r := b.post(body, append(headers, "Mcp-Param-Region: eu", "Mcp-Session-Id: whatever", "Last-Event-ID: AAAAAA.1.1")...)
		if r.status != http.StatusOK || r.header.Get("Mcp-Session-Id") != "" {
			t.Errorf("got status %d, session %q", r.status, r.header.Get("Mcp-Session-Id"))
		}
		want(t, "body", r.body, `{"jsonrpc":"2.0","id":"x","result":{"resultType":"complete"}}`)
		want(t, "type", r.header.Get("Content-Type"), typeJSON)
		want(t, "header", got.Header.Get("Mcp-Param-Region"), "eu")
		if len(got.Header) != 1 {
			t.Errorf("header fields passed on: %v", got.Header)
		}
		if !strings.Contains(body, `"params":`+string(got.Params)) {
			t.Errorf("params changed: %s", got.Params)
		}
		c := b.script.last()
		if c.Back != nil || c.Session != "" || c.Revision != negotiate.Rev20260728 || c.Requested != "2026-07-28" ||
			string(c.Info) != `{"name":"test","version":"1"}` || string(c.Capabilities) != `{}` {
			t.Errorf("opened for %+v", c)
		}
		if n := b.script.closes(); n != 1 {
			t.Errorf("closed %d times, want 1", n)
		}
	})
}

// R23, second half, and the other refusals before anything is executed.
func TestStatelessRefusals(t *testing.T) {
	const call = `"name":"echo"`
	for _, c := range []struct {
		name    string
		method  string
		params  string
		headers []string
		status  int
		code    string
	}{
		{"no Mcp-Method", "tools/call", call, []string{"Mcp-Method: "}, 400, "-32020"},
		{"no Mcp-Name", "tools/call", call, []string{"Mcp-Name: "}, 400, "-32020"},
		{"another Mcp-Name", "tools/call", call, []string{"Mcp-Name: other"}, 400, "-32020"},
		{"no version header", "tools/call", call, []string{"MCP-Protocol-Version: "}, 400, "-32020"},
		{"another version header", "tools/call", call, []string{"MCP-Protocol-Version: 2025-11-25"}, 400, "-32020"},
		{"removed method", "ping", "", nil, 404, "-32601"},
		{"listen as JSON", "subscriptions/listen", "", []string{"Accept: application/json"}, 406, "-32600"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBed(t, &script{server: modernServer}, streamable.Options{})
			r := b.postModern(`"q"`, c.method, c.params, c.headers...)
			if r.status != c.status || !strings.HasPrefix(r.body, `{"jsonrpc":"2.0","id":"q","error":{"code":`+c.code+`,`) {
				t.Errorf("got %d %s, want %d %s", r.status, r.body, c.status, c.code)
			}
			if len(b.script.clients) != 0 {
				t.Error("a conversation was opened")
			}
		})
	}
}

func TestClaimMissing(t *testing.T) {
	b := newBed(t, &script{}, streamable.Options{})
	r := b.post(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, "MCP-Protocol-Version: 2026-07-28")
	if r.status != 400 || !strings.Contains(r.body, `"code":-32602`) || !strings.Contains(r.body, "io.modelcontextprotocol/protocolVersion") {
		t.Errorf("got %d %s", r.status, r.body)
	}
	if r := b.post(`{"jsonrpc":"2.0","method":"notifications/cancelled"}`, "MCP-Protocol-Version: 2026-07-28"); r.status != 202 || r.body != "" {
		t.Errorf("notification: got %d %q", r.status, r.body)
	}
}

func TestUnsupportedVersion(t *testing.T) {
	body, headers := modern("1", "tools/list", "")
	body = strings.Replace(body, "2026-07-28", "2031-01-01", 1)
	headers[0] = "MCP-Protocol-Version: 2031-01-01"
	for _, c := range []struct {
		name   string
		served negotiate.Set
		err    error
		want   string
	}{
		{"modern server", negotiate.Modern, nil, `["2026-07-28"]`},
		{"dual-era server", negotiate.All, nil, `["2026-07-28","2025-11-25","2025-06-18","2025-03-26","2024-11-05"]`},
		{"session-era server", 0, &exchange.Failure{Reason: exchange.ReasonEra, Served: negotiate.Legacy}, `["2025-11-25","2025-06-18","2025-03-26","2024-11-05"]`},
		{"server that is down", 0, exchange.Fail(exchange.ReasonUnavailable, nil), `["2026-07-28","2025-11-25","2025-06-18","2025-03-26","2024-11-05"]`},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &script{server: exchange.Server{Served: c.served}, open: func(context.Context, exchange.Client) error { return c.err }}
			b := newBed(t, s, streamable.Options{})
			r := b.post(body, headers...)
			if r.status != 400 || !strings.Contains(r.body, `"code":-32022`) || !strings.Contains(r.body, `"data":{"supported":`+c.want+`,"requested":"2031-01-01"}`) {
				t.Errorf("got %d %s", r.status, r.body)
			}
		})
	}
}

func TestStatelessStatus(t *testing.T) {
	ofServer := func(code int) exchange.Response {
		return exchange.Response{Error: &exchange.Error{Code: code, Message: "m"}}
	}
	for _, c := range []struct {
		name   string
		resp   exchange.Response
		err    error
		status int
		want   string // in the body
		retry  string
	}{
		{"unknown method", ofServer(-32601), nil, 404, `{"code":-32601,"message":"m"}`, ""},
		{"invalid params", ofServer(-32602), nil, 200, `{"code":-32602,"message":"m"}`, ""},
		{"internal", ofServer(-32603), nil, 200, `{"code":-32603,"message":"m"}`, ""},
		{"capability", ofServer(-32021), nil, 400, `{"code":-32021,"message":"m"}`, ""},
		{"server's own code", ofServer(-32005), nil, 200, `{"code":-32005,"message":"m"}`, ""},
		{"schema check", exchange.Response{}, &exchange.Error{Code: -32020, Message: "h"}, 400, `{"code":-32020,"message":"h"}`, ""},
		{"busy", exchange.Response{}, &exchange.Failure{Reason: exchange.ReasonBusy, RetryAfter: 1500 * time.Millisecond}, 503, `"reason":"upstream_busy"`, "2"},
		{"busy, unknown for how long", exchange.Response{}, exchange.Fail(exchange.ReasonBusy, nil), 503, `"reason":"upstream_busy"`, "1"},
		{"lost", exchange.Response{}, exchange.Fail(exchange.ReasonLost, errors.New("secret")), 200, `"reason":"upstream_lost"`, ""},
		{"another error", exchange.Response{}, errors.New("secret"), 200, `"reason":"bridge_error"`, ""},
		{"era", exchange.Response{}, &exchange.Failure{Reason: exchange.ReasonEra, Served: negotiate.Legacy}, 400, `{"supported":["2025-11-25","2025-06-18","2025-03-26","2024-11-05"],"requested":"2026-07-28"}`, ""},
		{"challenge", exchange.Response{}, &exchange.Failure{Reason: "upstream_auth", Status: 401, Challenge: "Bearer x"}, 401, `"reason":"upstream_auth"`, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, where := range []string{"Call", "Open"} {
				s := &script{server: modernServer}
				s.call = func(context.Context, exchange.Request, exchange.Peer) (exchange.Response, error) {
					return c.resp, c.err
				}
				if where == "Open" {
					s.open = func(context.Context, exchange.Client) error { return c.err } // nil: goes on to Call
				}
				r := newBed(t, s, streamable.Options{}).postModern("1", "tools/list", "")
				if r.status != c.status || !strings.Contains(r.body, c.want) || !strings.HasPrefix(r.body, `{"jsonrpc":"2.0","id":1,"error":`) || strings.Contains(r.body, "secret") {
					t.Errorf("%s: got %d %s, want %d %s", where, r.status, r.body, c.status, c.want)
				}
				want(t, "Retry-After", r.header.Get("Retry-After"), c.retry)
			}
		})
	}
}

// The type of the answer is chosen late (translation.md 9).
func TestLateChoice(t *testing.T) {
	run := func(t *testing.T, wait time.Duration, notes bool, headers ...string) reply {
		var r reply
		inBubble(t, &script{server: modernServer}, streamable.Options{}, func(t *testing.T, b *bed) {
			b.script.call = func(ctx context.Context, _ exchange.Request, back exchange.Peer) (exchange.Response, error) {
				if notes {
					_ = back.Notify(ctx, note("notifications/progress", `{"n":"a"}`))
				}
				time.Sleep(wait)
				return exchange.Response{Error: &exchange.Error{Code: -32601, Message: "m"}}, nil
			}
			r = b.postModern("5", "tools/list", "", headers...)
		})
		return r
	}
	const failed = `{"jsonrpc":"2.0","id":5,"error":{"code":-32601,"message":"m"}}`
	for _, c := range []struct {
		name    string
		wait    time.Duration
		notes   bool
		headers []string
		status  int
		want    string
	}{
		{"only a response", 9 * time.Second, false, nil, 404, failed},
		{"a note first", 0, true, nil, 200, message("", progress("a")) + "\n" + message("", failed) + "\n"},
		{"too late", 11 * time.Second, false, nil, 200, message("", failed) + "\n"},
		{"JSON only", time.Minute, true, []string{"Accept: application/json"}, 404, failed},
		{"stream only", 0, false, []string{"Accept: text/event-stream"}, 404, failed},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := run(t, c.wait, c.notes, c.headers...)
			if r.status != c.status {
				t.Errorf("got %d, want %d", r.status, c.status)
			}
			want(t, "body", r.body, c.want)
		})
	}
}

func TestStatelessStreamOnly(t *testing.T) {
	b := newBed(t, &script{server: modernServer}, streamable.Options{})
	r := b.postModern("5", "tools/list", "", "Accept: text/event-stream")
	want(t, "body", r.body, message("", `{"jsonrpc":"2.0","id":5,"result":{"method":"tools/list"}}`)+"\n")
}

// R49 (b): the end of the connection is the end of the call, before and after the stream has begun.
func TestDisconnectCancelsAStatelessCall(t *testing.T) {
	for _, begun := range []bool{false, true} {
		inBubble(t, &script{server: modernServer}, streamable.Options{}, func(t *testing.T, b *bed) {
			ended := make(chan error, 1)
			b.script.call = func(ctx context.Context, req exchange.Request, back exchange.Peer) (exchange.Response, error) {
				if begun {
					_ = back.Notify(ctx, note("notifications/progress", `{}`))
				}
				resp, err := wait(ctx, req, back)
				ended <- err
				return resp, err
			}
			ctx, leave := context.WithCancel(t.Context())
			body, headers := modern("1", "tools/call", `"name":"x"`)
			go func() {
				req, _ := http.NewRequestWithContext(ctx, http.MethodPost, b.http.URL, strings.NewReader(body))
				req.Header.Set("Content-Type", "application/json")
				for _, h := range headers {
					name, v, _ := strings.Cut(h, ": ")
					req.Header.Set(name, v)
				}
				if resp, err := b.client.Do(req); err == nil {
					defer resp.Body.Close()
					<-ctx.Done()
				}
			}()
			synctest.Wait()
			at := time.Now()
			leave()
			err := <-ended
			if _, ok := errors.AsType[*exchange.CancelError](err); !ok || time.Since(at) > 100*time.Millisecond {
				t.Errorf("begun %v: ended by %v after %v", begun, err, time.Since(at))
			}
			synctest.Wait()
			if n := b.script.closes(); n != 1 {
				t.Errorf("begun %v: closed %d times, want 1", begun, n)
			}
		})
	}
}

// What is behind the front may panic: nobody writes for a handler that has returned, and others are served.
func TestStatelessPanic(t *testing.T) {
	inBubble(t, &script{server: modernServer}, streamable.Options{}, func(t *testing.T, b *bed) {
		b.script.call = func(ctx context.Context, _ exchange.Request, back exchange.Peer) (exchange.Response, error) {
			for range 100 {
				_ = back.Notify(ctx, note("notifications/message", `{"level":"info","data":1}`))
			}
			panic(http.ErrAbortHandler)
		}
		body, headers := modern("1", "tools/list", "")
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, b.http.URL+"/mcp", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		for _, h := range append(headers, "Content-Type: application/json", "Accept: "+both) {
			name, value, _ := strings.Cut(h, ": ")
			req.Header.Set(name, value)
		}
		resp, err := b.http.Client().Do(req)
		if err == nil {
			_, err = io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
		}
		if err == nil {
			t.Error("the response has a proper end")
		}
		b.script.call = nil
		want(t, "body", b.postModern("2", "tools/list", "").body, `{"jsonrpc":"2.0","id":2,"result":{"method":"tools/list"}}`)
	})
}

func TestStatelessClientCannotBeAsked(t *testing.T) {
	inBubble(t, &script{server: modernServer}, streamable.Options{}, func(t *testing.T, b *bed) {
		b.script.call = func(ctx context.Context, _ exchange.Request, back exchange.Peer) (exchange.Response, error) {
			_, err := back.Call(ctx, exchange.Request{Method: "roots/list"})
			if f, ok := errors.AsType[*exchange.Failure](err); !ok || f.Reason != exchange.ReasonNoChannel {
				t.Errorf("got %v", err)
			}
			return result(`{}`), nil
		}
		want(t, "body", b.postModern("1", "tools/list", "").body, `{"jsonrpc":"2.0","id":1,"result":{}}`)
	})
}

func TestDiscover(t *testing.T) {
	for _, c := range []struct {
		name    string
		server  exchange.Server
		enabled negotiate.Set
		want    string
	}{
		{"the server's own", exchange.Server{Served: negotiate.All, Discover: []byte(`{"resultType":"complete","supportedVersions":["x"],"capabilities":{"a":1},"more":[25.0]}`)}, 0,
			`{"resultType":"complete","supportedVersions":["2026-07-28","2025-11-25","2025-06-18","2025-03-26","2024-11-05"],"capabilities":{"a":1},"more":[25.0]}`},
		{"made here", exchange.Server{Served: negotiate.All, Capabilities: []byte(`{"tools":{}}`), Instructions: []byte(`"do"`), Info: []byte(`{"name":"s","version":"1"}`)}, negotiate.SetOf(negotiate.Rev20251125),
			`{"resultType":"complete","supportedVersions":["2026-07-28","2025-11-25"],"capabilities":{"tools":{}},"instructions":"do","ttlMs":0,"cacheScope":"private","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"s","version":"1"}}}`},
		{"nothing known", exchange.Server{Served: negotiate.Modern}, 0,
			`{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{},"ttlMs":0,"cacheScope":"private"}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBed(t, &script{server: c.server}, streamable.Options{Enabled: c.enabled})
			want(t, "body", b.postModern(`"d"`, "server/discover", "").body, `{"jsonrpc":"2.0","id":"d","result":`+c.want+`}`)
			if n := b.script.closes(); n != 1 {
				t.Errorf("closed %d times, want 1", n)
			}
		})
	}
}

// Everything on a listen stream carries the raw id of the listen; what belongs to requests is kept off it.
func TestListen(t *testing.T) {
	inBubble(t, &script{server: modernServer}, streamable.Options{}, func(t *testing.T, b *bed) {
		end := make(chan error)
		b.script.call = func(ctx context.Context, _ exchange.Request, back exchange.Peer) (exchange.Response, error) {
			for _, n := range []exchange.Request{
				note("notifications/subscriptions/acknowledged", `{"_meta":{"io.modelcontextprotocol/subscriptionId":912},"notifications":{}}`),
				note("notifications/progress", `{}`),
				note("notifications/message", `{}`),
				{Method: "notifications/tools/list_changed"},
			} {
				if err := back.Notify(ctx, n); err != nil {
					return exchange.Response{}, err
				}
			}
			return result(`{"resultType":"complete","_meta":{"io.modelcontextprotocol/subscriptionId":912}}`), <-end
		}
		body, headers := modern(`"watch-2"`, "subscriptions/listen", `"notifications":{}`)
		for _, c := range []struct {
			err  error
			last string
		}{
			{nil, `"result":{"resultType":"complete","_meta":{"io.modelcontextprotocol/subscriptionId":"watch-2"}}`},
			{exchange.Fail(exchange.ReasonLost, nil), `"result":{"resultType":"complete","_meta":{"io.modelcontextprotocol/subscriptionId":"watch-2"}}`},
			{exchange.Fail(exchange.ReasonInvalid, nil), `"error":{"code":-32603,"message":"the server behind the bridge answered with something that MCP does not define","data":{"bridge":{"reason":"upstream_invalid"}}}`},
		} {
			l := b.open(http.MethodPost, body, headers...)
			want(t, "ack", l.event(), message("", `{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":"watch-2"},"notifications":{}}}`))
			want(t, "change", l.event(), message("", `{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":"watch-2"}}}`))
			end <- c.err
			want(t, "end", l.event(), message("", `{"jsonrpc":"2.0","id":"watch-2",`+c.last+`}`))
			want(t, "after the end", l.event(), "")
		}
	})
}

// A listen that never began has failed, whatever the reason.
func TestListenFails(t *testing.T) {
	b := newBed(t, &script{server: modernServer}, streamable.Options{})
	b.script.call = func(context.Context, exchange.Request, exchange.Peer) (exchange.Response, error) {
		return exchange.Response{}, exchange.Fail(exchange.ReasonLost, nil)
	}
	r := b.postModern("9", "subscriptions/listen", `"notifications":{}`)
	if r.status != 200 || !strings.Contains(r.body, `"id":9,"error":{"code":-32603`) {
		t.Errorf("got %d %s", r.status, r.body)
	}
}

// A stateless stream that is not read is cut off, and that cancels the call.
func TestSlowStatelessReader(t *testing.T) {
	inBubble(t, &script{server: modernServer}, streamable.Options{StreamBytes: 64 << 10}, func(t *testing.T, b *bed) {
		ended := make(chan error, 1)
		b.script.call = func(ctx context.Context, _ exchange.Request, back exchange.Peer) (exchange.Response, error) {
			for ctx.Err() == nil {
				_ = back.Notify(ctx, note("notifications/progress", `"`+strings.Repeat("x", 1024)+`"`))
				time.Sleep(time.Millisecond)
			}
			ended <- context.Cause(ctx)
			return exchange.Response{}, context.Cause(ctx)
		}
		body, headers := modern("1", "tools/call", `"name":"x"`)
		b.open(http.MethodPost, body, headers...)
		if err := <-ended; !errors.As(err, new(*exchange.CancelError)) {
			t.Errorf("ended by %v", err)
		}
	})
}

// A burst of an upstream is no slowness of the client.
func TestBurst(t *testing.T) {
	inBubble(t, &script{server: modernServer}, streamable.Options{}, func(t *testing.T, b *bed) {
		const n = 50_000
		b.script.call = func(ctx context.Context, _ exchange.Request, back exchange.Peer) (exchange.Response, error) {
			for i := range n {
				if err := back.Notify(ctx, note("notifications/progress", `"`+strings.Repeat("x", 100)+`"`)); err != nil {
					t.Errorf("note %d: %v", i, err)
					break
				}
			}
			return result(`{}`), nil
		}
		if r := b.postModern("1", "tools/call", `"name":"x"`); strings.Count(r.body, "event:") != n+1 {
			t.Errorf("got %d events, want %d", strings.Count(r.body, "event:"), n+1)
		}
	})
}
