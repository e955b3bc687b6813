package streamable_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/streamable"
)

// R10: both calls get their own answer on their own POST.
func TestSameIDTwiceInFlight(t *testing.T) {
	inBubble(t, &script{}, streamable.Options{}, func(t *testing.T, b *bed) {
		b.script.call = func(_ context.Context, req exchange.Request, _ exchange.Peer) (exchange.Response, error) {
			if strings.Contains(string(req.Params), "A") {
				time.Sleep(2 * time.Second)
				return result(`"A"`), nil
			}
			return result(`"B"`), nil
		}
		s := b.session("2025-06-18")
		var wg sync.WaitGroup
		for i, name := range []string{"A", "B"} {
			wg.Go(func() {
				time.Sleep(time.Duration(i) * 200 * time.Millisecond)
				r := b.post(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":["`+name+`"]}`, s)
				if !strings.Contains(r.body, `{"jsonrpc":"2.0","id":1,"result":"`+name+`"}`) {
					t.Errorf("%s: got %s", name, r.body)
				}
			})
		}
		wg.Wait()
		if n := b.observed(exchange.SeenDuplicateID, ""); n != 1 {
			t.Errorf("duplicates observed: %d, want 1", n)
		}
	})
}

// R12 and R13: ids come back byte for byte, and so do numbers elsewhere.
func TestIDsAndNumbersAreKept(t *testing.T) {
	inBubble(t, &script{}, streamable.Options{}, func(t *testing.T, b *bed) {
		b.script.call = func(_ context.Context, req exchange.Request, _ exchange.Peer) (exchange.Response, error) {
			return exchange.Response{Result: req.Params}, nil
		}
		s := b.session("2025-06-18")
		var wg sync.WaitGroup
		for _, id := range []string{`"1"`, `1`, `""`, `"007"`, `"1e3"`, `0`, `-5`, `9007199254740993`, `18446744073709551615`, `"\u00e9"`} {
			wg.Go(func() {
				const params = `{"n":[9007199254740993,25.0,1e2]}`
				body := `{"jsonrpc":"2.0","id":` + id + `,"method":"x","params":` + params + `}`
				answer := `{"jsonrpc":"2.0","id":` + id + `,"result":` + params + `}`
				want(t, "JSON", b.post(body, s, "Accept: application/json").body, answer)
				if r := b.post(body, s); !strings.HasSuffix(r.body, "data: "+answer+"\n\n") {
					t.Errorf("stream: got %s", r.body)
				}
				if r := b.postModern(id, "x", `"n":25.0`); !strings.Contains(r.body, `{"jsonrpc":"2.0","id":`+id+`,"result":{"n":25.0,`) {
					t.Errorf("stateless: got %s", r.body)
				}
			})
		}
		wg.Wait()
	})
}

// R15: progress stays on the stream of its call, whatever the token.
func TestProgressOfTwoClients(t *testing.T) {
	inBubble(t, &script{}, streamable.Options{}, func(t *testing.T, b *bed) {
		b.script.call = func(ctx context.Context, req exchange.Request, back exchange.Peer) (exchange.Response, error) {
			for range 5 {
				time.Sleep(time.Second)
				if err := back.Notify(ctx, exchange.Request{Method: "notifications/progress", Params: req.Params}); err != nil {
					return exchange.Response{}, err
				}
			}
			return exchange.Response{Result: req.Params}, nil
		}
		var wg sync.WaitGroup
		for _, marker := range []string{"A", "B", "C"} {
			wg.Go(func() {
				params := `{"_meta":{"progressToken":1},"marker":"` + marker + `"}`
				body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":` + params + `}`
				r := b.post(body, b.session("2025-06-18"))
				if n := strings.Count(r.body, params); n != 6 || strings.Count(r.body, "marker") != 6 {
					t.Errorf("%s: got %d messages of its own in %s", marker, n, r.body)
				}
				if !strings.HasSuffix(r.body, `"id":1,"result":`+params+"}\n\n") {
					t.Errorf("%s: the response is not last: %s", marker, r.body)
				}
			})
		}
		wg.Wait()
	})
}

// R48: the cancellation is not queued behind the call it is about, and ends that one only.
func TestCancelByID(t *testing.T) {
	inBubble(t, &script{}, streamable.Options{}, func(t *testing.T, b *bed) {
		ended := make(chan error, 2)
		b.script.call = func(ctx context.Context, req exchange.Request, back exchange.Peer) (exchange.Response, error) {
			resp, err := wait(ctx, req, back)
			ended <- err
			return resp, err
		}
		s, other := b.session("2025-06-18"), b.session("2025-06-18")
		const slow = `{"jsonrpc":"2.0","id":"101","method":"tools/call"}`
		mine, theirs := b.open(http.MethodPost, slow, s), b.open(http.MethodPost, slow, other)
		plain := make(chan reply, 1)
		go func() {
			plain <- b.post(`{"jsonrpc":"2.0","id":7,"method":"tools/call"}`, other, "Accept: application/json")
		}()
		synctest.Wait()
		cancel := func(id, s string) {
			if r := b.post(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":`+id+`,"reason":"enough"}}`, s); r.status != 202 {
				t.Errorf("cancel: got %d", r.status)
			}
		}
		begun := time.Now()
		cancel(`101`, s)   // a number is another id
		cancel(`"999"`, s) // nobody's
		cancel(`"101"`, s)
		err := <-ended
		if c, ok := errors.AsType[*exchange.CancelError](err); !ok || c.Reason != "enough" || time.Since(begun) != 0 {
			t.Errorf("call ended by %v after %v", err, time.Since(begun))
		}
		want(t, "stream of the cancelled call", mine.event(), "")
		cancel(`7`, other)
		if r := <-plain; r.status != 202 || r.body != "" {
			t.Errorf("JSON answer of a cancelled call: got %d %q", r.status, r.body)
		}
		if n := len(ended); n != 1 {
			t.Errorf("%d further calls ended, want 1", n)
		}
		theirs.stop()
	})
}

func TestTooManyCalls(t *testing.T) {
	inBubble(t, &script{call: wait}, streamable.Options{MaxCalls: 2, MaxStateless: 1}, func(t *testing.T, b *bed) {
		s := b.session("2025-06-18")
		b.open(http.MethodPost, callOne, s)
		b.open(http.MethodPost, callOne, s)
		if r := b.post(callOne, s); !strings.Contains(r.body, `"reason":"too_many_calls"`) {
			t.Errorf("session: got %d %s", r.status, r.body)
		}
		body, headers := modern("1", "tools/call", `"name":"x"`)
		ctx, leave := context.WithCancel(t.Context())
		go func() {
			req, _ := http.NewRequestWithContext(ctx, http.MethodPost, b.http.URL, strings.NewReader(body))
			req.Header.Set("Content-Type", "application/json")
			for _, h := range headers {
				name, v, _ := strings.Cut(h, ": ")
				req.Header.Set(name, v)
			}
			if _, err := b.client.Do(req); err == nil {
				t.Error("got an answer")
			}
		}()
		synctest.Wait()
		r := b.post(body, headers...)
		if r.status != 503 || r.header.Get("Retry-After") != "1" || !strings.Contains(r.body, `"reason":"too_many_calls"`) {
			t.Errorf("stateless: got %d %s", r.status, r.body)
		}
		leave()
		synctest.Wait()
		b.script.call = nil
		if r := b.post(body, headers...); r.status != 200 {
			t.Errorf("when the first has gone: got %d %s", r.status, r.body)
		}
	})
}

// A question of a call goes on the call's stream, the answer comes by POST.
func TestQuestionOfACall(t *testing.T) {
	inBubble(t, &script{}, streamable.Options{}, func(t *testing.T, b *bed) {
		b.script.call = func(ctx context.Context, _ exchange.Request, back exchange.Peer) (exchange.Response, error) {
			return back.Call(ctx, exchange.Request{Method: "roots/list"})
		}
		s := b.session("2025-06-18")
		get := b.listen(s)
		l := b.open(http.MethodPost, callOne, s)
		want(t, "question", l.event(), message("TAG.2.1", `{"jsonrpc":"2.0","id":1,"method":"roots/list"}`))
		b.post(`{"jsonrpc":"2.0","id":1,"result":{"roots":[ ]}}`, s)
		want(t, "response", l.event(), message("TAG.2.2", `{"jsonrpc":"2.0","id":5,"result":{"roots":[ ]}}`))
		get.stop()
	})
}

// A question that belongs to no call goes on the stream of one where there is no other, and so does what takes it back.
func TestQuestionIsTakenBackWhereItWent(t *testing.T) {
	inBubble(t, &script{call: wait}, streamable.Options{}, func(t *testing.T, b *bed) {
		s := b.session("2025-06-18")
		l := b.open(http.MethodPost, `{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"x"}}`, s)
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		asked := make(chan error, 1)
		go func() {
			_, err := b.script.last().Back.Call(ctx, exchange.Request{Method: "roots/list"})
			asked <- err
		}()
		want(t, "question", l.event(), message("TAG.2.1", `{"jsonrpc":"2.0","id":1,"method":"roots/list"}`))
		cancel()
		want(t, "taken back", l.event(), message("TAG.2.2", `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`))
		if err := <-asked; !errors.Is(err, context.Canceled) {
			t.Errorf("the server got %v", err)
		}
		l.stop()
		b.post(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":5}}`, s)
	})
}

// R16.
func TestBatch(t *testing.T) {
	const three = `[{"jsonrpc":"2.0","id":1,"method":"ping"}, {"jsonrpc":"2.0","id":"2","method":"tools/list"}, {"jsonrpc":"2.0","method":"notifications/x"}]`
	const answers = `[{"jsonrpc":"2.0","id":1,"result":{}},{"jsonrpc":"2.0","id":"2","result":{"method":"tools/list"}}]`
	for _, c := range []struct {
		name, revision, body string
		status               int
		want                 string // prefix of the body
	}{
		{"three", "2025-03-26", three, 200, answers},
		{"three, oldest revision", "2024-11-05", three, 200, answers},
		{"empty", "2025-03-26", `[]`, 400, `{"jsonrpc":"2.0","error":{"code":-32600,`},
		{"notifications", "2025-03-26", `[{"jsonrpc":"2.0","method":"notifications/x"},{"jsonrpc":"2.0","id":4,"result":{}}]`, 202, ``},
		{"initialize in it", "2025-03-26", `[` + initialize("2025-03-26") + `]`, 400, `{"jsonrpc":"2.0","error":{"code":-32600,`},
		{"a claim in it", "2025-03-26", `[{"jsonrpc":"2.0","id":1,"method":"ping","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}]`, 400, `{"jsonrpc":"2.0","error":{"code":-32600,`},
		{"malformed element", "2025-03-26", `[{"jsonrpc":"2.0","id":1,"method":"ping"},7]`, 200, `[{"jsonrpc":"2.0","id":1,"result":{}},{"jsonrpc":"2.0","error":{"code":-32600,`},
		{"65 elements", "2025-03-26", `[` + strings.Repeat(`{"jsonrpc":"2.0","id":1,"method":"ping"},`, 64) + `1]`, 400, `{"jsonrpc":"2.0","error":{"code":-32600,`},
		{"later revision", "2025-06-18", three, 400, `{"jsonrpc":"2.0","error":{"code":-32600,`},
		{"newest session revision", "2025-11-25", three, 400, `{"jsonrpc":"2.0","error":{"code":-32600,`},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, &script{}, streamable.Options{}, func(t *testing.T, b *bed) {
				r := b.post(c.body, b.session(c.revision))
				if r.status != c.status || !strings.HasPrefix(r.body, c.want) {
					t.Errorf("got %d %s, want %d %s", r.status, r.body, c.status, c.want)
				}
			})
		})
	}
}

func TestBatchOnAStream(t *testing.T) { // R16
	const two = `[{"jsonrpc":"2.0","id":1,"method":"tools/list"},{"jsonrpc":"2.0","id":2,"method":"tools/call"}]`
	one, second := `{"jsonrpc":"2.0","id":1,"result":{"method":"tools/list"}}`, `{"jsonrpc":"2.0","id":2,"result":{"done":true}}`
	setup := func(b *bed, steps <-chan string) string {
		b.script.call = func(ctx context.Context, req exchange.Request, back exchange.Peer) (exchange.Response, error) {
			if req.Method == "tools/list" {
				return result(`{"method":"tools/list"}`), nil
			}
			time.Sleep(time.Second)
			return stepped(steps)(ctx, req, back)
		}
		return b.session("2025-03-26")
	}
	t.Run("something else is said", func(t *testing.T) {
		inBubble(t, &script{}, streamable.Options{}, func(t *testing.T, b *bed) {
			steps := make(chan string, 1)
			steps <- "a"
			close(steps)
			r := b.post(two, setup(b, steps))
			want(t, "stream", r.body, message("TAG.2.1", one)+"\n"+message("TAG.2.2", progress("a"))+"\n"+message("TAG.2.3", second)+"\n")
		})
	})
	t.Run("it takes long", func(t *testing.T) {
		inBubble(t, &script{}, streamable.Options{}, func(t *testing.T, b *bed) {
			steps := make(chan string)
			go func() {
				time.Sleep(12 * time.Second)
				close(steps)
			}()
			r := b.post(two, setup(b, steps))
			want(t, "stream", r.body, message("TAG.2.1", one)+"\n"+message("TAG.2.2", second)+"\n")
		})
	})
	t.Run("stream only", func(t *testing.T) {
		inBubble(t, &script{}, streamable.Options{}, func(t *testing.T, b *bed) {
			steps := make(chan string)
			close(steps)
			r := b.post(two, setup(b, steps), "Accept: text/event-stream")
			want(t, "stream", r.body, message("TAG.2.1", one)+"\n"+message("TAG.2.2", second)+"\n")
		})
	})
	t.Run("JSON only", func(t *testing.T) {
		inBubble(t, &script{}, streamable.Options{}, func(t *testing.T, b *bed) {
			steps := make(chan string, 1)
			steps <- "a"
			close(steps)
			s := setup(b, steps)
			l := b.listen(s)
			want(t, "array", b.post(two, s, "Accept: application/json").body, "["+one+","+second+"]")
			want(t, "GET", l.event(), message("TAG.0.1", progress("a")))
		})
	})
	t.Run("all cancelled", func(t *testing.T) {
		inBubble(t, &script{call: wait}, streamable.Options{}, func(t *testing.T, b *bed) {
			s := b.session("2025-03-26")
			got := make(chan reply, 1)
			go func() { got <- b.post(`[{"jsonrpc":"2.0","id":1,"method":"tools/list"}]`, s) }()
			synctest.Wait()
			b.post(`[{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}]`, s)
			if r := <-got; r.status != 202 || r.body != "" {
				t.Errorf("got %d %q", r.status, r.body)
			}
		})
	})
}

func TestManyClients(t *testing.T) {
	inBubble(t, &script{}, streamable.Options{}, func(t *testing.T, b *bed) {
		b.script.call = func(_ context.Context, req exchange.Request, _ exchange.Peer) (exchange.Response, error) {
			return exchange.Response{Result: req.Params}, nil
		}
		var wg sync.WaitGroup
		for client := range 20 {
			wg.Go(func() {
				s := b.session("2025-11-25")
				for id := range 20 {
					r := b.post(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":[%d]}`, id, client), s)
					if !strings.HasSuffix(r.body, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":[%d]}`+"\n\n", id, client)) {
						t.Errorf("client %d, call %d: got %s", client, id, r.body)
					}
				}
			})
		}
		wg.Wait()
	})
}
