package legacy_test

import (
	"context"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/legacy"
)

// Report R35: memory for a reader that does not read is bounded, its stream is cut at the bound, and others
// do not notice.
func TestSlowReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen log
		flood := make(chan struct{})
		accepted := 0
		h := &script{call: func(ctx context.Context, req exchange.Request, back exchange.Peer) (exchange.Response, error) {
			req.Sent()
			if !strings.Contains(string(req.Params), "flood") {
				return exchange.Response{}, nil
			}
			defer close(flood)
			_ = back.Notify(ctx, exchange.Request{Method: "x", Params: []byte(`"` + strings.Repeat("x", 1<<20) + `"`)})
			time.Sleep(time.Millisecond) // the write of that is stuck
			for range 10_000 {
				if err := back.Notify(ctx, exchange.Request{Method: "notifications/message", Params: make1KiB()}); err != nil {
					return exchange.Response{}, err
				}
				accepted++
			}
			return exchange.Response{}, nil
		}}
		_, s := serve(t, h, &legacy.Options{StreamBytes: 100 << 10, Observe: seen.observe})
		slow, other := connect(t, s).begin(), connect(t, s).begin()
		start := time.Now()
		slow.ok(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"flood"}}`)
		<-flood
		if accepted < 90 || accepted > 100 {
			t.Errorf("%d messages of 1 KiB were taken, want about 100", accepted)
		}
		other.ok(call9)
		other.want(`{"jsonrpc":"2.0","id":9,"result":{}}`)
		synctest.Wait()
		if got := seen.kind(exchange.SeenDropped); len(got) == 0 || got[0].Detail != exchange.ReasonStreamCut {
			t.Errorf("observed %+v, want %s", got, exchange.ReasonStreamCut)
		}
		if status, _ := slow.send(call9); status != 404 {
			t.Errorf("got %d, want 404: the session has ended", status)
		}
		if took := time.Since(start); took > time.Second {
			t.Errorf("took %v, want less than a second", took)
		}
		for got := slow.next(); got != ""; got = slow.next() { // what is left arrives, and then the end
		}
	})
}

func make1KiB() []byte { return []byte(`{"data":"` + strings.Repeat("x", 1000) + `"}`) }

func TestOneLargeMessagePasses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		large := `{"data":"` + strings.Repeat("x", 300<<10) + `"}`
		h := &script{call: func(_ context.Context, req exchange.Request, _ exchange.Peer) (exchange.Response, error) {
			req.Sent()
			return exchange.Response{Result: []byte(large)}, nil
		}}
		_, s := serve(t, h, &legacy.Options{StreamBytes: 1 << 10})
		c := connect(t, s).begin()
		c.ok(call9)
		c.want(`{"jsonrpc":"2.0","id":9,"result":` + large + `}`)
	})
}

// A reader that stops in the middle of a write holds nothing for longer than WriteTimeout.
func TestWriteTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &script{call: func(_ context.Context, req exchange.Request, _ exchange.Peer) (exchange.Response, error) {
			req.Sent()
			return exchange.Response{Result: []byte(`{"data":"` + strings.Repeat("x", 1<<20) + `"}`)}, nil
		}}
		_, s := serve(t, h, &legacy.Options{WriteTimeout: 7 * time.Second})
		c := connect(t, s).begin()
		start := time.Now()
		c.ok(call9)
		for h.endings() == 0 {
			time.Sleep(time.Second)
			synctest.Wait()
		}
		if took := time.Since(start); took != 7*time.Second {
			t.Errorf("took %v, want 7s", took)
		}
		_, _ = io.Copy(io.Discard, c.stream.Body)
	})
}
