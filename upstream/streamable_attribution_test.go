package upstream_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/exchange/exchangetest"
	"github.com/mcp-dualstack/bridge/negotiate"
	"github.com/mcp-dualstack/bridge/upstream"
)

// A questioner is a server of sessions whose calls last until it is told to answer them, and whose standing stream says what
// it is given.
type questioner struct {
	standing chan string

	mu    sync.Mutex
	calls map[string]chan string // by the name of the tool: what comes on the stream of the call, ID for its id
	ended map[string]bool        // whose response stream the client has closed
}

func newQuestioner() *questioner {
	return &questioner{standing: make(chan string, 1), calls: make(map[string]chan string), ended: make(map[string]bool)}
}

func (q *questioner) answer(w http.ResponseWriter, h *hit) {
	if h.Method == http.MethodGet {
		write := events(w)
		for {
			select {
			case msg := <-q.standing:
				write("data: %s\n\n", msg)
			case <-h.Context().Done():
				return
			}
		}
	}
	legacyStub("2025-11-25", q.call)(w, h)
}

func (q *questioner) call(w http.ResponseWriter, h *hit) {
	name := toolName(h)
	says := make(chan string, 1)
	q.mu.Lock()
	q.calls[name] = says
	q.mu.Unlock()
	write := events(w)
	select {
	case msg := <-says:
		write("data: %s\n\n", strings.ReplaceAll(msg, "ID", string(h.m.ID)))
	case <-h.Context().Done():
		q.mu.Lock()
		q.ended[name] = true
		q.mu.Unlock()
	}
}

func (q *questioner) closed(name string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.ended[name]
}

func (q *questioner) say(name, msg string) {
	q.mu.Lock()
	says := q.calls[name]
	q.mu.Unlock()
	says <- msg
}

func toolName(h *hit) string {
	var name string
	_, _ = fmt.Sscanf(string(h.m.Params), `{"name":%q`, &name)
	return name
}

// TestLateQuestion: on a session that many use, a question on the standing stream is not put to the one call in flight while a
// cancelled call may still be speaking; when the server has answered that one it is (translation.md 7.3.1, 7.3.6).
func TestLateQuestion(t *testing.T) {
	const refused = `{"jsonrpc":"2.0","id":"late","error":{"code":-32602,"message":"there is no request that this can belong to"}}`
	const asked = `{"jsonrpc":"2.0","id":"late","result":{"who":"beside"}}`
	for _, test := range []struct {
		name   string
		timely time.Duration                           // of a call
		after  func(q *questioner, cancel func(error)) // how the first call ends
		want   string
	}{
		{"cancelled", 0, func(_ *questioner, cancel func(error)) { cancel(&exchange.CancelError{}) }, refused},
		{"cancelled and answered", 0, func(q *questioner, cancel func(error)) {
			cancel(&exchange.CancelError{})
			synctest.Wait()
			q.say("first", `{"jsonrpc":"2.0","id":ID,"result":{}}`)
		}, asked},
		{"cancelled long ago", 0, func(_ *questioner, cancel func(error)) {
			cancel(&exchange.CancelError{})
			time.Sleep(6 * time.Second)
		}, asked},
		{"over its time", 10 * time.Second, func(*questioner, func(error)) { time.Sleep(7 * time.Second) }, refused},
		{"answered", 0, func(q *questioner, _ func(error)) { q.say("first", `{"jsonrpc":"2.0","id":ID,"result":{}}`) }, asked},
	} {
		t.Run(test.name, func(t *testing.T) {
			var q *questioner
			o := &upstream.Options{Sharing: "pool", HTTP: &upstream.HTTPOptions{CallTimeout: test.timely}}
			inWeb(t, o, func(w http.ResponseWriter, h *hit) { q.answer(w, h) }, func(ctx context.Context, s *webStub, r *upstream.Remote) {
				q = newQuestioner()
				sess := pooledClient(ctx, t, r, "p")
				calling, cancel := context.WithCancelCause(ctx)
				defer cancel(nil)
				var wg sync.WaitGroup
				wg.Go(func() { _, _ = sess.Call(calling, named("first"), answering("first")) }) // as the case says
				time.Sleep(5 * time.Second)
				wg.Go(func() {
					if _, err := sess.Call(ctx, named("beside"), answering("beside")); err != nil {
						t.Error(err)
					}
				})
				synctest.Wait()
				test.after(q, cancel)
				synctest.Wait()
				q.standing <- `{"jsonrpc":"2.0","id":"late","method":"elicitation/create","params":{}}`
				synctest.Wait()
				got := s.of("response")
				if len(got) != 1 || string(got[0].body) != test.want {
					t.Fatalf("got %d answers, the first %s; want %s", len(got), bodyOf(got), test.want)
				}
				q.say("beside", `{"jsonrpc":"2.0","id":ID,"result":{}}`)
				cancel(nil)
				wg.Wait()
			})
		})
	}
}

func bodyOf(hits []*hit) string {
	if len(hits) == 0 {
		return "none"
	}
	return string(hits[0].body)
}

// pooledClient opens a session of the pool for a client that can be asked.
func pooledClient(ctx context.Context, t testing.TB, r *upstream.Remote, principal string) exchange.Session {
	t.Helper()
	c := webClient(negotiate.Rev20251125, nil)
	c.Capabilities, c.Principal = []byte(`{"elicitation":{}}`), principal
	sess, err := r.Open(ctx, c)
	if err != nil {
		t.Fatal(err)
	}
	return sess
}

func named(tool string) exchange.Request {
	return exchange.Request{Method: "tools/call", Params: fmt.Appendf(nil, `{"name":%q}`, tool)}
}

// answering is a peer that says who it is when it is asked.
func answering(who string) *exchangetest.Peer {
	return &exchangetest.Peer{Answer: func(context.Context, exchange.Request) (exchange.Response, error) {
		return exchange.Response{Result: fmt.Appendf(nil, `{"who":%q}`, who)}, nil
	}}
}

// TestLingering: the response of a cancelled call is read until its answer may no longer come, and of many at once some are
// given up.
func TestLingering(t *testing.T) {
	var q *questioner
	inWeb(t, nil, func(w http.ResponseWriter, h *hit) { q.answer(w, h) }, func(ctx context.Context, _ *webStub, r *upstream.Remote) {
		q = newQuestioner()
		sess, _ := openWeb(ctx, t, r, negotiate.Rev20251125)
		const many = 20
		calling, cancel := context.WithCancel(ctx)
		var wg sync.WaitGroup
		for i := range many {
			wg.Go(func() { _, _ = sess.Call(calling, named(fmt.Sprint("t", i)), nil) }) // ends by cancel
		}
		synctest.Wait()
		cancel()
		wg.Wait()
		closed := func() (n int) {
			synctest.Wait()
			for i := range many {
				if q.closed(fmt.Sprint("t", i)) {
					n++
				}
			}
			return n
		}
		equal(t, "given up at once", closed(), many-upstream.MaxLingering)
		time.Sleep(5*time.Second + time.Millisecond)
		equal(t, "given up in the end", closed(), many)
	})
}
