package streams

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/mcp-dualstack/bridge/test/harness"
)

// idleGoal is the memory that an idle stream may take: design/performance.md, Goals.
const idleGoal = 36 << 10

// Thousands of clients that only listen: what each costs, that none of them is cut, that a listen still hears when it is
// told something, and that nothing is left when they have gone.
func TestIdleStreams(t *testing.T) {
	count, lasts := size(500, 10_000), size(time.Second, 2*time.Minute)
	for _, tt := range []struct {
		name string
		open func(ctx context.Context, c *http.Client, base string, n int) (*stream, error)
		tell func(t *testing.T, c *http.Client, base string) // makes every stream hear something; nil: nothing can
	}{
		{"legacy", openIdleLegacy, nil},
		{"listen", openIdleListen, tellListens},
	} {
		t.Run(tt.name, func(t *testing.T) {
			needProcesses(t)
			needDescriptors(t, count+200)
			// --max-sessions and --max-stateless have room for the crowd.
			flags := []string{"--keep-alive", "5s", "--max-sessions", strconv.Itoa(count + 10), "--max-stateless", strconv.Itoa(count + 10)}
			b := startBridge(t, flags...)
			start := b.startLevel(t)
			crowd := &crowd{told: make(chan struct{}, count)}
			ctx, leave := context.WithCancel(t.Context())
			c := newHTTP(t)
			crowd.enter(t, ctx, count, func(n int) (*stream, error) { return tt.open(ctx, c, b.base, n) })
			stay := time.After(lasts) // the goal is about this time
			select {
			case <-stay:
			case <-t.Context().Done():
			}
			full := b.Usage(t)
			per := (full.Resident - start.usage.Resident) / int64(count)
			t.Logf("%d idle %s streams for %v: %.1f KiB each (%d MiB in all), %d descriptors, %d threads", count, tt.name, lasts,
				float64(per)/1024, full.Resident>>20, full.Descriptors, full.Threads)
			// With few streams what the collector has not given back yet weighs more than they do.
			if most := size[int64](2*idleGoal, idleGoal); per > most && !harness.RaceEnabled {
				t.Errorf("memory per stream: got %d bytes, want at most %d", per, most)
			}
			if tt.tell != nil {
				tt.tell(t, c, b.base)
				crowd.allTold(t, count)
			}
			if n := crowd.ended.Load(); n > 0 {
				t.Errorf("%d of %d streams ended by themselves", n, count)
			}
			leave()
			crowd.readers.Wait()
			c.CloseIdleConnections()
			b.settle(t, start)
			b.sameGoroutines(t, flags...)
		})
	}
}

// needDescriptors raises the limit of open files, for the bridge too, or skips the test.
func needDescriptors(t *testing.T, n int) {
	t.Helper()
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	if limit.Max < uint64(n) {
		raised := syscall.Rlimit{Cur: uint64(n), Max: uint64(n)}
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &raised); err != nil {
			t.Skipf("SKIPPING: needs %d open files, and no more than %d are allowed here: %v", n, limit.Max, err)
		}
	}
}

// A crowd is many streams that are read and do nothing.
type crowd struct {
	readers sync.WaitGroup
	ended   atomic.Int64  // streams that ended although nobody left
	told    chan struct{} // gets one value for each message on a stream
}

// enter opens n streams, some at once, and reads each until ctx ends.
func (c *crowd) enter(t *testing.T, ctx context.Context, n int, open func(int) (*stream, error)) {
	t.Helper()
	queue := make(chan int)
	var opening sync.WaitGroup
	for range 50 {
		opening.Go(func() {
			for i := range queue {
				st, err := open(i)
				if err != nil {
					t.Errorf("stream %d: %v", i, err)
					continue
				}
				c.readers.Go(func() { c.read(ctx, st) })
			}
		})
	}
	for i := range n {
		queue <- i
	}
	close(queue)
	opening.Wait()
	if t.Failed() {
		t.FailNow()
	}
}

func (c *crowd) read(ctx context.Context, st *stream) {
	defer st.close()
	for {
		if _, err := st.next(); err != nil {
			if ctx.Err() == nil {
				c.ended.Add(1)
			}
			return
		}
		c.told <- struct{}{}
	}
}

func (c *crowd) allTold(t *testing.T, n int) {
	t.Helper()
	giveUp := time.After(limit)
	for got := range n {
		select {
		case <-c.told:
		case <-giveUp:
			t.Errorf("%d of %d streams heard what all were told", got, n)
			return
		}
	}
}

func openIdleLegacy(ctx context.Context, c *http.Client, base string, _ int) (*stream, error) {
	l, err := openStream(ctx, c, base)
	if err != nil {
		return nil, err
	}
	return l.stream, nil
}

func openIdleListen(ctx context.Context, c *http.Client, base string, n int) (*stream, error) {
	return listen(ctx, c, base, strconv.Itoa(n))
}

func tellListens(t *testing.T, c *http.Client, base string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	m, err := callModern(ctx, c, base, `"tell"`, "notify", "{}")
	if err := expectText(m, err, "notified"); err != nil {
		t.Fatal(err)
	}
}

// Over the bound a client is told to come back later, and one that is there is not harmed.
func TestBoundOfStreams(t *testing.T) {
	b := startBridge(t, "--max-sessions", "2", "--max-stateless", "2")
	c := newHTTP(t)
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	for _, tt := range []struct {
		name string
		open func(n int) (*stream, error)
	}{
		{"legacy streams", func(n int) (*stream, error) { return openIdleLegacy(ctx, c, b.base, n) }},
		{"listens", func(n int) (*stream, error) { return openIdleListen(ctx, c, b.base, n) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var open []*stream
			for n := range 2 {
				st, err := tt.open(n)
				if err != nil {
					t.Fatalf("stream %d: %v", n, err)
				}
				open = append(open, st)
			}
			_, err := tt.open(2)
			e, ok := errors.AsType[*statusError](err)
			if !ok || !isStatus(err, refused...) || e.header.Get("Retry-After") == "" {
				t.Errorf("one too many: got %v, want 429 or 503 with Retry-After", err)
			}
			open[0].close()
			if err := eventually(ctx, func() error {
				st, err := tt.open(3)
				if err == nil {
					open[0] = st
				}
				return err
			}); err != nil {
				t.Errorf("after one has left: %v", err)
			}
			for _, st := range open {
				st.close()
			}
		})
	}
}

// eventually tries as a refused client does, until ctx ends.
func eventually(ctx context.Context, try func() error) error {
	for {
		err := try()
		if err == nil || !isStatus(err, refused...) {
			return err
		}
		if pause(ctx, 20*time.Millisecond) != nil {
			return fmt.Errorf("still refused: %w", err)
		}
	}
}
