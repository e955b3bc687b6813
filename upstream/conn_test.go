package upstream_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/exchange/exchangetest"
	"github.com/mcp-dualstack/bridge/negotiate"
	"github.com/mcp-dualstack/bridge/upstream"
)

func TestWire(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, up *upstream.Upstream, made chan *wire) {
		s, w := openLegacy(t, up, made, nil)
		p := call(s, "tools/call", `{"name":"x","_meta":{"progressToken":"abc","k":1.0}}`, &exchangetest.Peer{})
		equal(t, "request", w.read(), `{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"x","_meta":{"progressToken":"p3","k":1.0}}}`)
		w.say(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"p3","progress":1}}`,
			`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"abc","progress":2}}`,
			`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"p2","progress":3}}`,
			"{\"jsonrpc\":\"2.0\",\"result\":{ \"a\" : 1.0 },\"id\":3}\r")
		got, err := p.wait()
		equal(t, "result", got, `{ "a" : 1.0 }`)
		equal(t, "error", reason(err), "")
		notes := p.peer.Notes()
		equal(t, "notes", len(notes), 1)
		equal(t, "note", string(notes[0].Params), `{"progressToken":"abc","progress":1}`)
		w.say(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"p3","progress":4}}`, `{"jsonrpc":"2.0","id":3,"result":{}}`)
		synctest.Wait()
		equal(t, "notes after the end", len(p.peer.Notes()), 1)

		p = call(s, "tools/list", "", &exchangetest.Peer{})
		equal(t, "without params", w.read(), `{"jsonrpc":"2.0","id":4,"method":"tools/list"}`)
		w.say(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"p4","progress":1}}`) // asked for by nobody
		w.say(`{"jsonrpc":"2.0","id":4,"error":{"code":-32099,"message":"m","x":1.0}}`)
		got, _ = p.wait()
		equal(t, "error object", got, `{"code":-32099,"message":"m","x":1.0}`)
		equal(t, "notes without a token", len(p.peer.Notes()), 0)
	})
}

// Only LF ends a message; whatever else is on the stream is skipped (R27, R29).
func TestNoise(t *testing.T) {
	inBubble(t, &upstream.Options{MaxMessageBytes: 1 << 20}, func(t *testing.T, up *upstream.Upstream, made chan *wire) {
		back := &exchangetest.Peer{}
		s, w := openLegacy(t, up, made, back)
		p := call(s, "tools/list", "", &exchangetest.Peer{})
		w.read()
		for _, noise := range []string{
			"", "  ", "Server started on stdio", "{broken", "42", "{}", "null", `"x"`, "[]",
			`{"id":3,"level":"info","msg":"starting"}`, `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"?"}}`,
			`{"jsonrpc":"2.0","id":77,"result":{}}`, "\xff\xfe",
			strings.Repeat("junk", 1<<18), strings.Repeat("j", 1<<21),
		} {
			w.say(noise)
		}
		w.say("{\"jsonrpc\":\"2.0\",\"id\":3,\"result\":{\"t\":\"a\u2028b\u2029c\u0085d\\u000be\"}}")
		got, err := p.wait()
		equal(t, "result", got, "{\"t\":\"a\u2028b\u2029c\u0085d\\u000be\"}")
		equal(t, "error", reason(err), "")
		equal(t, "notes", len(back.Notes())+len(p.peer.Notes()), 0)
	})
}

// A message over the limit, or one that cannot be read, fails only the request it answers (R25, R39).
func TestSpoiltAnswers(t *testing.T) {
	long := strings.Repeat("x", 70_000)
	for _, test := range []struct{ name, line string }{
		{"too long, id first", `{"jsonrpc":"2.0","id":3,"result":{"t":"` + long + `"}}`},
		{"too long, id last", `{"jsonrpc":"2.0","result":{"t":"` + long + `","id":4},"id":3}`},
		{"too long, id before jsonrpc", `{"result":{"t":"` + long + `"},"id":3 , "jsonrpc" : "2.0"}`},
		{"far too long, id last", `{"jsonrpc":"2.0","result":{"t":"` + strings.Repeat(long, 10) + `"},"id":3}`},
		{"invalid UTF-8", "{\"jsonrpc\":\"2.0\",\"id\":3,\"result\":{\"t\":\"\xff\"}}"},
		{"broken", `{"jsonrpc":"2.0","id":3,"result":{"t":`},
		{"duplicate result", `{"jsonrpc":"2.0","id":3,"result":{},"result":{}}`},
		{"wrong version", `{"jsonrpc":"1.0","id":3,"result":{}}`},
		{"error is no object", `{"jsonrpc":"2.0","id":3,"error":"no"}`},
		{"neither result nor error", `{"jsonrpc":"2.0","id":3}`},
		{"id as a string", `{"jsonrpc":"2.0","id":"3","result":{}}`},
		{"id with a fraction of nothing", `{"jsonrpc":"2.0","id":3.0,"result":{}}`},
		{"result is a string", `{"jsonrpc":"2.0","id":3,"result":"done"}`},
		{"result is null", `{"jsonrpc":"2.0","id":3,"result":null}`},
		{"result is an array", `{"jsonrpc":"2.0","id":3,"result":[1]}`},
		{"error is empty", `{"jsonrpc":"2.0","id":3,"error":{}}`},
		{"error without a message", `{"jsonrpc":"2.0","id":3,"error":{"code":-32603,"message":5}}`},
		{"error with a code that is none", `{"jsonrpc":"2.0","id":3,"error":{"code":"x","message":"m"}}`},
		{"in an array that 2025-06-18 does not have", `[{"jsonrpc":"2.0","id":3,"result":{}}]`},
	} {
		t.Run(test.name, func(t *testing.T) {
			inBubble(t, &upstream.Options{MaxMessageBytes: 64 << 10}, func(t *testing.T, up *upstream.Upstream, made chan *wire) {
				s, w := openLegacy(t, up, made, nil)
				spoilt, other := call(s, "tools/list", "", nil), (*pending)(nil)
				w.read()
				other = call(s, "prompts/list", "", nil)
				w.read()
				w.say(test.line)
				_, err := spoilt.wait()
				equal(t, "spoilt call", reason(err), exchange.ReasonInvalid)
				public := exchange.PublicError(err)
				equal(t, "what the client is told", fmt.Sprint(public.Code, " ", string(public.Data)), `-32603 {"bridge":{"reason":"upstream_invalid"}}`)
				w.say(`{"jsonrpc":"2.0","id":4,"result":{}}`)
				got, err := other.wait()
				equal(t, "other call", got, "{}")
				equal(t, "other call's error", reason(err), "")
			})
		})
	}
}

func TestCancellationOnTheWire(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, up *upstream.Upstream, made chan *wire) {
		s, w := openLegacy(t, up, made, nil)
		p := call(s, "tools/call", `{"_meta":{"progressToken":1}}`, &exchangetest.Peer{})
		w.read()
		cause := &exchange.CancelError{Reason: "no \"need\""}
		p.cancel(cause)
		_, err := p.wait() // nobody reads: the call ends all the same
		if !errors.Is(err, cause) {
			t.Errorf("got %v, want %v", err, cause)
		}
		equal(t, "cancellation", w.read(), `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":3,"reason":"no \"need\""}}`)
		w.say(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"p3","progress":4}}`, `{"jsonrpc":"2.0","id":3,"result":{}}`)
		synctest.Wait()
		equal(t, "notes after the cancellation", len(p.peer.Notes()), 0)
	})
}

// A server that never reads holds nobody up who wants to leave, and the queue towards it is bounded.
func TestServerThatDoesNotRead(t *testing.T) {
	inBubble(t, &upstream.Options{MaxQueueBytes: 1000}, func(t *testing.T, up *upstream.Upstream, made chan *wire) {
		s, w := openLegacy(t, up, made, nil)
		big := `{"t":"` + strings.Repeat("x", 900) + `"}`
		var sent, calls []*pending
		for range 4 {
			calls = append(calls, call(s, "tools/call", big, nil))
			synctest.Wait()
		}
		sent = calls[:1]
		for _, p := range calls {
			p.cancel(context.Canceled)
			if _, err := p.wait(); !errors.Is(err, context.Canceled) {
				t.Errorf("got %v, want %v", err, context.Canceled)
			}
		}
		for range sent {
			if line := w.read(); !strings.Contains(line, `"tools/call"`) {
				t.Errorf("got %.60s, want the call", line)
			}
		}
		equal(t, "then", w.read(), `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":3}}`)
		p := call(s, "ping2", "", nil)
		equal(t, "calls that found no room are not sent", w.read(), `{"jsonrpc":"2.0","id":7,"method":"ping2"}`)
		w.say(`{"jsonrpc":"2.0","id":7,"result":{}}`)
		if _, err := p.wait(); err != nil {
			t.Error(err)
		}
	})
}

// A server that asks without end and never reads is cut off.
func TestAnswersThatPileUp(t *testing.T) {
	inBubble(t, &upstream.Options{MaxAnswerBytes: 2000}, func(t *testing.T, up *upstream.Upstream, made chan *wire) {
		s, w := openLegacy(t, up, made, nil)
		go func() {
			for range 1000 {
				w.say(`{"jsonrpc":"2.0","id":1,"method":"ping"}`)
			}
		}()
		<-s.Done()
		_, err := s.Call(t.Context(), exchange.Request{Method: "tools/list"}, nil)
		equal(t, "call", reason(err), exchange.ReasonLost)
	})
}

func TestBatchesFromUpstream(t *testing.T) {
	for _, test := range []struct {
		version string
		want    string
	}{{"2025-03-26", "{}"}, {"2024-11-05", "{}"}, {"2025-06-18", ""}} {
		t.Run(test.version, func(t *testing.T) {
			inBubble(t, &upstream.Options{Era: "legacy"}, func(t *testing.T, up *upstream.Upstream, made chan *wire) {
				ready := make(chan *wire)
				go func() {
					w := <-made
					w.read()
					w.say(initializeResult(1, test.version))
					ready <- w
				}()
				s, err := up.Open(t.Context(), legacyClient(negotiate.Rev20251125, nil))
				if err != nil {
					t.Fatal(err)
				}
				w := <-ready
				defer w.Close()
				equal(t, "revision", s.Server().Revision.String(), test.version)
				p := call(s, "tools/list", "", &exchangetest.Peer{})
				equal(t, "first", w.read(), `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
				w.read()
				w.say(`[{"jsonrpc":"2.0","method":"notifications/message","params":{}},{"jsonrpc":"2.0","id":2,"result":{}}]`,
					`{"jsonrpc":"2.0","id":2,"result":{"late":1}}`)
				got, err := p.wait()
				equal(t, "result", got, test.want)
				equal(t, "refused", reason(err) == exchange.ReasonInvalid, test.want == "")
			})
		})
	}
}

// A server may answer, stop reading and leave: what it said counts.
func TestAnswerBeforeTheEnd(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, up *upstream.Upstream, made chan *wire) {
		s, w := openLegacy(t, up, made, nil)
		answered, lost := call(s, "a", "", nil), (*pending)(nil)
		w.read()
		lost = call(s, "b", "", nil)
		w.read()
		w.say(`{"jsonrpc":"2.0","id":3,"result":{}}`)
		_ = w.Close()
		got, err := answered.wait()
		equal(t, "answered", got, "{}")
		equal(t, "error", reason(err), "")
		_, err = lost.wait()
		equal(t, "not answered", reason(err), exchange.ReasonLost)
		<-s.Done()
	})
}

func TestSessionCloseCancels(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, up *upstream.Upstream, made chan *wire) {
		s, w := openLegacy(t, up, made, nil)
		p := call(s, "a", "", nil)
		w.read()
		go func() { _ = s.Close() }()
		equal(t, "last word", w.read(), `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":3}}`)
		equal(t, "then", w.read(), "")
		_, err := p.wait()
		equal(t, "call", reason(err), exchange.ReasonClosed)
		select {
		case <-s.Done():
			t.Error("Done is closed though the server did not end by itself")
		default:
		}
	})
}

// A server that does not take the last word is hung up on after the grace time.
func TestCloseIsBounded(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, up *upstream.Upstream, made chan *wire) {
		s, w := openLegacy(t, up, made, nil)
		p := call(s, "a", "", nil)
		synctest.Wait()
		start := time.Now()
		_ = up.Close()
		equal(t, "took", since(start), 2*time.Second)
		_, err := p.wait()
		equal(t, "call", reason(err), exchange.ReasonClosed)
		_, err = up.Open(t.Context(), modernClient)
		equal(t, "Open after Close", reason(err), exchange.ReasonClosed)
		equal(t, "second Close", up.Close(), nil)
		_ = w.Close()
	})
}
