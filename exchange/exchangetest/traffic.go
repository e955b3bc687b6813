package exchangetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
)

// testProgress: notes are delivered before the response, with the client's own token (contract 5, 7).
func testProgress(ctx context.Context, t *testing.T, c *conversation) {
	sess := c.open(ctx, t)
	const count = 5
	var wg sync.WaitGroup
	for _, token := range []string{`1`, `"1"`, `"a\"\u0062"`, `0`, `9007199254740993`, `1`} {
		wg.Go(func() {
			req := c.tool("progress", fmt.Sprintf(`{"count":%d}`, count))
			req.Params = jsonrpc.Set(req.Params, []byte(token), "_meta", "progressToken")
			peer := &Peer{}
			if resp, err := sess.Call(ctx, req, peer); err != nil || resp.Error != nil {
				t.Errorf("token %s: %v, %v", token, err, resp.Error)
			}
			notes := peer.Notes()
			equal(t, "notes before the response", len(notes), count)
			for i, note := range notes {
				equal(t, "method", note.Method, "notifications/progress")
				equal(t, "note", string(note.Params), fmt.Sprintf(`{"x-i":%d.0,"progressToken":%s,"progress":%d}`, i, token, i))
			}
		})
	}
	wg.Wait()
	equal(t, "notes on the standing stream", len(c.back.Notes()), 0)
}

// testCancellation: the end of ctx ends the call at once and reaches the server with its reason, and
// nothing else is disturbed (contract 3).
func testCancellation(ctx context.Context, t *testing.T, c *conversation) {
	sess := c.open(ctx, t)
	var other sync.WaitGroup
	other.Go(func() {
		c.must(ctx, t, sess, "cancels", `{"count":2}`)
	})
	for i, test := range []struct {
		cause error
		want  string
	}{
		{&exchange.CancelError{Reason: "changed my mind"}, `"changed my mind"`},
		{context.Canceled, `null`},
	} {
		callCtx, cancel := context.WithCancelCause(ctx)
		req := c.tool("wait", fmt.Sprintf(`{"tag":%d,"announce":true}`, i))
		req.Params = jsonrpc.Set(req.Params, []byte(`7`), "_meta", "progressToken")
		peer := &Peer{}
		returned := make(chan error, 1)
		go func() {
			_, err := sess.Call(callCtx, req, peer)
			returned <- err
		}()
		equal(t, "announcements", len(peer.Wait(ctx, 1)), 1)
		cancel(test.cause)
		select {
		case err := <-returned:
			if !errors.Is(err, test.cause) {
				t.Errorf("Call: got %v, want %v", err, test.cause)
			}
		case <-ctx.Done():
			t.Fatal("Call did not return")
		}
		all := c.must(ctx, t, sess, "cancels", fmt.Sprintf(`{"count":%d}`, i+1))
		n := 0
		jsonrpc.Elements(jsonrpc.Get(all, "cancels"), func(v []byte) bool {
			if n == 2*i+1 {
				want := test.want
				if c.NoReason {
					want = "null"
				}
				equal(t, "reason", string(v), want)
			}
			n++
			return true
		})
		equal(t, "tags and reasons", n, 2*(i+1))
	}
	other.Wait()
}

// testEndedContext: nothing is sent for a ctx that has ended already.
func testEndedContext(ctx context.Context, t *testing.T, c *conversation) {
	sess := c.open(ctx, t)
	cause := &exchange.CancelError{Reason: "before the start"}
	ended, cancel := context.WithCancelCause(ctx)
	cancel(cause)
	req := c.tool("echo", `{"tag":1}`)
	req.Sent = func() { t.Error("Sent was called") }
	if _, err := sess.Call(ended, req, &Peer{}); !errors.Is(err, cause) {
		t.Errorf("got %v, want %v", err, cause)
	}
	equal(t, "seen", string(c.must(ctx, t, sess, "seen", "{}")), `{"seen":[]}`)
}

// testQuestions: what the server asks goes to the peer of the one call in flight, and the answer goes back.
func testQuestions(ctx context.Context, t *testing.T, c *conversation) {
	sess := c.open(ctx, t)
	for _, test := range []struct {
		name, method, params string
		resp                 exchange.Response
		err                  error
		want                 string
	}{
		{"result", "elicitation/create", `{"message":"m","n":1.0}`, exchange.Response{Result: []byte(`{"action":"accept","content":{"x":2.50}}`)}, nil, `{"answer":{"action":"accept","content":{"x":2.50}}}`},
		{"error", "sampling/createMessage", `{"messages":[]}`, exchange.Response{Error: &exchange.Error{Raw: []byte(`{"code":-1,"message":"no","x":1.0}`)}}, nil, `{"error":{"code":-1,"message":"no","x":1.0}}`},
		{"no answer to an elicitation", "elicitation/create", `{}`, exchange.Response{}, errors.New("gone"), `{"answer":{"action":"cancel"}}`},
		{"no answer to roots", "roots/list", `{}`, exchange.Response{}, errors.New("gone"), `{"error":{"code":-32603,"message":"client did not answer"}}`},
	} {
		peer := &Peer{Answer: func(_ context.Context, req exchange.Request) (exchange.Response, error) {
			equal(t, test.name+": method", req.Method, test.method)
			equal(t, test.name+": params", string(req.Params), test.params)
			return test.resp, test.err
		}}
		req := c.tool("ask", fmt.Sprintf(`{"method":%q,"params":%s}`, test.method, test.params))
		resp, err := sess.Call(ctx, req, peer)
		if err != nil || resp.Error != nil {
			t.Fatalf("%s: %v, %v", test.name, err, resp.Error)
		}
		equal(t, test.name, string(resp.Result), test.want)
	}
}

// testUnsolicited: with several calls in flight a message without a link goes to the standing stream,
// with one to that call's (contract 4), and a change of a list always to the standing one.
func testUnsolicited(ctx context.Context, t *testing.T, c *conversation) {
	sess := c.open(ctx, t)
	tell := func(method string, peer *Peer) {
		t.Helper()
		req := c.tool("tell", fmt.Sprintf(`{"method":%q,"params":{"n":1.0}}`, method))
		if _, err := sess.Call(ctx, req, peer); err != nil {
			t.Fatal(err)
		}
	}
	peer := &Peer{}
	tell("notifications/message", peer)
	equal(t, "to the only call", len(peer.Notes()), 1)
	tell("notifications/tools/list_changed", peer)
	equal(t, "list change to the call", len(peer.Notes()), 1)
	// Over HTTP there is no order between the standing stream and a response (translation.md 14.1).
	equal(t, "list change to the standing stream", len(c.back.Wait(ctx, 1)), 1)

	waitCtx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		req := c.tool("wait", `{"announce":true}`)
		req.Params = jsonrpc.Set(req.Params, []byte(`1`), "_meta", "progressToken")
		_, _ = sess.Call(waitCtx, req, peer) // ends by cancel
	})
	equal(t, "announcements", len(peer.Wait(ctx, 2)), 2)
	tell("notifications/message", peer)
	equal(t, "to one of several calls", len(peer.Notes()), 2)
	equal(t, "to the standing stream", len(c.back.Wait(ctx, 2)), 2)
	cancel()
	wg.Wait()
}

// testConcurrency: every answer reaches the call it belongs to.
func testConcurrency(ctx context.Context, t *testing.T, c *conversation) {
	sess := c.open(ctx, t)
	const calls = 1000
	var wg sync.WaitGroup
	for i := range calls {
		wg.Go(func() {
			req := c.tool("echo", fmt.Sprintf(`{"n":%d}`, i))
			resp, err := sess.Call(ctx, req, &Peer{})
			if err != nil {
				t.Errorf("call %d: %v", i, err)
				return
			}
			if got, want := string(jsonrpc.Get(resp.Result, "echo", "arguments", "n")), fmt.Sprint(i); got != want {
				t.Errorf("got answer of call %s, want %s", got, want)
			}
		})
	}
	wg.Wait()
}

// testOrder: requests started when Sent of the one before was called arrive in that order (contract 8).
func testOrder(ctx context.Context, t *testing.T, c *conversation) {
	if c.Client.Modern() {
		t.Skip("order means nothing to a stateless client")
	}
	sess := c.open(ctx, t)
	const calls = 200
	var wg sync.WaitGroup
	var want []string
	for i := range calls {
		want = append(want, fmt.Sprint(i))
		sent := make(chan struct{})
		req := c.tool("echo", fmt.Sprintf(`{"tag":%d}`, i))
		req.Sent = func() { close(sent) } // a second time panics
		wg.Go(func() {
			if _, err := sess.Call(ctx, req, &Peer{}); err != nil {
				t.Errorf("call %d: %v", i, err)
			}
		})
		select {
		case <-sent:
		case <-ctx.Done():
			t.Fatalf("call %d was not sent", i)
		}
	}
	wg.Wait()
	equal(t, "seen", string(c.must(ctx, t, sess, "seen", "{}")), `{"seen":[`+strings.Join(want, ",")+`]}`)
}

// testServerEnds: calls in flight fail with upstream_lost, or upstream_stream_lost over HTTP, then Done is closed (contract 10); where it is nil
// the next call is served by the server's successor.
func testServerEnds(ctx context.Context, t *testing.T, c *conversation) {
	sess := c.open(ctx, t)
	var wg sync.WaitGroup
	for _, tool := range []string{"wait", "exit"} {
		sent := make(chan struct{})
		req := c.tool(tool, `{}`)
		req.Sent = func() { close(sent) }
		wg.Go(func() {
			_, err := sess.Call(ctx, req, &Peer{})
			f, ok := errors.AsType[*exchange.Failure](err)
			if !ok || f.Reason != exchange.ReasonLost && f.Reason != exchange.ReasonStreamLost {
				t.Errorf("%s: got %v, want %s or %s", tool, err, exchange.ReasonLost, exchange.ReasonStreamLost)
			}
		})
		<-sent
	}
	wg.Wait()
	if sess.Done() == nil {
		c.must(ctx, t, sess, "echo", `{}`)
		return
	}
	select {
	case <-sess.Done():
	case <-ctx.Done():
		t.Fatal("Done was not closed")
	}
	if _, err := sess.Call(ctx, c.tool("echo", `{}`), &Peer{}); err == nil {
		t.Error("Call after the end: got no error")
	}
}

// testClose: Close may be called more than once, ends what is in flight, and leaves other clients alone.
func testClose(ctx context.Context, t *testing.T, c *conversation) {
	sess, other := c.open(ctx, t), c.open(ctx, t)
	peer := &Peer{}
	req := c.tool("wait", `{"announce":true}`)
	req.Params = jsonrpc.Set(req.Params, []byte(`1`), "_meta", "progressToken")
	returned := make(chan error, 1)
	go func() {
		_, err := sess.Call(ctx, req, peer)
		returned <- err
	}()
	peer.Wait(ctx, 1)
	if err := errors.Join(sess.Close(), sess.Close()); err != nil {
		t.Errorf("Close: %v", err)
	}
	select {
	case err := <-returned:
		if err == nil || ctx.Err() != nil {
			t.Errorf("call in flight: got %v, want an error", err)
		}
	case <-ctx.Done():
		t.Fatal("call in flight did not end")
	}
	if _, err := sess.Call(ctx, c.tool("echo", `{}`), peer); err == nil {
		t.Error("Call after Close: got no error")
	}
	c.must(ctx, t, other, "echo", `{}`)
	if !slices.ContainsFunc(peer.Notes(), func(n exchange.Request) bool { return n.Method == "notifications/progress" }) {
		t.Error("the call was not announced")
	}
}
