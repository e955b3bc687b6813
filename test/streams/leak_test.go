package streams

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/mcp-dualstack/bridge/test/harness"
)

// A level is what a bridge holds when nobody is connected.
type level struct {
	usage    harness.Usage
	children int
}

// warm uses every transport once and leaves, so that what a bridge starts once for all is there.
func (b *bridge) warm(tb testing.TB) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), limit)
	defer cancel()
	c := newHTTP(tb)
	defer c.CloseIdleConnections()
	s, err := openSession(ctx, c, b.base, "2025-11-25")
	if err != nil {
		tb.Fatal(err)
	}
	l, err := openLegacy(ctx, c, b.base)
	if err != nil {
		tb.Fatal(err)
	}
	for _, run := range []func() (harness.Message, error){
		func() (harness.Message, error) { return callModern(ctx, c, b.base, "1", "echo", `{"text":"x"}`) },
		func() (harness.Message, error) { return l.call(ctx, "1", "tools/call", tool("echo", `{"text":"x"}`)) },
		func() (harness.Message, error) {
			m, _, err := s.call(ctx, "1", "tools/call", tool("echo", `{"text":"x"}`))
			return m, err
		},
	} {
		m, err := run()
		if err := expectText(m, err, "x"); err != nil {
			tb.Fatal(err)
		}
	}
	if err := s.end(ctx); err != nil {
		tb.Fatal(err)
	}
	l.stream.close()
	<-l.ended
}

// startLevel warms the bridge up and returns what it holds then.
func (b *bridge) startLevel(tb testing.TB) level {
	tb.Helper()
	b.warm(tb)
	// Only the server that 2026-07-28 clients share stays: with its two pipes, the log's and the listener.
	l := b.settle(tb, level{harness.Usage{Descriptors: 1 << 20}, 1})
	for range 5 { // sockets close a moment after their last byte
		time.Sleep(100 * time.Millisecond)
		if u := b.Usage(tb); u.Descriptors < l.usage.Descriptors {
			l.usage = u
		}
	}
	l.usage.Resident = b.Usage(tb).Resident
	return l
}

// settle waits until the bridge holds no more than at the start, and fails the test if it does not. It
// asks again and again: nothing tells when a process has closed a file.
func (b *bridge) settle(tb testing.TB, start level) level {
	tb.Helper()
	for began := time.Now(); ; {
		l := level{b.Usage(tb), len(b.Children(tb))}
		if l.children <= start.children && l.usage.Descriptors <= start.usage.Descriptors {
			return l
		}
		if time.Since(began) > limit {
			tb.Errorf("when everybody has left: got %d descriptors and %d children, want at most the %d and %d of the start",
				l.usage.Descriptors, l.children, start.usage.Descriptors, start.children)
			return l
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// sameGoroutines ends the bridge and fails the test if it had goroutines that one which was only warmed up
// does not have.
func (b *bridge) sameGoroutines(tb testing.TB, flags ...string) {
	tb.Helper()
	idle := startBridge(tb, flags...)
	idle.startLevel(tb)
	want := idle.Goroutines(tb)
	if more := harness.More(b.Goroutines(tb), want); more != "" {
		tb.Errorf("goroutines that an idle bridge does not have, by who started them:\n%s", more)
	}
}

// pause waits a moment between two attempts of a client that is refused.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return fmt.Errorf("gave up: %w", ctx.Err())
	}
}

func isStatus(err error, codes ...int) bool {
	e, ok := errors.AsType[*statusError](err)
	return ok && slices.Contains(codes, e.status)
}

var refused = []int{http.StatusServiceUnavailable, http.StatusTooManyRequests}
