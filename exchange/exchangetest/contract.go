// Package exchangetest checks that an exchange.Handler keeps the contract of package exchange.
//
// [TestHandler] is the test; it needs the handler to be in front of the server that [Serve] is.
package exchangetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
	"github.com/mcp-dualstack/bridge/negotiate"
)

// A Subject is a handler under test.
type Subject struct {
	// New returns a handler in front of a fresh Serve, and what ends both and waits for them. The server
	// serves what Served says.
	New    func(t testing.TB) (h exchange.Handler, stop func())
	Served negotiate.Set

	Client negotiate.Revision // of the clients that the test plays; Served has it
	Bubble bool               // the handler needs no real I/O: run in testing/synctest
}

// patience bounds everything that the test waits for.
const patience = 20 * time.Second

// TestHandler checks the contract of exchange.Handler, Session and Peer, point by point
// (architecture.md 3).
func TestHandler(t *testing.T, s Subject) {
	tests := []struct {
		name   string
		legacy bool // needs a client that has a standing stream
		run    func(context.Context, *testing.T, *conversation)
	}{
		{"server", false, testServer},
		{"handshake", true, testHandshake},
		{"refused handshake", true, testRefusal},
		{"bytes", false, testBytes},
		{"error verbatim", false, testError},
		{"progress", false, testProgress},
		{"cancellation", false, testCancellation},
		{"ended ctx", false, testEndedContext},
		{"questions", true, testQuestions},
		{"unsolicited", true, testUnsolicited},
		{"concurrency", false, testConcurrency},
		{"order", false, testOrder},
		{"server ends", false, testServerEnds},
		{"close", false, testClose},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if test.legacy && s.Client.Modern() {
				t.Skip("a stateless client has no handshake and no standing stream")
			}
			body := func(t *testing.T) {
				h, stop := s.New(t)
				defer stop()
				ctx, cancel := context.WithTimeout(context.Background(), patience)
				defer cancel()
				test.run(ctx, t, &conversation{Subject: s, h: h, back: &Peer{}})
			}
			if s.Bubble {
				synctest.Test(t, body)
				return
			}
			body(t)
		})
	}
}

// A conversation is one client of the handler under test.
type conversation struct {
	Subject
	h    exchange.Handler
	back *Peer // the standing stream
}

const (
	clientInfo   = `{"name":"contract-client","version":"2.0","x-info":1.50}`
	capabilities = `{"x-cap":{"n":25.0}}`
)

func (c *conversation) client() exchange.Client {
	cl := exchange.Client{
		Revision: c.Client, Requested: c.Client.String(),
		Info: []byte(clientInfo), Capabilities: []byte(capabilities),
	}
	if !c.Client.Modern() {
		cl.Back = c.back
	}
	return cl
}

func (c *conversation) open(ctx context.Context, t *testing.T) exchange.Session {
	t.Helper()
	sess, err := c.h.Open(ctx, c.client())
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	t.Cleanup(func() { _ = sess.Close() })
	return sess
}

// tool returns a call of a tool of Serve, in the shape of the client's revision.
func (c *conversation) tool(name, arguments string) exchange.Request {
	params := fmt.Appendf(nil, `{"name":%q,"arguments":%s}`, name, arguments)
	if c.Client.Modern() {
		params = negotiate.WithEnvelope(params, negotiate.Envelope{Version: c.Client, Info: []byte(clientInfo), Capabilities: []byte(capabilities)})
	}
	return exchange.Request{Method: "tools/call", Params: params}
}

// must calls a tool and returns its result.
func (c *conversation) must(ctx context.Context, t *testing.T, sess exchange.Session, name, arguments string) []byte {
	t.Helper()
	resp, err := sess.Call(ctx, c.tool(name, arguments), &Peer{})
	if err != nil || resp.Error != nil {
		t.Fatalf("%s: error %v, %v", name, err, resp.Error)
	}
	return resp.Result
}

func equal[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

func testServer(ctx context.Context, t *testing.T, c *conversation) {
	s := c.open(ctx, t).Server()
	equal(t, "revision", s.Revision, c.Client)
	equal(t, "served", fmt.Sprint(s.Served.Strings()), fmt.Sprint(c.servable().Strings()))
	equal(t, "info", string(s.Info), serverInfo)
	equal(t, "capabilities", string(s.Capabilities), `{"tools":{},"x-cap":[1.50]}`)
	equal(t, "instructions", string(s.Instructions), `"ask \u0041"`)
	if c.Client.Modern() {
		equal(t, "discover", string(s.Discover), string(jsonrpc.Set([]byte(discovered), c.Served.JSON(), "supportedVersions")))
		equal(t, "initialize", string(s.Initialize), "")
		return
	}
	equal(t, "initialize", string(s.Initialize), string(jsonrpc.Set([]byte(initialized), jsonrpc.Quote(c.Client.String()), "protocolVersion")))
	equal(t, "discover", string(s.Discover), "")
}

// servable returns the revisions of the eras that the server has.
func (c *conversation) servable() negotiate.Set {
	var served negotiate.Set
	if c.Served&negotiate.Legacy != 0 {
		served |= negotiate.Legacy
	}
	if c.Served&negotiate.Modern != 0 {
		served |= negotiate.Modern
	}
	return served
}

// testHandshake: the server hears the client's own revision, capabilities and info, and
// notifications/initialized once, before the first request (contract 1).
func testHandshake(ctx context.Context, t *testing.T, c *conversation) {
	want := fmt.Sprintf(`{"params":{"protocolVersion":"%s","capabilities":%s,"clientInfo":%s},"initialized":1,"early":false}`,
		c.Client, capabilities, clientInfo)
	overtaken := c.open(ctx, t)
	equal(t, "client as the server knows it", string(c.must(ctx, t, overtaken, "client", "{}")), want)
	if err := overtaken.Notify(ctx, exchange.Request{Method: "notifications/initialized"}); err != nil {
		t.Errorf("Notify: %v", err)
	}
	equal(t, "after a late note", string(c.must(ctx, t, overtaken, "client", "{}")), want)

	orderly := c.open(ctx, t)
	if err := orderly.Notify(ctx, exchange.Request{Method: "notifications/initialized"}); err != nil {
		t.Errorf("Notify: %v", err)
	}
	equal(t, "after the client's note", string(c.must(ctx, t, orderly, "client", "{}")), want)
}

// testRefusal: the server's refusal of the handshake is the error of Open.
func testRefusal(ctx context.Context, t *testing.T, c *conversation) {
	cl := c.client()
	cl.Capabilities = []byte(`{"refuseMe":{}}`)
	_, err := c.h.Open(ctx, cl)
	e, ok := errors.AsType[*exchange.Error](err)
	if !ok {
		t.Fatalf("Open: got %v, want an *exchange.Error", err)
	}
	equal(t, "refusal", string(jsonrpc.AppendError(nil, []byte("1"), e)), `{"jsonrpc":"2.0","id":1,"error":`+refusal+`}`)
	c.open(ctx, t) // the next client is served
}

// testBytes: what passes keeps its bytes (translation.md 1.3).
func testBytes(ctx context.Context, t *testing.T, c *conversation) {
	sess := c.open(ctx, t)
	for _, args := range []string{
		`{"z":25.0,"a":1e3,"n":18446744073709551615,"u":"a\u2028b","raw":"` + "a\u2028b\u0085c" + `","dup":1,"dup":2,"x":{"y":[null,true]}}`,
		`{"long":"` + strings.Repeat("x", 70_000) + `"}`,
		`{"lone":"\ud800"}`,
	} {
		req := c.tool("echo", args)
		resp, err := sess.Call(ctx, req, &Peer{})
		if err != nil {
			t.Fatalf("Call: %v", err)
		}
		if got, want := string(resp.Result), `{"echo":`+string(req.Params)+`}`; got != want {
			t.Errorf("got %.300s, want %.300s", got, want)
		}
	}
	req := c.tool("echo", "{\n\t\"pretty\": 1.0\r\n}")
	resp, err := sess.Call(ctx, req, &Peer{})
	if err != nil || resp.Error != nil {
		t.Fatalf("params of several lines: %v, %v", err, resp.Error)
	}
	equal(t, "number in params of several lines", string(jsonrpc.Get(resp.Result, "echo", "arguments", "pretty")), "1.0")
}

// testError: a refusal by the server is an answer and travels verbatim (contract 2).
func testError(ctx context.Context, t *testing.T, c *conversation) {
	sess := c.open(ctx, t)
	const fault = `{"message":"no","x-unknown":[1.0],"code":-32055,"data":{"k":1.10}}`
	resp, err := sess.Call(ctx, c.tool("fail", `{"error":`+fault+`}`), &Peer{})
	if err != nil || resp.Error == nil {
		t.Fatalf("got error %v, response %s; want an error response", err, resp.Result)
	}
	equal(t, "error", string(resp.Error.Raw), fault)
	equal(t, "code", resp.Error.Code, -32055)
}

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
				equal(t, "reason", string(v), test.want)
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
	equal(t, "list change to the standing stream", len(c.back.Notes()), 1)

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
	equal(t, "to the standing stream", len(c.back.Notes()), 2)
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

// testServerEnds: calls in flight fail with upstream_lost, then Done is closed (contract 10); where it is nil
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
			if !ok || f.Reason != exchange.ReasonLost {
				t.Errorf("%s: got %v, want %s", tool, err, exchange.ReasonLost)
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
