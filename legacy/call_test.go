package legacy_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/legacy"
)

// Report R10: two calls with one id, each with its own answer, in the order they end.
func TestTwins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen log
		h := &script{call: func(_ context.Context, req exchange.Request, _ exchange.Peer) (exchange.Response, error) {
			req.Sent()
			if strings.Contains(string(req.Params), "slow") {
				time.Sleep(2 * time.Second)
			}
			return exchange.Response{Result: echo(req)}, nil
		}}
		_, s := serve(t, h, &legacy.Options{Observe: seen.observe})
		c := connect(t, s).begin()
		c.ok(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"slow"}}`)
		c.ok(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"fast"}}`)
		c.want(`{"jsonrpc":"2.0","id":1,"result":{"name":"fast"}}`, `{"jsonrpc":"2.0","id":1,"result":{"name":"slow"}}`)
		if got := seen.kind(exchange.SeenDuplicateID); len(got) != 1 {
			t.Errorf("observed %d duplicates, want 1", len(got))
		}
	})
}

// Report R48: no answer for a cancelled call, and others go on.
func TestCancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &script{call: func(ctx context.Context, req exchange.Request, back exchange.Peer) (exchange.Response, error) {
			if strings.Contains(string(req.Params), "hang") {
				return hang(ctx, req, back)
			}
			req.Sent()
			return exchange.Response{}, nil
		}}
		_, s := serve(t, h, nil)
		c := connect(t, s).begin()
		c.ok(`{"jsonrpc":"2.0","id":"101","method":"tools/call","params":{"name":"hang"}}`)
		c.ok(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":101}}`) // another id
		c.ok(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"101"}}`)
		c.ok(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{}}`)
		c.want(`{"jsonrpc":"2.0","id":2,"result":{}}`)
	})
}

// Translation.md 9: questions appear on the stream and answers come by POST.
func TestQuestions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &script{call: func(ctx context.Context, req exchange.Request, back exchange.Peer) (exchange.Response, error) {
			req.Sent()
			r, err := back.Call(ctx, exchange.Request{Method: "elicitation/create", Params: []byte(`{"message":"?"}`)})
			if err != nil {
				return exchange.Response{Result: []byte(`{"failed":true}`)}, nil
			}
			return exchange.Response{Result: r.Result}, nil
		}}
		_, s := serve(t, h, &legacy.Options{AskTimeout: time.Minute})
		c := connect(t, s).begin()
		c.ok(call9)
		c.want(`{"jsonrpc":"2.0","id":1,"method":"elicitation/create","params":{"message":"?"}}`)
		c.ok(`{"jsonrpc":"2.0","id":1,"result":{"action":"accept"}}`)
		c.want(`{"jsonrpc":"2.0","id":9,"result":{"action":"accept"}}`)

		c.ok(call9) // clients.md 13: some declare what they never answer
		c.want(`{"jsonrpc":"2.0","id":2,"method":"elicitation/create","params":{"message":"?"}}`,
			`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}`,
			`{"jsonrpc":"2.0","id":9,"result":{"failed":true}}`)
	})
}

// Report R11: ids collide across clients all the time.
func TestTwentyClients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var delay atomic.Int64
		h := &script{call: func(_ context.Context, req exchange.Request, _ exchange.Peer) (exchange.Response, error) {
			req.Sent()
			time.Sleep(time.Duration(delay.Add(7919)%50) * time.Millisecond)
			return exchange.Response{Result: echo(req)}, nil
		}}
		_, s := serve(t, h, nil)
		var wg sync.WaitGroup
		for n := range 20 {
			c := connect(t, s).begin()
			wg.Go(func() {
				left := map[string]bool{}
				for id := range 50 {
					params := fmt.Sprintf(`{"client":%d,"id":%d}`, n, id)
					c.ok(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":%s}`, id, params))
					left[fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":%s}`, id, params)] = true
				}
				for range 50 {
					got := c.next()
					if !left[got] {
						t.Errorf("client %d got %s", n, got)
					}
					delete(left, got)
				}
			})
		}
		wg.Wait()
	})
}
