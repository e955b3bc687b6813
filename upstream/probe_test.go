package upstream_test

import (
	"context"
	"errors"
	"fmt"
	"io"
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

// The outcomes of the era probe (translation.md 4).
func TestVerdicts(t *testing.T) {
	refused := func(code int, data string) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"error":{"code":%d,"message":"m","data":%s}}`, code, data)
	}
	offers := func(versions string) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"result":{"supportedVersions":%s}}`, versions)
	}
	for _, test := range []struct {
		name   string
		answer string // "": none, "close": the connection ends
		served negotiate.Set
		took   time.Duration
	}{
		{"modern", offers(`["2026-07-28"]`), negotiate.Modern, 0},
		{"modern and an unknown one", offers(`["2027-01-01","2026-07-28"]`), negotiate.Modern, 0},
		{"dual", offers(`["2026-07-28","2025-06-18"]`), negotiate.All, 0},
		{"result with legacy revisions", offers(`["2025-11-25","2024-11-05"]`), negotiate.Legacy, 0},
		{"result without versions", `{"jsonrpc":"2.0","id":1,"result":{}}`, negotiate.Legacy, 0},
		{"-32022 with legacy revisions", refused(-32022, `{"supported":["2025-11-25"],"requested":"2026-07-28"}`), negotiate.Legacy, 0},
		{"-32022 without a list", refused(-32022, `{}`), negotiate.Legacy, 0},
		{"-32601", refused(-32601, "null"), negotiate.Legacy, 0},
		{"-32602", refused(-32602, "null"), negotiate.Legacy, 0},
		{"-32000", refused(-32000, "null"), negotiate.Legacy, 0},
		{"unreadable", `{"jsonrpc":"2.0","id":1,"result":{},"error":{}}`, negotiate.Legacy, 0},
		{"silence", "", negotiate.Legacy, 3 * time.Second},
		{"end", "close", negotiate.Legacy, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			inBubble(t, nil, func(t *testing.T, up *upstream.Upstream, made chan *wire) {
				go func() {
					w := <-made
					line := w.read()
					equal(t, "id", string(jsonrpc.Get([]byte(line), "id")), "1")
					equal(t, "method", string(jsonrpc.Get([]byte(line), "method")), `"server/discover"`)
					equal(t, "claim", string(jsonrpc.Get([]byte(line), "params", "_meta", negotiate.MetaVersion)), `"2026-07-28"`)
					equal(t, "capabilities", string(jsonrpc.Get([]byte(line), "params", "_meta", negotiate.MetaCapabilities)), `{}`)
					switch test.answer {
					case "":
						_, _ = io.Copy(io.Discard, w)
					case "close":
						_ = w.Close()
						w = <-made // a handshake shows that the server can live
						w.read()
						w.say(initializeResult(1, "2025-06-18"))
						_, _ = io.Copy(io.Discard, w)
					default:
						w.say(test.answer)
						_, _ = io.Copy(io.Discard, w)
					}
					_ = w.Close()
				}()
				start := time.Now()
				v, err := up.Probe(t.Context())
				equal(t, "error", reason(err), "")
				equal(t, "served", fmt.Sprint(v.Served.Strings()), fmt.Sprint(test.served.Strings()))
				equal(t, "modern", v.Modern, test.served&negotiate.Modern != 0)
				equal(t, "legacy", v.Legacy, test.served&negotiate.Legacy != 0)
				equal(t, "took", since(start), test.took)
				again, _ := up.Probe(t.Context())
				equal(t, "cached", again.Served, test.served)
				equal(t, "connections left unplayed", len(made), 0)
			})
		})
	}
}

// -32022 with a modern revision is tried once more, whatever else the list has.
func TestVersionRetry(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, up *upstream.Upstream, made chan *wire) {
		go func() {
			w := <-made
			w.read()
			w.say(`{"jsonrpc":"2.0","id":1,"error":{"code":-32022,"message":"m","data":{"supported":["2026-07-28"]}}}`)
			w.read()
			w.say(strings.Replace(discoverBoth, `"id":1`, `"id":2`, 1))
		}()
		v, err := up.Probe(t.Context())
		equal(t, "error", reason(err), "")
		equal(t, "served", v.Served, negotiate.All)
	})
}

func TestProbeIsSingleFlight(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, up *upstream.Upstream, made chan *wire) {
		var wg sync.WaitGroup
		impatient, cancel := context.WithCancel(t.Context())
		for i := range 10 {
			wg.Go(func() {
				ctx := t.Context()
				if i == 0 {
					ctx = impatient
				}
				v, err := up.Probe(ctx)
				if i == 0 {
					if !errors.Is(err, context.Canceled) {
						t.Errorf("got %v, want %v", err, context.Canceled)
					}
					return
				}
				equal(t, "served", v.Served, negotiate.All)
			})
		}
		synctest.Wait()
		cancel()
		w := <-made
		w.read()
		w.say(discoverBoth)
		wg.Wait()
		equal(t, "further connections", len(made), 0)
	})
}

// A command that cannot live is no server of the handshake era: when the probe ends in an exit, a handshake
// has to succeed.
func TestProbeOfWhatCannotLive(t *testing.T) {
	for _, test := range []struct {
		name string
		ask  func(*upstream.Upstream) error
	}{
		{"Probe", func(up *upstream.Upstream) error { _, err := up.Probe(context.Background()); return err }},
		{"modern client", func(up *upstream.Upstream) error { _, err := up.Open(context.Background(), modernClient); return err }},
	} {
		t.Run(test.name, func(t *testing.T) {
			inBubble(t, nil, func(t *testing.T, up *upstream.Upstream, made chan *wire) {
				go func() {
					for range 2 {
						w := <-made
						w.read()
						_ = w.Close()
					}
				}()
				equal(t, "error", reason(test.ask(up)), exchange.ReasonUnavailable)
				equal(t, "connections left", len(made), 0)
			})
		})
	}
}

// Clients whose era the server does not speak are refused, and no connection is made for that.
func TestEras(t *testing.T) {
	for _, test := range []struct {
		name, answer string
		client       negotiate.Revision
		served       negotiate.Set
	}{
		{"modern client, legacy server", discoverRefused, negotiate.Rev20260728, negotiate.Legacy},
		{"legacy client, modern server", discoverModern, negotiate.Rev20250618, negotiate.Modern},
	} {
		t.Run(test.name, func(t *testing.T) {
			inBubble(t, nil, func(t *testing.T, up *upstream.Upstream, made chan *wire) {
				go func() { w := <-made; w.read(); w.say(test.answer) }()
				for range 3 {
					_, err := up.Open(t.Context(), legacyClient(test.client, nil))
					f, ok := errors.AsType[*exchange.Failure](err)
					if !ok {
						t.Fatalf("got %v, want a *exchange.Failure", err)
					}
					equal(t, "reason", f.Reason, exchange.ReasonEra)
					equal(t, "served", f.Served, test.served)
					equal(t, "names the modern era", strings.Contains(f.Message, "2026-07-28"), true)
					equal(t, "names the legacy era", strings.Contains(f.Message, "initialize"), true)
				}
				equal(t, "further connections", len(made), 0)
			})
		})
	}
}

// Each era has connections of its own, even with a server that speaks both.
func TestDualEra(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, up *upstream.Upstream, made chan *wire) {
		var mu sync.Mutex
		var methods []string
		go func() {
			for n := 0; ; n++ {
				w, ok := <-made
				if !ok {
					return
				}
				go func() {
					for line := w.read(); line != ""; line = w.read() {
						method, _ := jsonrpc.String(jsonrpc.Get([]byte(line), "method"))
						mu.Lock()
						methods = append(methods, fmt.Sprint(n, " ", method))
						mu.Unlock()
						switch method {
						case "server/discover":
							w.say(discoverBoth)
						case "initialize":
							w.say(initializeResult(1, "2024-11-05"))
						case "tools/list":
							w.say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{}}`, jsonrpc.Get([]byte(line), "id")))
						}
					}
				}()
			}
		}()
		for _, client := range []negotiate.Revision{negotiate.Rev20241105, negotiate.Rev20260728, negotiate.Rev20241105} {
			s, err := up.Open(t.Context(), legacyClient(client, nil))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := s.Call(t.Context(), exchange.Request{Method: "tools/list"}, nil); err != nil {
				t.Error(err)
			}
			equal(t, "served", s.Server().Served, negotiate.All)
		}
		mu.Lock()
		defer mu.Unlock()
		equal(t, "what was said where", strings.Join(methods, ", "), "0 server/discover, "+
			"1 initialize, 1 notifications/initialized, 1 tools/list, 0 tools/list, "+
			"2 initialize, 2 notifications/initialized, 2 tools/list")
		close(made)
	})
}

// R19: a slow starter is asked again by nobody: its late answer changes the verdict for the next client.
func TestLateAnswer(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, up *upstream.Upstream, made chan *wire) {
		v, err := up.Probe(t.Context()) // nobody reads: silence
		equal(t, "error", reason(err), "")
		equal(t, "served", v.Served, negotiate.Legacy)
		w := <-made
		w.read()
		w.say(discoverBoth)
		synctest.Wait()
		s, err := up.Open(t.Context(), modernClient)
		if err != nil {
			t.Fatal(err)
		}
		equal(t, "served", s.Server().Served, negotiate.All)
		p := call(s, "tools/list", "", nil)
		equal(t, "on the same connection", w.read(), `{"jsonrpc":"2.0","id":2,"method":"tools/list"}`)
		w.say(`{"jsonrpc":"2.0","id":2,"result":{}}`)
		if _, err := p.wait(); err != nil {
			t.Error(err)
		}
		_ = w.Close()
	})
}

// A server that reads nothing more after a probe it refused gets a fresh connection for the handshake (R19).
func TestSpareThatIsStuck(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, up *upstream.Upstream, made chan *wire) {
		go func() {
			stuck := <-made
			stuck.read()
			stuck.say(discoverRefused)
			w := <-made
			w.read()
			w.say(initializeResult(1, "2025-11-25"))
		}()
		start := time.Now()
		s, err := up.Open(t.Context(), legacyClient(negotiate.Rev20251125, nil))
		if err != nil {
			t.Fatal(err)
		}
		equal(t, "took", since(start), 3*time.Second)
		equal(t, "revision", s.Server().Revision, negotiate.Rev20251125)
	})
}

func TestHandshakeFailures(t *testing.T) {
	for _, test := range []struct {
		name   string
		answer string // "": none
		want   string
		took   time.Duration
	}{
		{"unknown revision", initializeResult(1, "2099-01-01"), exchange.ReasonVersion, 0},
		{"modern revision", initializeResult(1, "2026-07-28"), exchange.ReasonVersion, 0},
		{"no revision", `{"jsonrpc":"2.0","id":1,"result":{}}`, exchange.ReasonVersion, 0},
		{"no object", `{"jsonrpc":"2.0","id":1,"result":[]}`, exchange.ReasonInvalid, 0},
		{"silence", "", exchange.ReasonUnavailable, 30 * time.Second},
		{"refused", `{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"not that way"}}`, "not that way (code -32602)", 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			inBubble(t, &upstream.Options{Era: "legacy"}, func(t *testing.T, up *upstream.Upstream, made chan *wire) {
				ended := make(chan struct{})
				go func() {
					defer close(ended)
					w := <-made
					w.read()
					if test.answer != "" {
						w.say(test.answer)
					}
					_, _ = io.Copy(io.Discard, w) // until the bridge hangs up
				}()
				start := time.Now()
				_, err := up.Open(t.Context(), legacyClient(negotiate.Rev20250618, nil))
				equal(t, "error", reason(err), test.want)
				equal(t, "took", since(start), test.took)
				<-ended
			})
		})
	}
}

// The client's own ctx ends a handshake at once, without a cancellation on the wire.
func TestOpenIsCancelled(t *testing.T) {
	inBubble(t, &upstream.Options{Era: "legacy"}, func(t *testing.T, up *upstream.Upstream, made chan *wire) {
		ctx, cancel := context.WithCancel(t.Context())
		rest := make(chan string)
		go func() {
			w := <-made
			w.read()
			cancel()
			rest <- w.read()
		}()
		_, err := up.Open(ctx, legacyClient(negotiate.Rev20250618, nil))
		if !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want %v", err, context.Canceled)
		}
		equal(t, "after initialize", <-rest, "")
	})
}

func TestMaxSessions(t *testing.T) {
	dial, wait := dialer(func(rw io.ReadWriter) error { return exchangetest.Serve(rw, negotiate.Legacy) })
	synctest.Test(t, func(t *testing.T) {
		up := upstream.Pipe(dial, &upstream.Options{MaxSessions: 2, Era: "legacy"})
		var open []exchange.Session
		for range 2 {
			s, err := up.Open(t.Context(), legacyClient(negotiate.Rev20250618, nil))
			if err != nil {
				t.Fatal(err)
			}
			open = append(open, s)
		}
		_, err := up.Open(t.Context(), legacyClient(negotiate.Rev20250618, nil))
		f, ok := errors.AsType[*exchange.Failure](err)
		if !ok || f.Reason != exchange.ReasonBusy || f.RetryAfter <= 0 {
			t.Errorf("got %v, want %s with a time to wait", err, exchange.ReasonBusy)
		}
		_ = open[0].Close()
		synctest.Wait()
		if _, err := up.Open(t.Context(), legacyClient(negotiate.Rev20250618, nil)); err != nil {
			t.Errorf("after one has been closed: %v", err)
		}
		_ = up.Close()
		wait()
	})
}

// The shared connection is made again, at once the first time and then ever more slowly.
func TestRestartPace(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, up *upstream.Upstream, made chan *wire) {
		go func() {
			for w := range made {
				w.read()
				w.say(discoverModern)
				_ = w.Close()
			}
		}()
		var waits []time.Duration
		for range 10 {
			start := time.Now()
			if _, err := up.Open(t.Context(), modernClient); err != nil {
				t.Fatal(err)
			}
			waits = append(waits, since(start))
			synctest.Wait()
		}
		equal(t, "waits", fmt.Sprint(waits), "[0s 0s 100ms 200ms 400ms 800ms 1.6s 3.2s 6.4s 10s]")
		time.Sleep(time.Minute)
		start := time.Now()
		if _, err := up.Open(t.Context(), modernClient); err != nil {
			t.Fatal(err)
		}
		equal(t, "after a minute", since(start), 0)
		close(made)
	})
}

// The operator's word replaces the probe.
func TestEraOption(t *testing.T) {
	inBubble(t, &upstream.Options{Era: "legacy"}, func(t *testing.T, up *upstream.Upstream, made chan *wire) {
		v, err := up.Probe(t.Context())
		equal(t, "error", reason(err), "")
		equal(t, "served", v.Served, negotiate.Legacy)
		equal(t, "connections", len(made), 0)
	})
	inBubble(t, &upstream.Options{Era: "modern"}, func(t *testing.T, up *upstream.Upstream, made chan *wire) {
		go func() { w := <-made; w.read(); w.say(discoverBoth) }()
		v, err := up.Probe(t.Context())
		equal(t, "error", reason(err), "")
		equal(t, "served", v.Served, negotiate.Modern)
	})
	inBubble(t, &upstream.Options{Era: "modern"}, func(t *testing.T, up *upstream.Upstream, made chan *wire) {
		go func() { w := <-made; w.read(); w.say(discoverRefused) }()
		_, err := up.Probe(t.Context())
		equal(t, "error", reason(err), exchange.ReasonVersion)
	})
}

// A server that offers both eras and then does not know initialize is modern-only from then on
// (translation.md 12); one that refuses a client for another reason is not.
func TestDualEraWithoutHandshake(t *testing.T) {
	for _, test := range []struct {
		code   int
		reason string
		served negotiate.Set
	}{
		{-32601, exchange.ReasonEra, negotiate.Modern},
		{-32602, "m (code -32602)", negotiate.All},
	} {
		t.Run(fmt.Sprint(test.code), func(t *testing.T) {
			inBubble(t, nil, func(t *testing.T, up *upstream.Upstream, made chan *wire) {
				go func() {
					probed := <-made
					probed.read()
					probed.say(discoverBoth)
					w := <-made
					w.read()
					w.say(fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"error":{"code":%d,"message":"m"}}`, test.code))
				}()
				_, err := up.Open(t.Context(), legacyClient(negotiate.Rev20250618, nil))
				equal(t, "error", reason(err), test.reason)
				v, _ := up.Probe(t.Context())
				equal(t, "served", v.Served, test.served)
			})
		})
	}
}

// A verdict that rests on an end at the probe goes when the handshake ends the same way: the server was
// just not able to start.
func TestVerdictOfAServerThatCannotStart(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, up *upstream.Upstream, made chan *wire) {
		go func() {
			for range 2 {
				w := <-made
				w.read()
				_ = w.Close()
			}
			w := <-made
			w.read()
			w.say(discoverModern)
		}()
		_, err := up.Open(t.Context(), legacyClient(negotiate.Rev20250618, nil))
		equal(t, "error", reason(err), exchange.ReasonUnavailable)
		_, err = up.Open(t.Context(), modernClient)
		equal(t, "when it can", reason(err), "")
	})
}
