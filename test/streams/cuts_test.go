package streams

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mcp-dualstack/bridge/test/harness"
)

// Connections are cut at random while calls with progress run. By Last-Event-ID every client gets everything
// of its call in order and once, the result last (2025-11-25 transports, Resumability; reports.md R34, R49).
// When all have left nothing is left of them.
func TestCutsOfSessions(t *testing.T) {
	sessions, lasts := size(20, 200), size(3*time.Second, 30*time.Second)
	b := startBridge(t, childrenFor(sessions)...)
	start := b.startLevel(t)
	c := newHTTP(t)
	ctx, cancel := context.WithTimeout(t.Context(), lasts+3*limit)
	defer cancel()
	until := time.Now().Add(lasts)
	var calls, cuts atomic.Int64
	var clients sync.WaitGroup
	for n := range sessions {
		clients.Go(func() {
			s, err := openSession(ctx, c, b.base, resumable[n%len(resumable)])
			if err != nil {
				t.Errorf("client %d: %v", n, err)
				return
			}
			for id := 1; time.Now().Before(until); id++ {
				cut, err := cutCall(ctx, s, strconv.Itoa(id))
				calls.Add(1)
				cuts.Add(int64(cut))
				if err != nil {
					t.Errorf("client %d, call %d, after %d cuts: %v", n, id, cut, err)
				}
			}
			if err := s.end(ctx); err != nil {
				t.Errorf("client %d: DELETE: %v", n, err)
			}
		})
	}
	clients.Wait()
	c.CloseIdleConnections()
	t.Logf("%d sessions, %d calls, %d cuts", sessions, calls.Load(), cuts.Load())
	if cuts.Load() < int64(sessions) {
		t.Errorf("got %d cuts of %d sessions, want at least one each", cuts.Load(), sessions)
	}
	b.settle(t, start)
	b.sameGoroutines(t)
}

// resumable are the revisions with Last-Event-ID. Only the last has an event before all messages, so that there
// everything can be had again; before it what comes first must have arrived.
var resumable = []string{"2025-11-25", "2025-06-18", "2025-11-25", "2025-03-26"}

// cutCall makes a call of some steps whose connection is cut now and then, and checks all that came of it.
func cutCall(ctx context.Context, s *session, id string) (cuts int, err error) {
	const steps = 8
	params := tool("progress", fmt.Sprintf(`{"n":%d,"seconds":%.3f}`, steps, 0.005+0.06*rand.Float64()))
	var got []int // progress, in the order it came
	last := ""
	for {
		attempt, cut := context.WithCancel(ctx)
		var st *stream
		if last == "" {
			st, err = s.post(attempt, harness.Request(id, "tools/call", params))
		} else {
			st, err = s.get(attempt, last)
		}
		if err != nil {
			cut()
			return cuts, fmt.Errorf("after event %q: %w", last, err)
		}
		known := func() { time.AfterFunc(rand.N(150*time.Millisecond), cut) }
		if last != "" {
			known() // maybe before anything else has come
			known = nil
		}
		done, err := followCall(st, id, &got, known)
		wasCut := attempt.Err() != nil
		cut()
		st.close()
		if st.last != "" {
			last = st.last
		}
		if done {
			return cuts, expectSteps(got, steps)
		}
		if !wasCut {
			return cuts, fmt.Errorf("the stream ended by itself after progress %v: %w", got, err)
		}
		cuts++
	}
}

// followCall reads to the end of the stream. done is true if the response was on it, as the last of all. It calls
// known, unless it is nil, when an event id has come, with which a client can come back.
func followCall(st *stream, id string, got *[]int, known func()) (done bool, err error) {
	for {
		e, err := st.event()
		if known != nil && st.last != "" {
			known()
			known = nil
		}
		if err == nil && e.Data == "" {
			continue
		}
		m, err := messageOf(e, err)
		switch {
		case err != nil:
			return done, err
		case done:
			return false, fmt.Errorf("after the response came %+v", m)
		case m.IsResponse() && string(m.ID) == id && m.Text() != "":
			done = true
		case m.Progress() > 0:
			*got = append(*got, m.Progress())
		default:
			return false, fmt.Errorf("got %+v", m)
		}
	}
}

func messageOf(e harness.Event, err error) (harness.Message, error) {
	if err != nil {
		return harness.Message{}, err
	}
	return e.Message()
}

func expectSteps(got []int, steps int) error {
	for i := range max(len(got), steps) {
		if i >= len(got) || i >= steps || got[i] != i+1 {
			return fmt.Errorf("progress: got %v, want 1 to %d once each", got, steps)
		}
	}
	return nil
}

// cancelLimit is how soon the server hears that a client of 2026-07-28 has gone: the goal with -full, where the machine has nothing else
// to do, and otherwise, beside other tests and with -race, what no machine exceeds where cancellations are passed on at all.
func cancelLimit() time.Duration {
	if *full {
		return 100 * time.Millisecond
	}
	return 2 * time.Second
}

// In 2026-07-28 a closed response stream is cancellation (streamable-http, Cancellation; reports.md R49): the
// server hears of each cut in time, and nothing is left of the call.
func TestCutsOfStatelessCalls(t *testing.T) {
	calls, atOnce := size(40, 200), 10
	b := startBridge(t)
	start := b.startLevel(t)
	c := newHTTP(t)
	ctx, cancel := context.WithTimeout(t.Context(), 3*limit)
	defer cancel()
	var slowest atomic.Int64
	queue := make(chan int)
	var clients sync.WaitGroup
	for range atOnce {
		clients.Go(func() {
			for n := range queue {
				took, err := cutStateless(ctx, c, b, "cut-"+strconv.Itoa(n))
				if err != nil {
					t.Errorf("call %d: %v", n, err)
				}
				for seen := slowest.Load(); int64(took) > seen && !slowest.CompareAndSwap(seen, int64(took)); seen = slowest.Load() {
				}
			}
		})
	}
	for n := range calls {
		queue <- n
	}
	close(queue)
	clients.Wait()
	t.Logf("%d calls cut; the slowest cancellation reached the server after %v", calls, time.Duration(slowest.Load()))
	if got := time.Duration(slowest.Load()); got > cancelLimit() {
		t.Errorf("slowest cancellation: got %v, want at most %v", got, cancelLimit())
	}
	if got := b.reports.count("end"); got > 0 {
		t.Errorf("%d calls went on to their end", got)
	}
	c.CloseIdleConnections()
	b.settle(t, start)
	b.sameGoroutines(t)
}

// cutStateless cuts a call at a random moment after it has begun, and returns the time until the server knows.
func cutStateless(ctx context.Context, c *http.Client, b *bridge, tag string) (time.Duration, error) {
	attempt, cut := context.WithCancel(ctx)
	defer cut()
	gone := make(chan error, 1)
	go func() { // ends when attempt does
		st, err := send(attempt, c, http.MethodPost, b.base+"/mcp",
			harness.Request("1", "tools/call", modernProgress(fmt.Sprintf(`{"n":1000000,"seconds":0.02,"tag":%q}`, tag))),
			"Content-Type", "application/json", "Accept", accept, "MCP-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", "progress")
		if err == nil {
			_, _, err = st.answer("1")
			st.close()
		}
		gone <- err
	}()
	select {
	case <-b.reports.when("begin", tag):
	case err := <-gone:
		return 0, fmt.Errorf("ended before it was cut: %w", err)
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	if err := pause(ctx, rand.N(100*time.Millisecond)); err != nil {
		return 0, err
	}
	cancelled := b.reports.when("cancel", tag)
	at := time.Now()
	cut()
	<-gone
	select {
	case heard := <-cancelled:
		return heard.Sub(at), nil
	case <-time.After(limit):
		return 0, fmt.Errorf("the server was not told within %v", limit)
	}
}
