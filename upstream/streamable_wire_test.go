package upstream_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/exchange/exchangetest"
	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
	"github.com/mcp-dualstack/bridge/negotiate"
	"github.com/mcp-dualstack/bridge/upstream"
)

// TestWhoIsAsked: a question on a POST's stream is its call's; one on the standing stream is that of the only call, or else
// the client's as a whole. ping is answered here, and the answers are posted.
func TestWhoIsAsked(t *testing.T) {
	var standing, call chan string // made in the bubble
	question := func(id string) string {
		return `{"jsonrpc":"2.0","id":` + id + `,"method":"elicitation/create","params":{"n":1.0}}`
	}
	rest := legacyStub("2025-11-25", func(w http.ResponseWriter, h *hit) {
		write := events(w)
		if h.m.Method == "prompts/get" {
			<-h.Context().Done()
			return
		}
		for msg := range call {
			write("data: %s\n\n", strings.ReplaceAll(msg, "ID", string(h.m.ID)))
			if strings.Contains(msg, `"result"`) {
				return
			}
		}
	})
	inWeb(t, nil, func(w http.ResponseWriter, h *hit) {
		if h.Method != http.MethodGet {
			rest(w, h)
			return
		}
		write := events(w)
		for {
			select {
			case msg := <-standing:
				write("data: %s\n\n", msg)
			case <-h.Context().Done():
				return
			}
		}
	}, func(ctx context.Context, s *webStub, r *upstream.Remote) {
		standing, call = make(chan string, 1), make(chan string, 1)
		answerer := func(who string) func(context.Context, exchange.Request) (exchange.Response, error) {
			return func(context.Context, exchange.Request) (exchange.Response, error) {
				return exchange.Response{Result: []byte(`{"who":"` + who + `"}`)}, nil
			}
		}
		sess, back := openWeb(ctx, t, r, negotiate.Rev20251125)
		back.Answer = answerer("standing")
		last := func() string {
			synctest.Wait()
			got := s.of("response")
			return string(got[len(got)-1].body)
		}
		standing <- question(`"before"`)
		if got, want := last(), `{"jsonrpc":"2.0","id":"before","result":{"who":"standing"}}`; got != want {
			t.Errorf("no call: got %s, want %s", got, want)
		}
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, err := sess.Call(ctx, toolCall(`{}`), &exchangetest.Peer{Answer: answerer("call")}); err != nil {
				t.Error(err)
			}
		})
		synctest.Wait()
		for _, test := range []struct {
			name string
			on   chan string
			text string
			want string
		}{
			{"on the call's stream", call, question("7"), `{"jsonrpc":"2.0","id":7,"result":{"who":"call"}}`},
			{"on the standing stream", standing, question(`"x"`), `{"jsonrpc":"2.0","id":"x","result":{"who":"call"}}`},
			{"ping", standing, `{"jsonrpc":"2.0","id":"p","method":"ping"}`, `{"jsonrpc":"2.0","id":"p","result":{}}`},
		} {
			test.on <- test.text
			if got := last(); got != test.want {
				t.Errorf("%s: got %s, want %s", test.name, got, test.want)
			}
		}
		other, cancel := context.WithCancel(ctx)
		wg.Go(func() { _, _ = sess.Call(other, exchange.Request{Method: "prompts/get"}, nil) }) // ends by cancel
		synctest.Wait()
		standing <- question(`"two"`)
		if got, want := last(), `{"jsonrpc":"2.0","id":"two","result":{"who":"standing"}}`; got != want {
			t.Errorf("two calls: got %s, want %s", got, want)
		}
		cancel()
		call <- `{"jsonrpc":"2.0","id":ID,"result":{}}`
		wg.Wait()
	})
}

// TestCancelledCall: the cancellation is posted with our id and the reason, before the answer to what the server had asked, and
// the response stream is closed after it; nothing of the call is heard any more.
func TestCancelledCall(t *testing.T) {
	rest := legacyStub("2025-11-25", func(w http.ResponseWriter, h *hit) {
		write := events(w)
		write("data: %s\n\n", `{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{}}`)
		<-h.Context().Done()
	})
	inWeb(t, nil, rest, func(ctx context.Context, s *webStub, r *upstream.Remote) {
		sess, _ := openWeb(ctx, t, r, negotiate.Rev20251125)
		calling, cancel := context.WithCancelCause(ctx)
		asked := make(chan struct{})
		peer := &exchangetest.Peer{Answer: func(ctx context.Context, _ exchange.Request) (exchange.Response, error) {
			close(asked)
			<-ctx.Done()
			return exchange.Response{}, context.Cause(ctx)
		}}
		go func() {
			<-asked
			cancel(&exchange.CancelError{Reason: "enough"})
		}()
		if _, err := sess.Call(calling, toolCall(`{}`), peer); err == nil {
			t.Error("got no error")
		}
		synctest.Wait()
		want := []string{"tools/call", "notifications/cancelled", "response"}
		seen := s.seen()
		if got := seen[len(seen)-3:]; !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
		if got, want := string(s.of("notifications/cancelled")[0].m.Params), `{"requestId":2,"reason":"enough"}`; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		if got, want := string(s.of("response")[0].body), `{"jsonrpc":"2.0","id":"q","result":{"action":"cancel"}}`; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	})
}

// TestBatchesAndStatuses: what counts as the answer (translation.md 2, 13).
func TestBatchesAndStatuses(t *testing.T) {
	for _, test := range []struct {
		name, revision string
		answer         func(http.ResponseWriter, *hit)
		want           string // result, error object, or reason
	}{
		{"batch", "2025-03-26", func(w http.ResponseWriter, h *hit) {
			_, _ = fmt.Fprintf(w, `[{"jsonrpc":"2.0","method":"notifications/message","params":{}},{"jsonrpc":"2.0","id":%s,"result":{"b":1}}]`, h.m.ID)
		}, `{"b":1}`},
		{"batch where there are none", "2025-06-18", func(w http.ResponseWriter, h *hit) {
			_, _ = fmt.Fprintf(w, `[{"jsonrpc":"2.0","id":%s,"result":{"b":1}}]`, h.m.ID)
		}, exchange.ReasonInvalid},
		{"batch in an event", "2024-11-05", func(w http.ResponseWriter, h *hit) {
			events(w)("data: [{\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{\"b\":2}}]\n\n", h.m.ID)
		}, `{"b":2}`},
		{"error with 400", "2025-11-25", fault(400, "", `{"code":-32602,"message":"no"}`), `{"code":-32602,"message":"no"}`},
		{"error with 404", "2025-11-25", fault(404, "", `{"code":-32601,"message":"no"}`), `{"code":-32601,"message":"no"}`},
		{"result with 500", "2025-11-25", func(w http.ResponseWriter, h *hit) { w.WriteHeader(500); say(w, h, `{"r":1}`) }, `{"r":1}`},
		{"error without id", "2025-11-25", fault(400, "null", `{"code":-32600,"message":"no"}`), `{"code":-32600,"message":"no"}`},
		{"error without id on a stream", "2025-11-25", func(w http.ResponseWriter, _ *hit) {
			events(w)("data: %s\n\n", `{"jsonrpc":"2.0","error":{"code":-32000,"message":"no"}}`)
		}, `{"code":-32000,"message":"no"}`},
		{"another's id", "2025-11-25", func(w http.ResponseWriter, _ *hit) {
			_, _ = w.Write([]byte(`{"jsonrpc":"2.0","id":99,"result":{}}`))
		}, exchange.ReasonInvalid},
		{"accepted and never answered", "2025-11-25", status(202, "", ""), exchange.ReasonInvalid},
		{"too large", "2025-11-25", func(w http.ResponseWriter, h *hit) { say(w, h, `{"x":"`+strings.Repeat("x", 2000)+`"}`) }, exchange.ReasonInvalid},
		{"too large an event", "2025-11-25", func(w http.ResponseWriter, h *hit) { events(w)("data: %s\n\n", strings.Repeat("x", 2000)) }, exchange.ReasonInvalid},
		{"503", "2025-11-25", status(503, "", ""), exchange.ReasonBusy},
		{"413", "2025-11-25", status(413, "text/plain", "no"), exchange.ReasonUnavailable},
	} {
		t.Run(test.name, func(t *testing.T) {
			inWeb(t, &upstream.Options{MaxMessageBytes: 1000}, legacyStub(test.revision, test.answer), func(ctx context.Context, _ *webStub, r *upstream.Remote) {
				sess, _ := openWeb(ctx, t, r, negotiate.Rev20251125)
				resp, err := sess.Call(ctx, toolCall(`{}`), &exchangetest.Peer{})
				got := string(resp.Result)
				if resp.Error != nil {
					got = string(resp.Error.Raw)
				}
				if f, ok := errors.AsType[*exchange.Failure](err); ok {
					got = f.Reason
				}
				if got != test.want {
					t.Errorf("got %s (%v), want %s", got, err, test.want)
				}
			})
		})
	}
}

// TestRetryAfter: the header of a 429 or 503 is told, as seconds or a date.
func TestRetryAfter(t *testing.T) {
	for value, want := range map[string]time.Duration{"7": 7 * time.Second, "Sat, 01 Jan 2000 00:01:00 GMT": time.Minute, "soon": 0, "99999999": time.Hour} {
		inWeb(t, nil, modernStub(func(w http.ResponseWriter, _ *hit) {
			w.Header().Set("Retry-After", value)
			w.WriteHeader(http.StatusTooManyRequests)
		}), func(ctx context.Context, _ *webStub, r *upstream.Remote) {
			sess, _ := openWeb(ctx, t, r, negotiate.Rev20260728)
			_, err := sess.Call(ctx, exchange.Request{Method: "prompts/get"}, nil)
			if f, ok := errors.AsType[*exchange.Failure](err); !ok || f.Reason != exchange.ReasonBusy || f.RetryAfter != want {
				t.Errorf("%q: got %+v, want busy for %v", value, err, want)
			}
		})
	}
}

// TestRemoteMaxSessions: the bound is reached, told and given back.
func TestRemoteMaxSessions(t *testing.T) {
	var told []string
	inWeb(t, &upstream.Options{MaxSessions: 1, Bound: func(name string) { told = append(told, name) }},
		legacyStub("2025-11-25", nil), func(ctx context.Context, _ *webStub, r *upstream.Remote) {
			sess, _ := openWeb(ctx, t, r, negotiate.Rev20251125)
			_, err := r.Open(ctx, webClient(negotiate.Rev20251125, nil))
			if f, ok := errors.AsType[*exchange.Failure](err); !ok || f.Reason != exchange.ReasonBusy {
				t.Errorf("got %v, want %s", err, exchange.ReasonBusy)
			}
			if !slices.Contains(told, upstream.BoundSessions) {
				t.Errorf("told %v", told)
			}
			_ = sess.Close()
			synctest.Wait()
			openWeb(ctx, t, r, negotiate.Rev20251125)
		})
}

// TestFloodOfPings: answers on their way are bounded.
func TestFloodOfPings(t *testing.T) {
	var release chan struct{} // made in the bubble
	rest := legacyStub("2025-11-25", func(w http.ResponseWriter, h *hit) {
		write := events(w)
		for i := range 1000 {
			write("data: {\"jsonrpc\":\"2.0\",\"id\":%d,\"method\":\"ping\"}\n\n", i)
		}
		write("data: %s\n\n", jsonrpc.AppendResult(nil, h.m.ID, nil))
	})
	inWeb(t, &upstream.Options{MaxQuestions: 5}, func(w http.ResponseWriter, h *hit) {
		if h.name() == "response" {
			<-release
		}
		rest(w, h)
	}, func(ctx context.Context, s *webStub, r *upstream.Remote) {
		release = make(chan struct{})
		sess, _ := openWeb(ctx, t, r, negotiate.Rev20251125)
		if _, err := sess.Call(ctx, toolCall(`{}`), nil); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		if n := s.count("response"); n != 5 {
			t.Errorf("answers: got %d, want 5", n)
		}
		close(release)
	})
}
