package legacy_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/internal/memhttp"
	"github.com/mcp-dualstack/bridge/legacy"
	"github.com/mcp-dualstack/bridge/negotiate"
)

// named are options for callers that name themselves.
func named(l *log, o legacy.Options) *legacy.Options {
	o.Principal = func(r *http.Request) string { return r.Header.Get("Authorization") }
	o.Observe = l.observe
	return &o
}

const callTen = `{"jsonrpc":"2.0","id":10,"method":"tools/call","params":{"name":"ten"}}`
const answerTen = `{"jsonrpc":"2.0","id":10,"result":{"name":"ten"}}`

// Who comes back and goes on as if nothing had happened has its session again, if it is sure whose that is
// (retirement.md R8); everybody else has a new one, and nobody else's.
func TestReattach(t *testing.T) {
	alice := []string{"Authorization", "alice", "User-Agent", "ua"}
	for _, c := range []struct {
		name     string
		mode     string
		client   []string // who loses its stream
		others   int      // of the same, who lose theirs too
		after    time.Duration
		returned []string // who comes
		first    string   // what it says first
		back     bool
	}{
		{"the same", "", alice, 0, time.Second, alice, callTen, true},
		{"late", "", alice, 0, 59 * time.Second, alice, callTen, true},
		{"too late", "", alice, 0, 60 * time.Second, alice, callTen, false},
		{"another principal", "", alice, 0, time.Second, []string{"Authorization", "bob", "User-Agent", "ua"}, callTen, false},
		{"another program", "", alice, 0, time.Second, []string{"Authorization", "alice", "User-Agent", "other"}, callTen, false},
		{"another network", "", alice, 0, time.Second, append([]string{"X-Addr", "192.0.3.7"}, alice...), callTen, false},
		{"another address of the network", "", alice, 0, time.Second, append([]string{"X-Addr", "192.0.2.200"}, alice...), callTen, true},
		{"one of two", "", alice, 1, time.Second, alice, callTen, false},
		{"nobody known", "", []string{"User-Agent", "ua"}, 0, time.Second, []string{"User-Agent", "ua"}, callTen, false},
		{"nobody known, all", "all", []string{"User-Agent", "ua"}, 0, time.Second, []string{"User-Agent", "ua"}, callTen, true},
		{"off", "off", alice, 0, time.Second, alice, callTen, false},
		{"a ping first", "", alice, 0, time.Second, alice, `{"jsonrpc":"2.0","id":7,"method":"ping"}`, true},
		{"begins anew", "", alice, 0, time.Second, alice, initialize("2025-06-18"), false},
		{"asks what there is", "", alice, 0, time.Second, alice, `{"jsonrpc":"2.0","id":7,"method":"server/discover"}`, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var seen log
				h := &script{}
				o := named(&seen, legacy.Options{Reattach: c.mode, KeepAlive: time.Hour})
				o.Addr = addrOf
				_, s := serve(t, h, o)
				first := connect(t, s, c.client...).begin(c.client...)
				for range c.others {
					connect(t, s, c.client...).begin(c.client...).gone()
				}
				first.gone()
				synctest.Wait()
				time.Sleep(c.after)
				synctest.Wait()
				opened := len(h.clients())
				again := connect(t, s, c.returned...)
				again.ok(c.first, c.returned...)
				if c.first != callTen {
					again.next()
					again.ok(callTen, c.returned...)
				}
				again.want(answerTen)
				if n := len(h.clients()) - opened; (n == 0) != c.back || n > 1 {
					t.Errorf("%d sessions were opened, want %v that it came back", n, c.back)
				}
				if n := len(seen.kind(exchange.SeenReattached)); (n == 1) != c.back {
					t.Errorf("observed %d re-attachments, want %v", n, c.back)
				}
			})
		})
	}
}

// A client of old keeps the id of the endpoint event, and so is known for sure.
func TestReattachByEventID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen log
		h := &script{}
		_, s := serve(t, h, named(&seen, legacy.Options{KeepAlive: time.Hour}))
		alice := []string{"Authorization", "alice"}
		first, id := open(t, s, alice...)
		first.begin(alice...)
		second, _ := open(t, s, alice...)
		second.begin(alice...)
		first.gone()
		second.gone()
		synctest.Wait()

		mallory, _ := open(t, s, "Authorization", "mallory", "Last-Event-ID", id)
		if mallory.post == first.post {
			t.Error("somebody else got the session")
		}
		again, fresh := open(t, s, append([]string{"Last-Event-ID", id, "User-Agent", "changed"}, alice...)...)
		if again.post != first.post || fresh == id || fresh == "" {
			t.Errorf("endpoint %s with id %q, want %s and another id than %q", again.post, fresh, first.post, id)
		}
		again.ok(callTen, alice...)
		again.want(answerTen)
		used, _ := open(t, s, append([]string{"Last-Event-ID", id}, alice...)...)
		if used.post == first.post {
			t.Error("an id was good twice")
		}
		// The old stream may still seem to be there: the new one has it.
		third, _ := open(t, s, append([]string{"Last-Event-ID", fresh}, alice...)...)
		again.want("")
		third.ok(callTen, alice...)
		third.want(answerTen)
		if n := len(h.clients()); n != 2 {
			t.Errorf("%d sessions were opened, want 2", n)
		}
	})
}

// Where nobody is re-attached no event has an id, and the session ends with its stream.
func TestNoReattach(t *testing.T) {
	for _, c := range []struct{ name, mode, principal string }{
		{"off", "off", "alice"},
		{"nobody known", "authenticated", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var seen log
				h := &script{}
				_, s := serve(t, h, named(&seen, legacy.Options{Reattach: c.mode}))
				cl, id := open(t, s, "Authorization", c.principal)
				cl.begin("Authorization", c.principal)
				cl.gone()
				synctest.Wait()
				if id != "" || h.endings() != 1 {
					t.Errorf("id %q, %d sessions ended; want none and 1", id, h.endings())
				}
			})
		})
	}
}

// What came while nobody listened waits, the call that was in flight goes on, and both ids of the session work.
func TestReattachDeliversWhatWaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen log
		h := &script{call: func(ctx context.Context, req exchange.Request, back exchange.Peer) (exchange.Response, error) {
			req.Sent()
			select {
			case <-time.After(5 * time.Second):
				_ = back.Notify(ctx, exchange.Request{Method: "notifications/progress", Params: []byte(`{}`)})
				return exchange.Response{Result: []byte(`{}`)}, nil
			case <-ctx.Done():
				return exchange.Response{}, context.Cause(ctx)
			}
		}}
		_, s := serve(t, h, named(&seen, legacy.Options{}))
		first := connect(t, s, "Authorization", "alice").begin("Authorization", "alice")
		first.ok(call9, "Authorization", "alice")
		synctest.Wait()
		first.gone()
		time.Sleep(10 * time.Second)
		again := connect(t, s, "Authorization", "alice")
		again.ok(`{"jsonrpc":"2.0","method":"notifications/x"}`, "Authorization", "alice")
		again.want(`{"jsonrpc":"2.0","method":"notifications/progress","params":{}}`, `{"jsonrpc":"2.0","id":9,"result":{}}`)
		first.ok(`{"jsonrpc":"2.0","id":11,"method":"ping"}`, "Authorization", "alice")
		again.want(`{"jsonrpc":"2.0","id":11,"result":{}}`)
		if status, _ := first.send(`{"jsonrpc":"2.0","id":12,"method":"ping"}`, "Authorization", "bob"); status != 404 {
			t.Errorf("somebody else: got %d, want 404", status)
		}
		again.gone()
		time.Sleep(61 * time.Second)
		synctest.Wait()
		for _, c := range []*client{first, again} {
			if status, _ := c.send(callTen, "Authorization", "alice"); status != 404 {
				t.Errorf("after its end: got %d, want 404", status)
			}
		}
		if h.endings() != 1 {
			t.Errorf("%d sessions ended, want 1", h.endings())
		}
	})
}

// A stream that takes over has what the one before could not be rid of.
func TestTakeOverFromADeadStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen log
		large := strings.Repeat("x", 200<<10) // more than the connection holds
		h := &script{}
		_, s := serve(t, h, named(&seen, legacy.Options{}))
		first, id := open(t, s, "Authorization", "alice")
		first.begin("Authorization", "alice")
		for n := range 3 {
			first.ok(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"x":"%s"}}`, n, large), "Authorization", "alice")
		}
		synctest.Wait() // the first answer is being written and nobody reads
		begun := time.Now()
		again, _ := open(t, s, "Authorization", "alice", "Last-Event-ID", id)
		synctest.Wait()
		got := map[string]bool{}
		for range 3 {
			got[again.next()] = true
		}
		for n := range 3 {
			if want := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":{"x":"%s"}}`, n, large); !got[want] {
				t.Errorf("answer %d is missing", n)
			}
		}
		if took := time.Since(begun); took != 0 {
			t.Errorf("took %v", took)
		}
	})
}

// A session keeps its newest ids only.
func TestReattachManyTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen log
		h := &script{}
		_, s := serve(t, h, named(&seen, legacy.Options{MaxSessions: 1, MaxSessionsPerPrincipal: 1})) // which the one that waits does not fill
		ok := func(c *client) bool {
			status, _ := c.send(`{"jsonrpc":"2.0","method":"notifications/x"}`, "Authorization", "alice")
			return status == 202
		}
		all := []*client{connect(t, s, "Authorization", "alice").begin("Authorization", "alice")}
		for range 20 {
			all[len(all)-1].gone()
			synctest.Wait()
			next := connect(t, s, "Authorization", "alice")
			if !ok(next) {
				t.Fatal("the newest id is refused")
			}
			all = append(all, next)
		}
		for i, c := range all {
			if got, want := ok(c), i == 0 || i >= len(all)-7; got != want {
				t.Errorf("id %d of %d: taken is %v, want %v", i, len(all), got, want)
			}
		}
		if n := len(h.clients()); n != 1 {
			t.Errorf("%d sessions were opened, want 1", n)
		}
	})
}

// What waits for a client that is away is bounded, and a session that is full has ended.
func TestReattachIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen log
		h := &script{}
		_, s := serve(t, h, named(&seen, legacy.Options{StreamBytes: 1000}))
		c := connect(t, s, "Authorization", "alice").begin("Authorization", "alice")
		back := h.clients()[0].Back
		c.gone()
		synctest.Wait()
		var err error
		for i := 0; err == nil && i < 100; i++ {
			err = back.Notify(t.Context(), exchange.Request{Method: "notifications/x", Params: []byte(`"` + strings.Repeat("x", 100) + `"`)})
		}
		synctest.Wait()
		if err == nil || h.endings() != 1 || len(seen.kind(exchange.SeenDropped)) == 0 {
			t.Errorf("error %v, %d sessions ended, %d drops observed", err, h.endings(), len(seen.kind(exchange.SeenDropped)))
		}
	})
}

// A planned end of a stream is for clients that get their session back.
func TestMaxStreamAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen log
		h := &script{}
		_, s := serve(t, h, named(&seen, legacy.Options{MaxStreamAge: time.Hour, KeepAlive: 24 * time.Hour}))
		begun := time.Now()
		known := connect(t, s, "Authorization", "alice").begin("Authorization", "alice")
		unknown := connect(t, s).begin()
		known.want("")
		if age := time.Since(begun); age < 54*time.Minute || age > 62*time.Minute {
			t.Errorf("ended after %v, want an hour less up to a tenth", age)
		}
		again := connect(t, s, "Authorization", "alice")
		again.ok(callTen, "Authorization", "alice")
		again.want(answerTen)
		time.Sleep(10 * time.Hour)
		unknown.ok(callTen)
		unknown.want(answerTen)
		if n := len(h.clients()); n != 2 {
			t.Errorf("%d sessions were opened, want 2", n)
		}
	})
}

// Shutdown does not wait for those who cannot come back.
func TestShutdownEndsWhatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen log
		h := &script{call: hang}
		f, s := serve(t, h, named(&seen, legacy.Options{}))
		c := connect(t, s, "Authorization", "alice").begin("Authorization", "alice")
		c.ok(call9, "Authorization", "alice")
		synctest.Wait()
		c.gone()
		synctest.Wait()
		if h.endings() != 0 {
			t.Fatal("the session has ended with its stream")
		}
		begun := time.Now()
		if err := f.Shutdown(t.Context()); err != nil || time.Since(begun) != 0 || h.endings() != 1 {
			t.Errorf("ended with %v after %v, %d sessions", err, time.Since(begun), h.endings())
		}
	})
}

// Streams end over a time when there are many.
func TestShutdownIsSpread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, s := serve(t, &script{}, nil)
		ended := make(chan time.Time, 500)
		for range 500 {
			c := connect(t, s)
			go func() {
				_, _ = io.Copy(io.Discard, c.stream.Body)
				ended <- time.Now()
			}()
		}
		begun := time.Now()
		if err := f.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		if took := time.Since(begun); took != time.Second {
			t.Errorf("took %v, want 1s", took)
		}
		at := make(map[time.Time]int)
		for range 500 {
			at[<-ended]++
		}
		for when, n := range at {
			if n > 10 {
				t.Errorf("%d ended at %v", n, when.Sub(begun))
			}
		}
	})
}

// The bounds of package streamable, for what they are here.
func TestBounds(t *testing.T) {
	t.Run("max_sessions_per_principal", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var seen log
			_, s := serve(t, &script{}, named(&seen, legacy.Options{MaxSessionsPerPrincipal: 2, Reattach: "off"}))
			one := connect(t, s, "Authorization", "alice")
			connect(t, s, "Authorization", "alice")
			for range 5 {
				connect(t, s)
			}
			connect(t, s, "Authorization", "bob")
			resp := get(t, s, "Authorization", "alice")
			if resp.StatusCode != 429 || resp.Header.Get("Retry-After") == "" || len(seen.kind(exchange.SeenBound)) != 1 {
				t.Errorf("got %s, Retry-After %q, %d bounds observed", resp.Status, resp.Header.Get("Retry-After"), len(seen.kind(exchange.SeenBound)))
			}
			one.gone()
			synctest.Wait()
			connect(t, s, "Authorization", "alice")
		})
	})
	for _, c := range []struct {
		name string
		o    legacy.Options
	}{
		{"max_calls", legacy.Options{MaxCalls: 2}},
		{"max_calls_in_total", legacy.Options{MaxCallsInTotal: 2}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var seen log
				_, s := serve(t, &script{call: hang}, named(&seen, c.o))
				cl := connect(t, s).begin()
				for id := range 3 {
					cl.ok(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call"}`, id))
					synctest.Wait()
				}
				if got := reasonOf(cl.next()); got != exchange.ReasonTooManyCalls {
					t.Errorf("got %s, want %s", got, exchange.ReasonTooManyCalls)
				}
				if got := seen.kind(exchange.SeenBound); len(got) != 1 || got[0].Detail != c.name {
					t.Errorf("observed %+v, want %s", got, c.name)
				}
				cl.ok(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
				synctest.Wait()
				cl.ok(`{"jsonrpc":"2.0","id":4,"method":"tools/call"}`)
				synctest.Wait()
				if n := len(seen.kind(exchange.SeenBound)); n != 1 {
					t.Errorf("%d bounds observed when there was room again", n)
				}
			})
		})
	}
	t.Run("body timeout", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			_, s := serve(t, &script{}, nil)
			c := connect(t, s)
			begun := time.Now()
			body, w := io.Pipe()
			defer w.Close()
			resp, err := s.Client().Post(c.post, "application/json", body)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			text, _ := io.ReadAll(resp.Body)
			if resp.StatusCode != 408 || reasonOf(string(text)) != negotiate.ReasonBodySlow || time.Since(begun) != 30*time.Second {
				t.Errorf("got %s after %v: %s", resp.Status, time.Since(begun), text)
			}
		})
	})
}

func get(t *testing.T, s *memhttp.Server, header ...string) *http.Response {
	t.Helper()
	req, _ := http.NewRequest(http.MethodGet, s.URL+"/sse", nil)
	setHeader(req, header)
	resp, err := s.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	return resp
}
