package bridge_test

import (
	"context"
	"errors"
	"io"
	"testing"

	bridge "github.com/mcp-dualstack/bridge"
	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/upstream"
)

// A server that ends at once is found out, and one that answers is let go of again.
func TestGreet(t *testing.T) {
	s := &server{}
	if err := newBridge(t, s, nil).Greet(t.Context()); err != nil || s.opened.Load() != 1 {
		t.Errorf("got %v and %d conversations, want one", err, s.opened.Load())
	}

	dead := upstream.Pipe(func(context.Context) (io.ReadWriteCloser, error) { return nil, errors.New("no such server") }, nil)
	b, err := bridge.New(dead, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	failure, ok := errors.AsType[*exchange.Failure](b.Greet(t.Context()))
	if !ok || failure.Reason != exchange.ReasonUnavailable {
		t.Errorf("got %v, want %s", failure, exchange.ReasonUnavailable)
	}
}
