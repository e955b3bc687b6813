package session_test

import (
	"bytes"
	"runtime/pprof"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/internal/session"
)

// Sessions of one server are told of its end each once, those that have been closed not at all, and wait for it together.
func TestEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 50
		var ends session.Ends
		one, other := make(chan struct{}), make(chan struct{})
		var told [n]atomic.Int32
		var sessions [n]*session.Session
		for i := range n {
			s := &script{done: one}
			if i%10 == 9 {
				s.done = other
			}
			sessions[i] = session.New(session.Options{
				Handler: s, Standing: &outlet{}, Client: exchange.Client{Transport: exchange.HTTPSSE},
				Ends: &ends, Ended: func() { told[i].Add(1) },
			})
			if _, ok := sessions[i].Initialize(t.Context(), message(t, initialize)); !ok {
				t.Fatalf("session %d did not open", i)
			}
		}
		synctest.Wait()
		if got := watchers(); got != 2 {
			t.Errorf("got %d goroutines that wait for two servers, want 2", got)
		}
		for i := range 5 {
			sessions[i].Close(nil)
		}
		close(one)
		synctest.Wait()
		for i := range n {
			want := int32(1)
			if i < 5 || i%10 == 9 {
				want = 0
			}
			if got := told[i].Load(); got != want {
				t.Errorf("session %d was told %d times, want %d", i, got, want)
			}
		}
		for _, s := range sessions { // the goroutine of the other server ends with the last of them
			s.Close(nil)
		}
	})
}

// watchers counts the goroutines that wait for servers.
func watchers() (n int) {
	var b bytes.Buffer
	_ = pprof.Lookup("goroutine").WriteTo(&b, 2)
	for g := range strings.SplitSeq(b.String(), "\n\n") {
		if strings.Contains(g, "session.(*Ends).watch(") {
			n++
		}
	}
	return n
}
