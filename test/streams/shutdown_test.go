package streams

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/mcp-dualstack/bridge/test/harness"
)

// SIGTERM with everything open (reports.md R31): what is new is refused, the running call has its answer,
// the listen has its result, every stream then ends, and the bridge with its children in time.
func TestOrderlyEnd(t *testing.T) {
	const call = 2 * time.Second
	margin := 2 * time.Second
	if harness.RaceEnabled { // such a program sleeps for a second before it ends, the bridge after its children
		margin += 2 * time.Second
	}
	b := startBridge(t)
	c := newHTTP(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*limit)
	defer cancel()
	order := &order{}
	var readers sync.WaitGroup

	for n := range 3 {
		l, err := openLegacy(ctx, c, b.base)
		if err != nil {
			t.Fatal(err)
		}
		readers.Go(func() {
			<-l.ended
			order.add(fmt.Sprintf("legacy stream %d ended", n), l.endErr)
		})
	}
	var calling *session
	for n := range 3 {
		s, err := openSession(ctx, c, b.base, "2025-11-25")
		if err != nil {
			t.Fatal(err)
		}
		st, err := s.get(ctx, "")
		if err != nil {
			t.Fatal(err)
		}
		if calling == nil {
			calling = s
		}
		readers.Go(func() {
			_, err := st.message()
			order.add(fmt.Sprintf("GET stream %d ended", n), err)
		})
	}
	ls, err := listen(ctx, c, b.base, `"l"`)
	if err != nil {
		t.Fatal(err)
	}
	readers.Go(func() {
		m, _, err := ls.answer(`"l"`)
		if err == nil && !strings.Contains(string(m.Result), `"complete"`) {
			err = fmt.Errorf("got %s %+v", m.Result, m.Error)
		}
		order.add("listen result", err)
		_, err = ls.message()
		order.add("listen ended", err)
	})
	began := b.reports.when("begin", "long")
	readers.Go(func() {
		m, _, err := calling.call(ctx, "1", "tools/call", tool("silent", fmt.Sprintf(`{"seconds":%g,"tag":"long"}`, call.Seconds())))
		order.add("call answered", expectText(m, err, "silent"))
	})
	select {
	case <-began:
	case <-time.After(limit):
		t.Fatal("the call does not begin")
	}
	children := b.Children(t)

	b.Signal(syscall.SIGTERM)
	at := time.Now()
	b.Says(t, `"msg":"shutting down"`)
	for _, refusal := range newWork(ctx, c, b.base, calling) {
		t.Error(refusal)
	}
	if code := b.Wait(t); code != 0 {
		t.Errorf("exit code: got %d, want 0", code)
	}
	took := time.Since(at)
	readers.Wait()
	t.Logf("ended after %v: %s", took.Round(time.Millisecond), strings.Join(order.names(), ", "))
	if took > call+margin {
		t.Errorf("it took %v with a call of %v, want at most %v more", took, call, margin)
	}
	for _, pair := range [][2]string{
		{"listen result", "listen ended"},
	} {
		if order.index(pair[0]) > order.index(pair[1]) {
			t.Errorf("%s came after %s", pair[0], pair[1])
		}
	}
	// Which of two sockets is read first is chance, so this one needs a margin.
	for _, end := range []string{"GET stream 0 ended", "listen result"} { // streams end when the calls have (R31)
		if early := order.at("call answered").Sub(order.at(end)); early > call/4 {
			t.Errorf("%s: %v before the answer to the call", end, early)
		}
	}
	for _, e := range order.events {
		if ended := strings.HasSuffix(e.name, "ended"); ended && e.err != io.EOF || !ended && e.err != nil {
			t.Errorf("%s: got error %v", e.name, e.err)
		}
	}
	gone(t, children)
}

// newWork tries everything that a bridge that is ending refuses, and returns what it does not refuse with 503 and
// Retry-After.
func newWork(ctx context.Context, c *http.Client, base string, s *session) []string {
	var wrong []string
	for _, tt := range []struct {
		name string
		try  func() error
	}{
		{"a legacy stream", func() error { _, err := openStream(ctx, c, base); return err }},
		{"initialize", func() error { _, err := openSession(ctx, c, base, "2025-11-25"); return err }},
		{"a call of a session", func() error { _, err := s.post(ctx, harness.Request("9", "tools/list", "{}")); return err }},
		{"a stateless call", func() error { _, err := callModern(ctx, c, base, "9", "echo", "{}"); return err }},
	} {
		err := tt.try()
		for until := time.Now().Add(time.Second); err == nil && time.Now().Before(until); { // the signal has been logged, but not yet been obeyed
			err = tt.try()
		}
		e, ok := errors.AsType[*statusError](err)
		if !ok || e.status != http.StatusServiceUnavailable || e.header.Get("Retry-After") == "" {
			wrong = append(wrong, fmt.Sprintf("%s while the bridge ends: got %v, want 503 with Retry-After", tt.name, err))
		}
	}
	return wrong
}

// An order is what happened, one after another.
type order struct {
	mu     sync.Mutex
	events []orderEvent
}

type orderEvent struct {
	name string
	err  error
	at   time.Time
}

func (o *order) add(name string, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.events = append(o.events, orderEvent{name, err, time.Now()})
}

func (o *order) names() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	var names []string
	for _, e := range o.events {
		names = append(names, e.name)
	}
	return names
}

// at returns when an event happened.
func (o *order) at(name string) time.Time {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, e := range o.events {
		if e.name == name {
			return e.at
		}
	}
	return time.Time{}
}

// index returns the position of an event, behind all if it did not happen.
func (o *order) index(name string) int {
	names := o.names()
	if i := slices.Index(names, name); i >= 0 {
		return i
	}
	return len(names)
}
