package e2e

import (
	"fmt"
	"strconv"
	"sync"
	"testing"
)

// Twenty clients use the same ids at the same time, numbers and strings of the same digits mixed. Each
// answer reaches the client that asked, under the id it asked with, type included.
func TestAnswersReachTheirOwner(t *testing.T) {
	const clients, calls = 20, 50
	p := startBridge(t, needEverything(t)...)
	callers := make([]caller, clients)
	for i := range callers {
		name, revision := fmt.Sprintf("e2e-owner-%d", i), revisions[i/2%len(revisions)]
		if i%2 == 0 {
			callers[i], _ = openLegacy(t, p.base, name, revision)
		} else {
			callers[i] = openSession(t, p.base, "/mcp", name, revision)
		}
	}

	wrong := make(chan error, clients*calls)
	var calling sync.WaitGroup
	for i, c := range callers {
		for n := range calls {
			id := strconv.Itoa(n / 2)
			if n%2 == 1 {
				id = strconv.Quote(id)
			}
			calling.Go(func() {
				want := fmt.Sprintf("client %d id %s", i, id)
				m, err := c.call(t.Context(), id, "tools/call", echoParams(want))
				if err == nil && m.Text() != "Echo: "+want {
					err = fmt.Errorf("got %q %+v", m.Text(), m.Error)
				}
				if err != nil {
					wrong <- fmt.Errorf("%s: %w", want, err)
				}
			})
		}
	}
	calling.Wait()
	close(wrong)
	if n := len(wrong); n > 0 {
		t.Errorf("%d of %d answers reached their owner, want all", clients*calls-n, clients*calls)
	}
	for err := range wrong {
		t.Error(err)
	}
	for i, c := range callers {
		if l, ok := c.(*legacyClient); ok && len(l.strays()) > 0 {
			t.Errorf("client %d got answers it did not ask for: %v", i, l.strays())
		}
	}
}
