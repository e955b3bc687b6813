package legacy_test

import (
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
	"github.com/mcp-dualstack/bridge/internal/memhttp"
	"github.com/mcp-dualstack/bridge/legacy"
)

// A stage refuses what it is told to and opens streams as it is told to.
type stage struct {
	mu       sync.Mutex
	refuse   func(legacy.Question) *legacy.Refusal
	opening  legacy.Opening
	asked    []legacy.Question
	stays    bool
	notices  int
	greeting string // raw _meta
}

func (g *stage) set(change func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	change()
}

func (g *stage) options() *legacy.Options {
	return &legacy.Options{MaxTombstones: 2, Stage: legacy.Stage{
		Refuse: func(_ *http.Request, q legacy.Question) *legacy.Refusal {
			g.mu.Lock()
			defer g.mu.Unlock()
			g.asked = append(g.asked, q)
			if g.refuse == nil {
				return nil
			}
			return g.refuse(q)
		},
		Greet: func(*http.Request) func([]byte) []byte {
			if g.greeting == "" {
				return nil
			}
			return func(result []byte) []byte { return jsonrpc.Set(result, []byte(g.greeting), "_meta") }
		},
		Notice: func(*http.Request, exchange.Client) []byte {
			g.mu.Lock()
			defer g.mu.Unlock()
			if g.notices == 0 {
				return nil
			}
			g.notices++
			return []byte(`{"level":"warning","data":"moved"}`)
		},
		Stays: func(exchange.Client) bool {
			g.mu.Lock()
			defer g.mu.Unlock()
			return g.stays
		},
	}}
}

// staged runs a front in a stage, the stream being opened as the stage wants.
func staged(t *testing.T, h exchange.Handler, g *stage, o *legacy.Options) (*legacy.Front, *memhttp.Server) {
	t.Helper()
	f := legacy.New(h, o)
	mux := http.NewServeMux()
	mux.HandleFunc("/sse", func(w http.ResponseWriter, r *http.Request) {
		g.mu.Lock()
		how := g.opening
		g.mu.Unlock()
		f.ServeStream(w, r, how)
	})
	mux.Handle("/messages", f.Messages())
	s := memhttp.New(t, mux)
	t.Cleanup(func() { f.Close() })
	return f, s
}

func moved(legacy.Question) *legacy.Refusal {
	return &legacy.Refusal{Error: jsonrpc.Errorf(410, "moved to /mcp"), End: 5 * time.Second}
}

const movedTo = `{"jsonrpc":"2.0","id":0,"error":{"code":410,"message":"moved to /mcp"}}`

// Retirement.md 6, closed: every request but ping is refused on the stream, whatever a client begins with, no server is opened, and the
// stream ends five seconds after the first refusal.
func TestTombstone(t *testing.T) {
	for name, first := range map[string]string{
		"initialize":     initialize("2025-06-18"),
		"comes back":     `{"jsonrpc":"2.0","id":0,"method":"tools/list"}`,
		"discover":       `{"jsonrpc":"2.0","id":0,"method":"server/discover"}`,
		"2026 discover":  `{"jsonrpc":"2.0","id":0,"method":"server/discover","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}`,
		"2026 call":      `{"jsonrpc":"2.0","id":0,"method":"tools/call","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}`,
		"listen":         `{"jsonrpc":"2.0","id":0,"method":"subscriptions/listen"}`,
		"unknown method": `{"jsonrpc":"2.0","id":0,"method":"x/y"}`,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var seen log
				h, g := &script{}, &stage{refuse: moved, opening: legacy.Opening{Tombstone: true, Retry: 10 * time.Minute}}
				o := g.options()
				o.Observe, o.Reattach = seen.observe, "all"
				_, s := staged(t, h, g, o)
				c := connect(t, s)
				c.ok(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
				c.ok(`{"jsonrpc":"2.0","id":"p","method":"ping"}`)
				c.want(`{"jsonrpc":"2.0","id":"p","result":{}}`)
				time.Sleep(time.Minute) // it waits for a request
				c.ok(first)
				c.want(movedTo)
				begun := time.Now()
				time.Sleep(3 * time.Second)
				c.ok(`{"jsonrpc":"2.0","id":0,"method":"tools/list"}`)
				c.want(movedTo, "")
				if d := time.Since(begun); d < 5*time.Second || d > 6*time.Second {
					t.Errorf("the stream ended %v after the first refusal, want 5 s", d)
				}
				if status, _ := c.send(first); status != http.StatusNotFound {
					t.Errorf("a message after the end: got %d, want 404", status)
				}
				if n := len(h.clients()); n != 0 {
					t.Errorf("the server was opened %d times, want 0", n)
				}
				if a, b, c := len(seen.kind(exchange.SeenTombstone)), len(seen.kind(exchange.SeenTombstoneEnd)), len(seen.kind(exchange.SeenStream)); a != 1 || b != 1 || c != 0 {
					t.Errorf("observed %d tombstones, %d ends of one, %d streams, want 1, 1, 0", a, b, c)
				}
			})
		})
	}
}

func TestTombstoneTellsTheTimeToReconnect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &stage{refuse: moved, opening: legacy.Opening{Tombstone: true, Retry: 10 * time.Minute}}
		_, s := staged(t, &script{}, g, g.options())
		resp, err := s.Client().Get(s.URL + "/sse")
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		head := make([]byte, 4096)
		n, _ := resp.Body.Read(head)
		if got := string(head[:n]); !strings.Contains(got, "\nretry: 600000\n") {
			t.Errorf("got %q, want retry: 600000", got)
		}
	})
}

// Over the bound the answer is what the stage says; ordinary sessions have a bound of their own.
func TestMaxTombstones(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen log
		g := &stage{refuse: moved}
		o := g.options()
		o.MaxSessions, o.Observe = 1, seen.observe
		_, s := staged(t, &script{}, g, o)
		connect(t, s) // an ordinary one
		g.set(func() {
			g.opening = legacy.Opening{Tombstone: true, Full: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusGone) })}
		})
		get := func() int {
			resp, err := s.Client().Get(s.URL + "/sse")
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			return resp.StatusCode
		}
		first := connect(t, s)
		connect(t, s)
		if got := get(); got != http.StatusGone {
			t.Errorf("over the bound: got %d, want 410", got)
		}
		if got := seen.kind(exchange.SeenBound); len(got) != 1 || got[0].Detail != "max_tombstones" {
			t.Errorf("observed %+v, want the bound max_tombstones", got)
		}
		g.set(func() { g.opening.Full = nil })
		if got := get(); got != http.StatusServiceUnavailable {
			t.Errorf("over the bound, without an answer to it: got %d, want 503", got)
		}
		first.ok(initialize("2025-06-18"))
		first.want(movedTo, "")
		synctest.Wait()
		connect(t, s) // there is room again
	})
}

// An exempt client says who it is in its initialize and has a session then; so has everybody when the stage goes back.
func TestTombstoneIsRaised(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen log
		h, g := &script{}, &stage{opening: legacy.Opening{Tombstone: true}, refuse: func(q legacy.Question) *legacy.Refusal {
			if string(q.Client.Info) == `{"name":"c","version":"1"}` {
				return nil
			}
			return moved(q)
		}}
		o := g.options()
		o.Observe, o.MaxSessions = seen.observe, 1
		_, s := staged(t, h, g, o)
		c := connect(t, s)
		c.ok(`{"jsonrpc":"2.0","id":0,"method":"server/discover"}`)
		c.want(movedTo)
		c.begin()
		time.Sleep(time.Minute)
		c.ok(`{"jsonrpc":"2.0","id":1,"method":"x"}`)
		c.want(`{"jsonrpc":"2.0","id":1,"result":{}}`)
		if got := seen.kind(exchange.SeenTombstoneEnd); len(got) != 1 {
			t.Errorf("observed %d ends of tombstones, want 1", len(got))
		}
		second := connect(t, s)
		second.ok(initialize("2025-06-18"))
		if got := reasonOf(second.next()); got != "too_many_sessions" {
			t.Errorf("raised over MaxSessions: got %q, want too_many_sessions", got)
		}
		connect(t, s) // the tombstone that could not be raised and this one are two
		if last := g.asked[len(g.asked)-1]; last.Requested != "2025-06-18" || !last.Tombstone || !last.Fresh {
			t.Errorf("asked about %+v, want a fresh tombstone that asks for 2025-06-18", last)
		}
	})
}

// In a conversation the stage is asked about each request, with the name that the client gave; the stream stays up.
func TestRefusedInAConversation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &stage{}
		_, s := staged(t, &script{}, g, g.options())
		c := connect(t, s).begin()
		g.set(func() {
			g.refuse = func(q legacy.Question) *legacy.Refusal {
				return &legacy.Refusal{Error: jsonrpc.Errorf(503, "not now: %s", q.Method)}
			}
		})
		c.ok(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
		c.want(`{"jsonrpc":"2.0","id":1,"error":{"code":503,"message":"not now: tools/list"}}`)
		c.ok(`{"jsonrpc":"2.0","id":2,"method":"ping"}`)
		c.want(`{"jsonrpc":"2.0","id":2,"result":{}}`)
		time.Sleep(time.Hour)
		g.set(func() { g.refuse = nil })
		c.ok(`{"jsonrpc":"2.0","id":3,"method":"tools/list"}`)
		c.want(`{"jsonrpc":"2.0","id":3,"result":{}}`)
		q := g.asked[len(g.asked)-1]
		if string(q.Client.Info) != `{"name":"c","version":"1"}` || q.Fresh || q.Method != "tools/list" {
			t.Errorf("asked about %+v, want tools/list of c in a conversation", q)
		}
	})
}

func TestMessagesOfLostSessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, s := serve(t, &script{}, &legacy.Options{Stage: legacy.Stage{Lost: func(w http.ResponseWriter, r *http.Request) bool {
			if r.Header.Get("X-Lost") == "" {
				return false
			}
			w.WriteHeader(http.StatusGone)
			return true
		}}})
		for _, c := range []struct {
			query  string
			header []string
			want   int
		}{
			{"?sessionId=nope", nil, 404},
			{"?sessionId=nope", []string{"X-Lost", "1"}, 410},
			{"", []string{"X-Lost", "1"}, 400},
		} {
			if got, _ := post(t, s.Client(), s.URL+"/messages"+c.query, initialize("2024-11-05"), c.header...); got != c.want {
				t.Errorf("%q %v: got %d, want %d", c.query, c.header, got, c.want)
			}
		}
	})
}
