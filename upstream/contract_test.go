package upstream_test

import (
	"context"
	"io"
	"net"
	"os"
	"sync"
	"testing"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/exchange/exchangetest"
	"github.com/mcp-dualstack/bridge/negotiate"
	"github.com/mcp-dualstack/bridge/upstream"
)

// child returns the command that runs the test binary as that child.
func child(t testing.TB, name string) upstream.Command {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	// The race detector makes a process sleep a second at its end, for reports of other goroutines.
	return upstream.Command{Path: exe, Env: []string{childEnv + "=" + name, "GORACE=atexit_sleep_ms=0"}}
}

// dialer returns a dial function whose connections are served by serve, and what waits for these.
func dialer(serve func(io.ReadWriter) error) (dial func(context.Context) (io.ReadWriteCloser, error), wait func()) {
	var wg sync.WaitGroup
	return func(context.Context) (io.ReadWriteCloser, error) {
		ours, theirs := net.Pipe()
		wg.Go(func() { // until either end closes
			_ = serve(theirs)
			_ = theirs.Close()
		})
		return ours, nil
	}, wg.Wait
}

func TestContract(t *testing.T) {
	for _, served := range []struct {
		name string
		set  negotiate.Set
	}{{"dual", negotiate.All}, {"legacy", negotiate.Legacy}, {"modern", negotiate.Modern}} {
		for _, client := range []negotiate.Revision{negotiate.Rev20241105, negotiate.Rev20251125, negotiate.Rev20260728} {
			if !served.set.Has(client) {
				continue // eras that do not meet: TestEras
			}
			t.Run("pipe "+served.name+" "+client.String(), func(t *testing.T) {
				exchangetest.TestHandler(t, exchangetest.Subject{Client: client, Served: served.set, Bubble: true,
					New: func(testing.TB) (exchange.Handler, func()) {
						dial, wait := dialer(func(rw io.ReadWriter) error { return exchangetest.Serve(rw, served.set) })
						up := upstream.Pipe(dial, sameEra(nil))
						return up, func() { _ = up.Close(); wait() }
					}})
			})
			t.Run("stdio "+served.name+" "+client.String(), func(t *testing.T) {
				if testing.Short() {
					t.Skip("starts processes")
				}
				exchangetest.TestHandler(t, exchangetest.Subject{Client: client, Served: served.set,
					New: func(t testing.TB) (exchange.Handler, func()) {
						up := upstream.Stdio(child(t, served.name), sameEra(nil))
						return up, func() { _ = up.Close() }
					}})
			})
		}
	}
}
