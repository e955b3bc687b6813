package legacy

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/mcp-dualstack/bridge/exchange"
)

// A talker is a reader that is as fast as its server: whenever it has read something, as much again is queued.
type talker struct {
	s    *session
	left int // messages that the server has not said yet
	said int

	read    bytes.Buffer
	unsent  int // bytes since the last flush
	largest int // that unsent has been
}

func (w *talker) Header() http.Header { return http.Header{} }
func (w *talker) WriteHeader(int)     {}

func (w *talker) Write(p []byte) (int, error) {
	w.unsent += len(p)
	w.largest = max(w.largest, w.unsent)
	w.say(32)
	return w.read.Write(p)
}

func (w *talker) FlushError() error {
	w.unsent = 0
	return nil
}

func (w *talker) say(n int) {
	for ; n > 0 && w.left > 0; n-- {
		_ = w.s.push(fmt.Appendf(nil, `{"jsonrpc":"2.0","method":"n","params":{"n":%d,"x":"%01000d"}}`, w.said, 0), false)
		w.left--
		w.said++
	}
}

func newTalker(t *testing.T, messages int) (*talker, *writer) {
	f := New(nil, nil)
	t.Cleanup(func() { _ = f.Close() })
	w := &talker{left: messages, s: f.newSession(httptest.NewRequest(http.MethodGet, "/sse", nil), "")}
	return w, &writer{st: &stream{front: f, w: http.NewResponseController(w)}, w: w}
}

func (w *talker) check(t *testing.T) {
	t.Helper()
	last := -1
	for _, n := range strings.Split(w.read.String(), `"n":`)[1:] {
		var got int
		if _, err := fmt.Sscanf(n, "%d", &got); err != nil || got != last+1 {
			t.Fatalf("message %d follows %d (%v)", got, last, err)
		}
		last = got
	}
	if last != w.said-1 {
		t.Errorf("%d messages were written of %d", last+1, w.said)
	}
}

// TestEndlessTalk: what a writer keeps for a failed write is bounded, and so is how long it looks at nothing else, however
// much there is to write.
func TestEndlessTalk(t *testing.T) {
	w, out := newTalker(t, 5000)
	w.say(32)
	turns := 0
	for {
		wrote, err := out.queued(w.s)
		if err != nil {
			t.Fatal(err)
		}
		if !wrote {
			break
		}
		turns++
		if w.s.out.bytes > 0 && len(w.s.out.ready) == 0 {
			t.Fatal("the loop would sleep though messages wait")
		}
		select {
		case <-w.s.out.ready:
		default:
		}
	}
	w.check(t)
	if most := turnBytes + batchBytes; w.largest > most || turns < w.read.Len()/most {
		t.Errorf("%d bytes in %d turns, %d of them at once; want %d at most", w.read.Len(), turns, w.largest, most)
	}
}

// TestEndIsWritten: all that waits when a session ends with a reason is written, however much it is.
func TestEndIsWritten(t *testing.T) {
	w, out := newTalker(t, 900)
	w.say(900)
	w.s.front.mu.Lock()
	w.s.front.occupy(w.s) // close gives that back
	w.s.front.mu.Unlock()
	w.s.close(exchange.Fail(exchange.ReasonClosed, nil), out)
	w.check(t)
}
