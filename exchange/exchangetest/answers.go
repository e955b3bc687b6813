package exchangetest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
	"github.com/mcp-dualstack/bridge/negotiate"
)

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
