package upstream_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/exchange/exchangetest"
	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
	"github.com/mcp-dualstack/bridge/negotiate"
	"github.com/mcp-dualstack/bridge/upstream"
)

func watching(principal string, back exchange.Peer) exchange.Client {
	c := modern(principal, `{}`)
	c.Back = back
	return c
}

const toolsChanged = `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`

// A change that any session of a principal hears reaches everybody who watches for that principal,
// leased sessions included, and nobody else (translation.md 8.1).
func TestWatchersHearEverySession(t *testing.T) {
	inStub(t, translated, nil, func(s *stub) {
		mine, mineToo, others := &exchangetest.Peer{}, &exchangetest.Peer{}, &exchangetest.Peer{}
		s.client(watching("a", mine))
		s.client(watching("a", mineToo))
		s.client(watching("b", others)) // connection 1
		s.said()
		p := call(s.client(modern("a", elicits)), "tools/call", "", nil)
		<-p.done
		s.said()
		heard := func(what string, want ...int) {
			t.Helper()
			synctest.Wait()
			for i, peer := range []*exchangetest.Peer{mine, mineToo, others} {
				equal(t, what, len(peer.Notes()), want[i])
			}
		}
		s.wire(0).say(toolsChanged)
		heard("on the shared session", 1, 1, 0)
		s.wire(2).say(toolsChanged)
		heard("on an idle lease", 2, 2, 0)
		s.wire(1).say(toolsChanged, `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"error"}}`)
		heard("of the other principal", 2, 2, 1)
	})
}

// The session that somebody watches on does not idle away, and its end ends the watchers.
func TestWatchersLast(t *testing.T) {
	inStub(t, translated, nil, func(s *stub) {
		sess := s.client(watching("a", &exchangetest.Peer{}))
		time.Sleep(time.Hour)
		select {
		case <-sess.Done():
			t.Fatal("it has ended")
		default:
		}
		_ = s.wire(0).Close()
		<-sess.Done()
		_, err := call(sess, "tools/list", "", nil).wait()
		equal(t, "call after the end", reason(err), exchange.ReasonLost)
		again := s.client(watching("a", &exchangetest.Peer{}))
		p := call(again, "tools/list", "", nil)
		<-p.done
		equal(t, "on a new one", s.said(), "1 tools/list")
	})
}

func TestMaxWatchers(t *testing.T) {
	inStub(t, upstream.Options{MaxWatchers: 2}, nil, func(s *stub) {
		first := s.client(watching("a", &exchangetest.Peer{}))
		s.client(watching("b", &exchangetest.Peer{}))
		_, err := s.up.Open(t.Context(), watching("b", &exchangetest.Peer{}))
		equal(t, "one too many", reason(err), exchange.ReasonBusy)
		_ = errors.Join(first.Close(), first.Close())
		s.client(watching("b", &exchangetest.Peer{}))
	})
}

// The server hears of a URI from its first subscriber and when the last has gone; updates go to those who
// subscribed to the URI or to something above it (translation.md 6.4).
func TestSubscriptionsAreCounted(t *testing.T) {
	inStub(t, upstream.Options{MaxSubscriptions: 2}, nil, func(s *stub) {
		one, two := &exchangetest.Peer{}, &exchangetest.Peer{}
		first, second := s.client(watching("a", one)), s.client(watching("a", two))
		do := func(sess exchange.Session, method, uri, said string) {
			t.Helper()
			got, err := call(sess, method, `{"uri":"`+uri+`"}`, nil).wait()
			equal(t, method+" "+uri, got, "{}")
			equal(t, "error", reason(err), "")
			equal(t, method+" "+uri, s.said(), said)
		}
		do(first, "resources/subscribe", "x:/a", `0 resources/subscribe {"uri":"x:/a"}`)
		do(first, "resources/subscribe", "x:/a", "")
		do(second, "resources/subscribe", "x:/a", "")
		do(second, "resources/subscribe", "x:/b/", `0 resources/subscribe {"uri":"x:/b/"}`)
		over := call(first, "resources/subscribe", `{"uri":"x:/c"}`, nil)
		<-over.done
		equal(t, "one too many", strings.Contains(string(over.resp.Error.Data), "too_many_subscriptions"), true)

		for _, uri := range []string{"x:/a", "x:/a/b", "x:/ab", "x:/b/c"} {
			s.wire(0).say(`{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"` + uri + `"}}`)
		}
		synctest.Wait()
		equal(t, "first", len(one.Notes()), 2)
		equal(t, "second", len(two.Notes()), 3)

		do(first, "resources/unsubscribe", "x:/b/", "")
		do(first, "resources/unsubscribe", "x:/a", "")
		_ = second.Close()
		said := strings.Split(s.said(), "\n")
		equal(t, "the last has gone", len(said), 2)
		equal(t, "one of them", strings.Contains(strings.Join(said, "\n"), `0 resources/unsubscribe {"uri":"x:/a"}`), true)
	})
}

// Sharing modes (translation.md 12).
func TestSharing(t *testing.T) {
	legacy := func(principal, capabilities string) exchange.Client {
		return exchange.Client{Revision: negotiate.Rev20250326, Principal: principal, Capabilities: []byte(capabilities), Back: &exchangetest.Peer{}}
	}
	play := func(s *stub, clients ...exchange.Client) string {
		var calls []*pending
		for _, c := range clients {
			sess := s.client(c)
			_ = sess.Notify(s.Context(), exchange.Request{Method: "notifications/initialized"})
			calls = append(calls, call(sess, "tools/call", "", asker(nil)))
			s.said()
		}
		s.mu.Lock()
		n := len(s.wires)
		s.mu.Unlock()
		for _, p := range calls {
			p.cancel(context.Canceled)
			<-p.done
		}
		return strings.Repeat("|", n)
	}
	for _, test := range []struct {
		sharing     string
		clients     []exchange.Client
		connections string
	}{
		{"dedicated", []exchange.Client{legacy("a", `{}`), legacy("a", `{}`)}, "||"},
		{"dedicated", []exchange.Client{legacy("a", `{}`), modern("a", `{}`), modern("a", `{}`)}, "||"},
		{"pool", []exchange.Client{legacy("a", `{}`), legacy("a", `{}`), modern("a", `{}`)}, "|"},
		{"pool", []exchange.Client{legacy("a", elicits), legacy("a", elicits)}, "|||"}, // and the one to watch on
		{"shared", []exchange.Client{legacy("a", elicits), legacy("b", elicits), modern("c", elicits)}, "|"},
	} {
		inStub(t, upstream.Options{Sharing: test.sharing, Stateless: test.sharing == "shared"}, silently, func(s *stub) {
			equal(t, test.sharing, play(s, test.clients...), test.connections)
		})
	}
}

// What cannot be is said at the first use and by Validate.
func TestOptionsAreChecked(t *testing.T) {
	o := upstream.Options{Era: "bronze", Sharing: "shared"}
	const want = `era "bronze" is none of auto, legacy, modern` + "\n" + `sharing "shared" needs the server to be declared stateless`
	equal(t, "Validate", o.Validate().Error(), want)
	inBothEras(t, &o, func(t *testing.T, up *upstream.Upstream, made chan *wire) {
		_, err := up.Open(t.Context(), modernClient)
		equal(t, "Open", err.Error(), exchange.ReasonUnavailable+": "+want)
		_, err = up.Probe(t.Context())
		equal(t, "Probe", reason(err), exchange.ReasonUnavailable)
		equal(t, "connections", len(made), 0)
	})
	o = upstream.Options{Era: "modern", Sharing: "pool"}
	equal(t, "in order", o.Validate(), nil)
}

// With a translation above, a handshake-era client of a modern server gets a session of the server's era.
func TestTranslatedOpen(t *testing.T) {
	inBothEras(t, &translated, func(t *testing.T, up *upstream.Upstream, made chan *wire) {
		go func() { w := <-made; w.read(); w.say(discoverModern) }()
		for _, client := range []negotiate.Revision{negotiate.Rev20241105, negotiate.Rev20260728} {
			s, err := up.Open(t.Context(), legacyClient(client, nil))
			if err != nil {
				t.Fatal(err)
			}
			equal(t, "revision", s.Server().Revision, negotiate.Rev20260728)
			equal(t, "served", s.Server().Served, negotiate.All)
		}
		equal(t, "further connections", len(made), 0)
	})
}

// A server that lists both eras and then does not know initialize is modern for everybody: with a translation
// above the client that found out gets a session all the same (translation.md 12).
func TestTranslatedOpenOfASupposedDualEraServer(t *testing.T) {
	inBothEras(t, &translated, func(t *testing.T, up *upstream.Upstream, made chan *wire) {
		go func() {
			probed := <-made
			probed.read()
			probed.say(discoverBoth)
			w := <-made
			w.read()
			w.say(`{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"Method not found"}}`)
		}()
		s, err := up.Open(t.Context(), legacyClient(negotiate.Rev20250618, nil))
		if err != nil {
			t.Fatal(err)
		}
		equal(t, "revision", s.Server().Revision, negotiate.Rev20260728)
	})
}

// A client that leaves while it subscribes leaves nothing behind, whichever is first.
func TestLeaveWhileSubscribing(t *testing.T) {
	slowly := func(w *wire, _ int, m *jsonrpc.Message) {
		time.Sleep(time.Second)
		w.say(string(jsonrpc.AppendResult(nil, m.ID, nil)))
	}
	for range 50 {
		inStub(t, upstream.Options{MaxSubscriptions: 1}, slowly, func(s *stub) {
			first := s.client(watching("a", &exchangetest.Peer{}))
			stays := s.client(watching("a", &exchangetest.Peer{}))
			p := call(first, "resources/subscribe", `{"uri":"x:/a"}`, nil)
			time.Sleep(time.Second) // the answer comes now
			_ = first.Close()
			<-p.done
			time.Sleep(5 * time.Second) // for the server to be told
			got, err := call(stays, "resources/subscribe", `{"uri":"x:/b"}`, nil).wait()
			equal(t, "there is room for another", got+reason(err), "{}")
		})
	}
}
