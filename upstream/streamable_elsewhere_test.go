package upstream_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/exchange/exchangetest"
	"github.com/mcp-dualstack/bridge/negotiate"
	"github.com/mcp-dualstack/bridge/upstream"
)

// TestBusyAnswer: 503 and 429 are the server's own word, which may come after it has carried the call out; a bound of the
// bridge's is not.
func TestBusyAnswer(t *testing.T) {
	for _, status := range []int{http.StatusServiceUnavailable, http.StatusTooManyRequests} {
		inWeb(t, nil, legacyStub("2025-11-25", func(w http.ResponseWriter, _ *hit) { w.WriteHeader(status) }),
			func(ctx context.Context, s *webStub, r *upstream.Remote) {
				sess, _ := openWeb(ctx, t, r, negotiate.Rev20251125)
				_, err := sess.Call(ctx, toolCall(`{}`), nil)
				if f, ok := err.(*exchange.Failure); !ok || f.Reason != exchange.ReasonBusy || !f.Answered {
					t.Errorf("%d: got %#v, want upstream_busy, answered", status, err)
				}
				equal(t, "calls", s.count("tools/call"), 1)
			})
	}
	inWeb(t, &upstream.Options{MaxSessions: 1}, legacyStub("2025-11-25", nil),
		func(ctx context.Context, s *webStub, r *upstream.Remote) {
			_, _ = openWeb(ctx, t, r, negotiate.Rev20251125)
			_, err := r.Open(ctx, webClient(negotiate.Rev20251125, nil))
			if f, ok := err.(*exchange.Failure); !ok || f.Reason != exchange.ReasonBusy || f.Answered {
				t.Errorf("at a bound: got %#v, want upstream_busy, not answered", err)
			}
		})
}

// getStub is a server of sessions of which get serves the GETs, counted from one.
func getStub(call func(http.ResponseWriter, *hit), get func(w http.ResponseWriter, h *hit, n int)) func(http.ResponseWriter, *hit) {
	var n atomic.Int32
	rest := legacyStub("2025-11-25", call)
	return func(w http.ResponseWriter, h *hit) {
		if h.Method != http.MethodGet {
			rest(w, h)
			return
		}
		get(w, h, int(n.Add(1)))
	}
}

const promptsChanged = `{"jsonrpc":"2.0","method":"notifications/prompts/list_changed"}`

// TestForgottenEvent: a server that does not know the last event any more is asked for what comes from now on.
func TestForgottenEvent(t *testing.T) {
	for _, test := range []struct {
		status int // of the refusal
		again  []string
	}{
		{http.StatusBadRequest, []string{"e1", "", "f1"}},
		{http.StatusGone, []string{"e1", "", "f1"}},
		{http.StatusTooManyRequests, []string{"e1", "e1", "e1"}}, // nothing against the event
		{http.StatusForbidden, []string{"e1", "e1", "e1"}},
	} {
		t.Run(fmt.Sprint(test.status), func(t *testing.T) {
			inWeb(t, nil, getStub(nil, func(w http.ResponseWriter, h *hit, n int) {
				switch {
				case n == 1:
					events(w)("id: e1\ndata: %s\n\n", toolsChanged)
				case h.Header.Get(negotiate.HeaderLastEventID) == "":
					events(w)("id: f1\ndata: %s\n\n", promptsChanged)
				default:
					http.Error(w, "unknown event", test.status)
				}
			}), func(ctx context.Context, s *webStub, r *upstream.Remote) {
				sess, back := openWeb(ctx, t, r, negotiate.Rev20251125)
				if err := sess.Notify(ctx, exchange.Request{Method: "notifications/initialized"}); err != nil {
					t.Fatal(err)
				}
				for len(s.of("GET")) < 4 {
					time.Sleep(time.Second)
				}
				var asked []string
				for _, h := range s.of("GET")[1:4] {
					asked = append(asked, h.Header.Get(negotiate.HeaderLastEventID))
				}
				if !slices.Equal(asked, test.again) {
					t.Errorf("asked for what follows %q, want %q", asked, test.again)
				}
				synctest.Wait()
				want := 1
				if test.again[1] == "" {
					want = 2
				}
				equal(t, "heard", len(back.Notes()), want)
			})
		})
	}
}

// TestAnswerElsewhereIsLost: a call that was answered 202 waits for the standing stream as long as its answer can come there.
func TestAnswerElsewhereIsLost(t *testing.T) {
	for _, test := range []struct {
		name string
		get  func(w http.ResponseWriter, h *hit, n int, cut <-chan struct{}, id string)
		want string
	}{
		{"cannot be resumed", func(w http.ResponseWriter, h *hit, n int, cut <-chan struct{}, _ string) {
			events(w)
			if n == 1 {
				<-cut
				return
			}
			<-h.Context().Done()
		}, exchange.ReasonStreamLost},
		{"the event is forgotten", func(w http.ResponseWriter, h *hit, n int, cut <-chan struct{}, _ string) {
			switch {
			case n == 1:
				events(w)("id: e1\n\n")
				<-cut
			case h.Header.Get(negotiate.HeaderLastEventID) != "":
				w.WriteHeader(http.StatusBadRequest)
			default:
				events(w)
				<-h.Context().Done()
			}
		}, exchange.ReasonStreamLost},
		{"there is no stream any more", func(w http.ResponseWriter, _ *hit, n int, cut <-chan struct{}, _ string) {
			if n > 1 {
				w.WriteHeader(http.StatusMethodNotAllowed)
				return
			}
			events(w)("id: e1\n\n")
			<-cut
		}, exchange.ReasonStreamLost},
		{"out of order for good", func(w http.ResponseWriter, _ *hit, n int, cut <-chan struct{}, _ string) {
			if n > 1 {
				w.WriteHeader(http.StatusInternalServerError)
				return
			}
			events(w)("id: e1\n\n")
			<-cut
		}, exchange.ReasonStreamLost},
		{"resumed", func(w http.ResponseWriter, h *hit, n int, cut <-chan struct{}, id string) {
			say := events(w)
			if n == 1 {
				say("id: e1\n\n")
				<-cut
				return
			}
			say("id: e2\ndata: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{}}\n\n", id)
			<-h.Context().Done()
		}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			var (
				cut chan struct{}
				mu  sync.Mutex
				id  string
			)
			inWeb(t, nil, getStub(func(w http.ResponseWriter, h *hit) {
				mu.Lock()
				id = string(h.m.ID)
				mu.Unlock()
				w.WriteHeader(http.StatusAccepted)
			}, func(w http.ResponseWriter, h *hit, n int) {
				mu.Lock()
				asked := id
				mu.Unlock()
				test.get(w, h, n, cut, asked)
			}), func(ctx context.Context, s *webStub, r *upstream.Remote) {
				cut = make(chan struct{})
				sess, _ := openWeb(ctx, t, r, negotiate.Rev20251125)
				done := make(chan error, 1)
				go func() {
					_, err := sess.Call(ctx, toolCall(`{}`), nil)
					done <- err
				}()
				synctest.Wait()
				close(cut)
				select {
				case err := <-done:
					equal(t, "failure", reason(err), test.want)
				case <-time.After(10 * time.Minute):
					t.Error("the call still waits")
				}
				_ = sess.Close()
			})
		})
	}
}

// TestAnsweredElsewhere: the response of a POST whose answer came on another stream is not read for ever.
func TestAnsweredElsewhere(t *testing.T) {
	var (
		ids  chan string
		open atomic.Int32
	)
	inWeb(t, nil, getStub(func(w http.ResponseWriter, h *hit) {
		events(w)
		open.Add(1)
		ids <- string(h.m.ID)
		<-h.Context().Done()
		open.Add(-1)
	}, func(w http.ResponseWriter, h *hit, _ int) {
		say := events(w)
		for {
			select {
			case id := <-ids:
				say("data: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{}}\n\n", id)
			case <-h.Context().Done():
				return
			}
		}
	}), func(ctx context.Context, s *webStub, r *upstream.Remote) {
		ids = make(chan string)
		sess, _ := openWeb(ctx, t, r, negotiate.Rev20251125)
		for range 20 {
			if _, err := sess.Call(ctx, toolCall(`{}`), nil); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		equal(t, "responses still open", open.Load(), 0)
	})
}

// TestRepeatedEvent: an event that a server sends once more when a stream is resumed after it has been heard (translation.md 14.5); one
// of the same id with other content has not.
func TestRepeatedEvent(t *testing.T) {
	for _, test := range []struct {
		name  string
		again string // data of the first event after the resumption
		notes int
	}{
		{"the same", `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":1}}`, 1},
		{"another", `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":2}}`, 2},
	} {
		t.Run(test.name, func(t *testing.T) {
			var id atomic.Value
			inWeb(t, nil, getStub(func(w http.ResponseWriter, h *hit) {
				id.Store(string(h.m.ID))
				events(w)("id: a1\ndata: %s\n\n", `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":1}}`)
			}, func(w http.ResponseWriter, h *hit, _ int) {
				say := events(w)
				if h.Header.Get(negotiate.HeaderLastEventID) != "a1" {
					<-h.Context().Done()
					return
				}
				say("id: a1\ndata: %s\n\n", test.again)
				say("id: a2\ndata: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{}}\n\n", id.Load())
			}), func(ctx context.Context, s *webStub, r *upstream.Remote) {
				sess, _ := openWeb(ctx, t, r, negotiate.Rev20251125)
				var peer exchangetest.Peer
				if _, err := sess.Call(ctx, toolCall(`{}`), &peer); err != nil {
					t.Error(err)
				}
				equal(t, "notes", len(peer.Notes()), test.notes)
			})
		})
	}
}
