package upstream_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/exchange/exchangetest"
	"github.com/mcp-dualstack/bridge/negotiate"
	"github.com/mcp-dualstack/bridge/upstream"
)

// Clients that come again and again do not start a server again and again that cannot live; one that
// can live again is found out within the longest pause (10 s).
func TestNoRestartStorm(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, up *upstream.Upstream, made chan *wire) {
		var started int
		healthy, stop := make(chan struct{}), make(chan struct{})
		var player sync.WaitGroup
		player.Go(func() {
			for {
				select {
				case w := <-made:
					started++
					w.read()
					select {
					case <-healthy:
						w.say(discoverRefused)
						w.read()
						w.say(initializeResult(2, "2025-06-18"))
					default:
						_ = w.Close()
					}
				case <-stop:
					return
				}
			}
		})
		var clients sync.WaitGroup
		for range 50 {
			clients.Go(func() {
				for start := time.Now(); since(start) < 5*time.Minute; time.Sleep(100 * time.Millisecond) {
					_, err := up.Open(t.Context(), legacyClient(negotiate.Rev20250618, nil))
					f, ok := errors.AsType[*exchange.Failure](err)
					if !ok || f.Reason != exchange.ReasonUnavailable {
						t.Errorf("got %v, want %s", err, exchange.ReasonUnavailable)
					}
				}
			})
		}
		clients.Wait()
		// Before the first has failed all go through; then three per pause, and pauses soon last 10 s.
		if max := 50 + 3*(5*60/10+10); started > max {
			t.Errorf("%d starts in 5 minutes, want at most %d", started, max)
		}
		close(healthy)
		var err error
		start := time.Now()
		for err = errors.New("not asked yet"); err != nil && since(start) < time.Minute; time.Sleep(100 * time.Millisecond) {
			_, err = up.Open(t.Context(), legacyClient(negotiate.Rev20250618, nil))
		}
		if took := since(start); err != nil || took > 11*time.Second {
			t.Errorf("got %v after %v", err, took)
		}
		close(stop)
		player.Wait()
	})
}

const refusedVersion = `{"jsonrpc":"2.0","id":%d,"error":{"code":-32022,"message":"m","data":{"supported":[%s],"requested":"2026-07-28"}}}`

// A call that the server refused for its revision did not run: the server is asked anew what it speaks,
// and if that is the same the call is made once more (translation.md 4, 1.5).
func TestRefusedForItsVersion(t *testing.T) {
	for _, test := range []struct {
		name    string
		play    func(w *wire)
		want    string // result
		reason  string
		served  negotiate.Set
		further int // connections
	}{
		{"speaks it", func(w *wire) {
			w.say(fmt.Sprintf(refusedVersion, 2, `"2026-07-28"`))
			w.read()
			w.say(`{"jsonrpc":"2.0","id":3,"result":{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{}}}`)
			w.read()
			w.respond(4, `{"n":1}`)
		}, `{"n":1}`, "", negotiate.Modern, 0},
		{"refuses again", func(w *wire) {
			w.say(fmt.Sprintf(refusedVersion, 2, ``))
			w.read()
			w.say(`{"jsonrpc":"2.0","id":3,"result":{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{}}}`)
			w.read()
			w.say(fmt.Sprintf(refusedVersion, 4, ``))
		}, "", exchange.ReasonVersion, negotiate.Modern, 0},
		{"is of the handshake era", func(w *wire) {
			w.say(fmt.Sprintf(refusedVersion, 2, `"2025-06-18"`))
		}, "", exchange.ReasonVersion, negotiate.Legacy, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			inBubble(t, nil, func(t *testing.T, up *upstream.Upstream, made chan *wire) {
				s, w := openModern(t, up, made)
				p := call(s, "tools/call", `{}`, nil)
				w.read()
				test.play(w)
				got, err := p.wait()
				equal(t, "result", got, test.want)
				equal(t, "error", reason(err), test.reason)
				v, _ := up.Probe(t.Context())
				equal(t, "served", v.Served, test.served)
				equal(t, "further connections", len(made), test.further)
			})
		})
	}
}

// A listen goes on across a restart of the server. Its client hears that everything may have changed, and of
// the restart nothing (translation.md 8.1.6, 12).
func TestListenIsOpenedAgain(t *testing.T) {
	const acknowledged = `{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":%d},"notifications":{"toolsListChanged":true,"resourceSubscriptions":["x:/a"]}}}`
	inBubble(t, nil, func(t *testing.T, up *upstream.Upstream, made chan *wire) {
		s, w := openModern(t, up, made)
		peer := &exchangetest.Peer{}
		p := call(s, "subscriptions/listen", `{"notifications":{}}`, peer)
		w.read()
		w.say(fmt.Sprintf(acknowledged, 2))
		peer.Wait(t.Context(), 1)
		_ = w.Close()
		w = <-made
		w.read()
		w.say(discoverModern)
		equal(t, "again", w.read(), `{"jsonrpc":"2.0","id":2,"method":"subscriptions/listen","params":{"notifications":{}}}`)
		w.say(fmt.Sprintf(acknowledged, 2))
		notes := peer.Wait(t.Context(), 3)
		for i, want := range []string{"notifications/subscriptions/acknowledged", "notifications/tools/list_changed", "notifications/resources/updated"} {
			equal(t, "note", notes[i].Method, want)
		}
		equal(t, "uri", string(notes[2].Params), `{"uri":"x:/a"}`)

		_ = w.Close() // a server that ends before it acknowledges is not asked for ever
		w = <-made
		w.read()
		w.say(discoverModern)
		w.read()
		_ = w.Close()
		_, err := p.wait()
		equal(t, "error", reason(err), exchange.ReasonLost)
	})
}
