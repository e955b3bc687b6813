// Package exchangetest checks that an exchange.Handler keeps the contract of package exchange.
//
// [TestHandler] is the test; it needs the handler to be in front of the server that [Serve] is.
package exchangetest

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-dualstack/bridge/exchange"
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

	NoReason bool // the wire has no room for the reason of a cancellation, as 2026-07-28 over HTTP has none
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
