package bridge

import (
	"context"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
	"github.com/mcp-dualstack/bridge/negotiate"
)

// Greet opens a conversation with the server as a handshake-era client would and ends it at once, so that a
// server which cannot start is found out before the first client comes. Nothing of it is recorded. The error is
// that of exchange.Handler.Open.
func (b *Bridge) Greet(ctx context.Context) error {
	newest := negotiate.Legacy.Newest()
	s, err := b.up.Open(ctx, exchange.Client{
		Revision:     newest,
		Requested:    newest.String(),
		Info:         b.s.info(),
		Capabilities: []byte("{}"),
		Back:         nobody{},
	})
	if err != nil {
		return err
	}
	return s.Close()
}

// info returns the Implementation object of the bridge itself.
func (s *settings) info() []byte {
	version := s.Version
	if version == "" {
		version = "unknown"
	}
	return jsonrpc.Set([]byte(`{"name":"mcp-dualstack-bridge"}`), jsonrpc.Quote(version), "version")
}

// nobody is a peer that hears nothing and can do nothing.
type nobody struct{}

func (nobody) Call(_ context.Context, req exchange.Request) (exchange.Response, error) {
	return exchange.Response{Error: jsonrpc.Errorf(jsonrpc.CodeMethodNotFound, "Method not found: %s", req.Method)}, nil
}

func (nobody) Notify(context.Context, exchange.Request) error { return nil }
