package streams

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/mcp-dualstack/bridge/test/harness"
)

// backLimit is how soon after the new bridge listens every client works again.
const backLimit = 5 * time.Second

// A restart under load: a call that the old bridge took has its answer, and clients of both kinds come back by what they
// do anyway: a session client that is told 404 initializes, a legacy client whose stream ends opens it
// again (issue 5; reports.md R05).
func TestRestartUnderLoad(t *testing.T) {
	each := size(10, 50)
	flags := childrenFor(2 * each)
	old := startBridge(t, flags...)
	c := newHTTP(t)
	ctx, cancel := context.WithTimeout(t.Context(), 4*limit)
	defer cancel()
	ledger := &callLedger{stop: make(chan struct{})}
	var clients, ready sync.WaitGroup
	for n := range 2 * each {
		u := &user{name: strconv.Itoa(n), http: c, base: old.base, ledger: ledger, again: make(chan time.Time, 1)}
		u.run = u.useSession
		if n >= each {
			u.run, u.reinitializes = u.useLegacy, n%2 == 0
		}
		ledger.users = append(ledger.users, u)
		ready.Add(1)
		u.first = ready.Done
		clients.Go(func() { u.live(ctx) })
	}
	waitFor(t, &ready)

	children := old.Children(t)
	old.Signal(syscall.SIGTERM)
	at := time.Now()
	if code := old.Wait(t); code != 0 {
		t.Errorf("exit code: got %d, want 0", code)
	}
	t.Logf("the old bridge ended after %v", time.Since(at).Round(time.Millisecond))
	gone(t, children)
	fresh := startAt(t, old.addr, old.reports, flags...)
	up := time.Now()
	for _, u := range ledger.users {
		u.cameBack(up)
	}
	var slowest time.Duration
	for _, u := range ledger.users {
		select {
		case back := <-u.again:
			slowest = max(slowest, back.Sub(up))
		case <-time.After(2 * backLimit):
			t.Errorf("client %s does not work again: %v", u.name, u.lastError())
		}
	}
	if slowest > backLimit {
		t.Errorf("the last client worked again after %v, want at most %v", slowest, backLimit)
	}
	close(ledger.stop)
	clients.Wait()
	t.Logf("%d calls answered, %d ended with their stream, %d refused and made again; the last client was back after %v",
		ledger.answered, ledger.cut, ledger.refusals, slowest.Round(time.Millisecond))
	for _, lost := range ledger.lost {
		t.Error(lost)
	}
	c.CloseIdleConnections()
	if code := terminate(t, fresh); code != 0 {
		t.Errorf("exit code of the new bridge: got %d, want 0", code)
	}
}

// gone fails the test if one of the processes is still there.
func gone(tb testing.TB, pids []int) {
	tb.Helper()
	for _, pid := range pids {
		if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
			tb.Errorf("child %d is still there: %v", pid, err)
		}
	}
}

func terminate(tb testing.TB, b *bridge) int {
	b.Signal(syscall.SIGTERM)
	return b.Wait(tb)
}

func waitFor(t *testing.T, group *sync.WaitGroup) {
	t.Helper()
	done := make(chan struct{})
	go func() { // ends with the group, or the test fails
		group.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(limit):
		t.Fatalf("not all clients had an answer after %v", limit)
	}
}

// A callLedger is what became of all calls.
type callLedger struct {
	users []*user
	stop  chan struct{} // closed when users may leave

	mu       sync.Mutex
	answered int
	cut      int      // accepted, without an answer, but with a clear end of the stream
	refusals int      // not accepted
	lost     []string // accepted, and neither: or answered wrongly
}

// A user is one client that calls until it may leave.
type user struct {
	name          string
	http          *http.Client
	base          string
	ledger        *callLedger
	run           func(ctx context.Context, id string) error
	reinitializes bool // a legacy client that initializes on its new stream; others just go on
	first         func()
	again         chan time.Time // gets the time of the first answer after cameBack

	session *session
	legacy  *legacyClient
	leave   context.CancelFunc // ends the legacy stream

	mu   sync.Mutex
	back time.Time // zero: not asked for yet
	err  error     // the last
}

func (u *user) cameBack(at time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.back = at
}

func (u *user) lastError() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.err
}

var (
	errRefused = errors.New("not accepted")
	errCut     = errors.New("accepted, and ended without an answer")
)

// live calls until it may leave. A client that is refused waits a moment, as clients do.
func (u *user) live(ctx context.Context) {
	defer func() {
		if u.leave != nil {
			u.leave()
			<-u.legacy.ended
		}
	}()
	for id := 1; ; id++ {
		select {
		case <-u.ledger.stop:
			return
		default:
		}
		began := time.Now()
		err := u.run(ctx, strconv.Itoa(id))
		u.record(id, began, err)
		if err != nil && pause(ctx, 50*time.Millisecond) != nil {
			return
		}
	}
}

func (u *user) record(id int, began time.Time, err error) {
	u.mu.Lock()
	u.err = err
	if err == nil && u.first != nil {
		u.first()
		u.first = nil
	}
	if err == nil && !u.back.IsZero() && began.After(u.back) {
		u.again <- time.Now()
		u.back = time.Time{}
	}
	u.mu.Unlock()
	l := u.ledger
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case err == nil:
		l.answered++
	case errors.Is(err, errRefused):
		l.refusals++
	case errors.Is(err, errCut):
		l.cut++
	default:
		l.lost = append(l.lost, fmt.Sprintf("client %s, call %d: %v", u.name, id, err))
	}
}

func (u *user) params() string {
	return tool("silent", fmt.Sprintf(`{"seconds":%.3f}`, 0.5*rand.Float64()))
}

// useSession makes one call of a client with a session.
func (u *user) useSession(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if u.session == nil {
		s, err := openSession(ctx, u.http, u.base, "2025-11-25")
		if err != nil {
			return fmt.Errorf("%w: %w", errRefused, err)
		}
		u.session = s
	}
	st, err := u.session.post(ctx, harness.Request(id, "tools/call", u.params()))
	if isStatus(err, http.StatusNotFound) {
		u.session = nil
	}
	if err != nil {
		return fmt.Errorf("%w: %w", errRefused, err)
	}
	defer st.close()
	m, _, err := st.answer(id)
	if err != nil && ctx.Err() == nil {
		return fmt.Errorf("%w: %w", errCut, err)
	}
	return expectText(m, err, "silent")
}

// useLegacy makes one call of a client on the legacy stream.
func (u *user) useLegacy(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if err := u.openAgain(); err != nil {
		return fmt.Errorf("%w: %w", errRefused, err)
	}
	answer := u.legacy.expect(id, "")
	if err := u.legacy.post(ctx, harness.Request(id, "tools/call", u.params())); err != nil {
		return fmt.Errorf("%w: %w", errRefused, err)
	}
	m, err := u.legacy.wait(ctx, answer)
	if errors.Is(err, errStreamEnded) {
		return fmt.Errorf("%w: %w", errCut, err)
	}
	return expectText(m, err, "silent")
}

// openAgain opens the stream if it has ended. Like an EventSource, a client that has initialized once only opens it.
func (u *user) openAgain() error {
	if u.legacy != nil {
		select {
		case <-u.legacy.ended:
			u.leave()
		default:
			return nil
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	fresh := u.legacy == nil || u.reinitializes
	open := openStream
	if fresh {
		open = openLegacy
	}
	l, err := open(ctx, u.http, u.base)
	if err != nil {
		cancel()
		return err
	}
	if !fresh {
		go l.readAll() // ends with the stream
	}
	u.legacy, u.leave = l, cancel
	return nil
}
