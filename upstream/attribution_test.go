package upstream_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/exchange/exchangetest"
	"github.com/mcp-dualstack/bridge/upstream"
)

// asker answers nothing until ctx ends or a response is given to it.
func asker(answers chan exchange.Response) *exchangetest.Peer {
	return &exchangetest.Peer{Answer: func(ctx context.Context, _ exchange.Request) (exchange.Response, error) {
		select {
		case r := <-answers:
			return r, nil
		case <-ctx.Done():
			return exchange.Response{}, context.Cause(ctx)
		}
	}}
}

func TestServerRequests(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, up *upstream.Upstream, made chan *wire) {
		standing := make(chan exchange.Response, 1)
		s, w := openLegacy(t, up, made, asker(standing))

		w.say(`{"jsonrpc":"2.0","id":"p-1","method":"ping"}`)
		equal(t, "ping", w.read(), `{"jsonrpc":"2.0","id":"p-1","result":{}}`)

		w.say(`{"jsonrpc":"2.0","id":1,"method":"roots/list"}`)
		standing <- exchange.Response{Result: []byte(`{"roots":[1.0]}`)}
		equal(t, "unsolicited", w.read(), `{"jsonrpc":"2.0","id":1,"result":{"roots":[1.0]}}`)

		w.say(`{"jsonrpc":"2.0","id":2,"method":"roots/list"}`,
			`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}`,
			`{"jsonrpc":"2.0","id":3,"method":"ping"}`)
		equal(t, "a withdrawn question needs no answer", w.read(), `{"jsonrpc":"2.0","id":3,"result":{}}`)

		first, second := call(s, "a", "", asker(nil)), call(s, "b", "", asker(nil))
		w.read()
		w.read()
		w.say(`{"jsonrpc":"2.0","id":4,"method":"roots/list"}`)
		standing <- exchange.Response{Error: &exchange.Error{Code: -1, Message: "standing"}}
		equal(t, "several calls in flight", w.read(), `{"jsonrpc":"2.0","id":4,"error":{"code":-1,"message":"standing"}}`)
		w.say(`{"jsonrpc":"2.0","id":3,"result":{}}`, `{"jsonrpc":"2.0","id":4,"result":{}}`)
		<-first.done
		<-second.done
	})
}

// The end of a call withdraws what was asked because of it. When the client cancelled, the cancellation
// comes first (contract 3, translation.md 7.3.6).
func TestQuestionsOfAnEndedCall(t *testing.T) {
	const question = `{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{}}`
	t.Run("answered", func(t *testing.T) {
		inBubble(t, nil, func(t *testing.T, up *upstream.Upstream, made chan *wire) {
			s, w := openLegacy(t, up, made, nil)
			p := call(s, "a", "", asker(nil))
			w.read()
			w.say(question, `{"jsonrpc":"2.0","id":3,"result":{}}`)
			equal(t, "answer", w.read(), `{"jsonrpc":"2.0","id":"q","result":{"action":"cancel"}}`)
			<-p.done
		})
	})
	t.Run("cancelled", func(t *testing.T) {
		inBubble(t, nil, func(t *testing.T, up *upstream.Upstream, made chan *wire) {
			s, w := openLegacy(t, up, made, nil)
			gone := make(chan struct{})
			peer := &exchangetest.Peer{Answer: func(context.Context, exchange.Request) (exchange.Response, error) {
				<-gone // the client leaves before its call is told
				return exchange.Response{}, &exchange.CancelError{Reason: "left"}
			}}
			p := call(s, "a", "", peer)
			w.read()
			w.say(question)
			synctest.Wait()
			close(gone)
			synctest.Wait()
			p.cancel(&exchange.CancelError{})
			equal(t, "first", w.read(), `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":3}}`)
			equal(t, "then", w.read(), `{"jsonrpc":"2.0","id":"q","result":{"action":"cancel"}}`)
			<-p.done
		})
	})
}

func TestAnswersWithoutAClient(t *testing.T) {
	for _, test := range []struct {
		name string
		err  error
		want string
	}{
		{"timeout", exchange.Fail(exchange.ReasonClientTimeout, nil), `{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"the client did not answer in time","data":{"bridge":{"reason":"client_timeout"}}}}`},
		{"no channel", exchange.Fail(exchange.ReasonNoChannel, nil), `{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"the client has no open stream on which it could be asked","data":{"bridge":{"reason":"no_client_channel"}}}}`},
		{"refused", &exchange.Error{Code: -5, Message: "m"}, `{"jsonrpc":"2.0","id":1,"error":{"code":-5,"message":"m"}}`},
		{"other", errors.New("x"), `{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"client did not answer"}}`},
	} {
		t.Run(test.name, func(t *testing.T) {
			inBubble(t, nil, func(t *testing.T, up *upstream.Upstream, made chan *wire) {
				_, w := openLegacy(t, up, made, &exchangetest.Peer{Answer: func(context.Context, exchange.Request) (exchange.Response, error) {
					return exchange.Response{}, test.err
				}})
				w.say(`{"jsonrpc":"2.0","id":1,"method":"sampling/createMessage","params":{}}`)
				equal(t, "answer", w.read(), test.want)
			})
		})
	}
}

func TestMaxQuestions(t *testing.T) {
	inBubble(t, &upstream.Options{MaxQuestions: 2}, func(t *testing.T, up *upstream.Upstream, made chan *wire) {
		answers := make(chan exchange.Response, 3)
		_, w := openLegacy(t, up, made, asker(answers))
		for _, id := range []string{"1", "2", "3"} {
			w.say(`{"jsonrpc":"2.0","id":` + id + `,"method":"roots/list"}`)
		}
		equal(t, "one too many", w.read(), `{"jsonrpc":"2.0","id":3,"error":{"code":-32603,"message":"too many requests to the client wait for an answer","data":{"bridge":{"reason":"too_many_questions"}}}}`)
		answers <- exchange.Response{Result: []byte("{}")}
		w.read()
		w.say(`{"jsonrpc":"2.0","id":4,"method":"roots/list"}`)
		answers <- exchange.Response{Result: []byte(`{"n":4}`)}
		answers <- exchange.Response{Result: []byte(`{"n":4}`)}
		w.read()
		w.read()
	})
}

// On the connection that modern clients share nothing goes to anyone unless it is certainly theirs.
func TestModernAttribution(t *testing.T) {
	const logged = `{"_meta":{"io.modelcontextprotocol/logLevel":"info"}}`
	const message = `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info"}}`
	inBubble(t, nil, func(t *testing.T, up *upstream.Upstream, made chan *wire) {
		s, w := openModern(t, up, made)
		count := func(p *pending, want int) {
			t.Helper()
			synctest.Wait()
			equal(t, "notes", len(p.peer.Notes()), want)
		}
		listen := call(s, "subscriptions/listen", `{"notifications":{}}`, &exchangetest.Peer{})
		w.read() // id 2
		w.say(`{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":2}}}`,
			`{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":2}}}`,
			`{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":9}}}`,
			`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
		count(listen, 2)

		only := call(s, "tools/call", logged, &exchangetest.Peer{})
		w.read() // id 3
		w.say(message)
		count(only, 1)
		silent := call(s, "tools/call", `{}`, &exchangetest.Peer{})
		w.read() // id 4
		w.say(message)
		count(only, 1)
		count(silent, 0)
		w.say(`{"jsonrpc":"2.0","id":3,"result":{}}`, message)
		count(silent, 0) // it asked for no log

		silent.cancel(context.Canceled)
		w.read()
		next := call(s, "tools/call", logged, &exchangetest.Peer{})
		w.read() // id 5
		w.say(message)
		count(next, 0) // may be the cancelled call's
		w.say(`{"jsonrpc":"2.0","id":4,"error":{"code":0,"message":"cancelled"}}`, message)
		count(next, 1)

		w.say(`{"jsonrpc":"2.0","id":"x","method":"elicitation/create","params":{}}`)
		equal(t, "a server's request", w.read(), `{"jsonrpc":"2.0","id":"x","error":{"code":-32601,"message":"Method not found: a client of 2026-07-28 answers no requests"}}`)

		w.say(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":5}}`,
			`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}`)
		got, err := listen.wait()
		equal(t, "end of the listen", got, `{"resultType":"complete"}`)
		equal(t, "error", reason(err), "")
		w.say(`{"jsonrpc":"2.0","id":2,"result":{}}`, `{"jsonrpc":"2.0","id":5,"result":{"n":5}}`)
		got, _ = next.wait()
		equal(t, "other call", got, `{"n":5}`)
	})
}

// Closing one client's session cancels its calls and leaves the shared connection to the others.
func TestModernClose(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, up *upstream.Upstream, made chan *wire) {
		s, w := openModern(t, up, made)
		other, err := up.Open(t.Context(), modernClient)
		if err != nil {
			t.Fatal(err)
		}
		mine, others := call(s, "a", "", nil), (*pending)(nil)
		w.read()
		others = call(other, "b", "", nil)
		w.read()
		_ = s.Close()
		_, err = mine.wait()
		equal(t, "closed", reason(err), exchange.ReasonClosed)
		equal(t, "cancellation", w.read(), `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}`)
		w.say(`{"jsonrpc":"2.0","id":3,"result":{}}`)
		_, err = others.wait()
		equal(t, "other", reason(err), "")
	})
}
