package session_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/internal/session"
)

// asking is a server whose every call puts the question req and keeps the answer.
type asking struct {
	script
	answer exchange.Response
	err    error
}

func newAsking(req exchange.Request) *asking {
	a := &asking{}
	a.call = func(ctx context.Context, r exchange.Request, back exchange.Peer) (exchange.Response, error) {
		r.Sent()
		a.answer, a.err = back.Call(ctx, req)
		return exchange.Response{Result: []byte(`{}`)}, ctx.Err()
	}
	return a
}

var listRoots = exchange.Request{Method: "roots/list"}

const (
	rootsQuestion  = `{"jsonrpc":"2.0","id":1,"method":"roots/list"}`
	rootsWithdrawn = `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`
	answered       = `{"jsonrpc":"2.0","id":9,"result":{}}`
)

func TestQuestion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAsking(listRoots)
		s, standing := begun(t, a, nil)
		var out outlet
		request(t, s, "9", "tools/call", &out)
		synctest.Wait()
		out.want(t, rootsQuestion)
		s.Handle(message(t, `{"jsonrpc":"2.0","id":2,"result":{"other":1}}`), nil) // never asked
		s.Handle(message(t, `{"jsonrpc":"2.0","id":1,"result":{"roots":[ ]}}`), nil)
		s.Handle(message(t, `{"jsonrpc":"2.0","id":1,"result":{"again":1}}`), nil)
		synctest.Wait()
		if string(a.answer.Result) != `{"roots":[ ]}` || a.err != nil {
			t.Errorf("got %s, %v, want the roots", a.answer.Result, a.err)
		}
		out.want(t, answered)
		standing.want(t)
	})
}

func TestQuestionIsAnsweredWithAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAsking(listRoots)
		s, _ := begun(t, a, nil)
		request(t, s, "9", "tools/call", &outlet{})
		synctest.Wait()
		s.Handle(message(t, `{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"no","x":1}}`), nil)
		synctest.Wait()
		if a.answer.Error == nil || string(a.answer.Error.Raw) != `{"code":-32601,"message":"no","x":1}` {
			t.Errorf("got %+v, want the error as it was", a.answer.Error)
		}
	})
}

func TestQuestionTimesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAsking(listRoots)
		s, _ := begun(t, a, func(o *session.Options) { o.AskTimeout = time.Minute })
		var out outlet
		request(t, s, "9", "tools/call", &out)
		time.Sleep(time.Minute)
		synctest.Wait()
		out.want(t, rootsQuestion, rootsWithdrawn, answered)
		if f, ok := errors.AsType[*exchange.Failure](a.err); !ok || f.Reason != exchange.ReasonClientTimeout {
			t.Errorf("got %v, want %s", a.err, exchange.ReasonClientTimeout)
		}
	})
}

// The questions of a cancelled call are taken back before the call ends, whatever the server does with
// its own contexts (translation.md 6.3).
func TestCancelWithdrawsTheQuestion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := make(chan error, 1)
		h := &script{call: func(ctx context.Context, req exchange.Request, back exchange.Peer) (exchange.Response, error) {
			req.Sent()
			go func() {
				_, err := back.Call(context.Background(), listRoots)
				asked <- err
			}()
			<-ctx.Done()
			return exchange.Response{}, context.Cause(ctx)
		}}
		s, _ := begun(t, h, nil)
		var out outlet
		request(t, s, "9", "tools/call", &out)
		synctest.Wait()
		cancelID(t, s, "9")
		synctest.Wait()
		out.want(t, rootsQuestion, rootsWithdrawn, "-")
		if err := <-asked; err == nil {
			t.Error("the question has an answer, want an error")
		}
	})
}

// A question can outlive the call it came with: on stdio it may only look as if it belonged to it.
func TestQuestionOutlivesItsCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := make(chan exchange.Response, 1)
		h := &script{call: func(_ context.Context, req exchange.Request, back exchange.Peer) (exchange.Response, error) {
			put := make(chan struct{})
			go func() {
				r, _ := back.Call(context.Background(), exchange.Request{Method: "roots/list", Sent: func() { close(put) }})
				asked <- r
			}()
			<-put
			return exchange.Response{}, nil
		}}
		s, _ := begun(t, h, nil)
		var out outlet
		request(t, s, "9", "tools/list", &out)
		synctest.Wait()
		out.want(t, rootsQuestion, answered)
		s.Handle(message(t, `{"jsonrpc":"2.0","id":1,"result":{"roots":[]}}`), nil)
		if r := <-asked; string(r.Result) != `{"roots":[]}` {
			t.Errorf("got %s, want the roots", r.Result)
		}
	})
}

// After its call there is no stream for a question.
func TestQuestionAfterItsCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var kept exchange.Peer
		h := &script{call: func(_ context.Context, _ exchange.Request, back exchange.Peer) (exchange.Response, error) {
			kept = back
			return exchange.Response{}, nil
		}}
		s, _ := begun(t, h, nil)
		var out outlet
		request(t, s, "9", "tools/call", &out)
		synctest.Wait()
		_, err := kept.Call(t.Context(), listRoots)
		if f, ok := errors.AsType[*exchange.Failure](err); !ok || f.Reason != exchange.ReasonNoChannel {
			t.Errorf("got %v, want %s", err, exchange.ReasonNoChannel)
		}
		out.want(t, answered)
	})
}

func TestQuestionEndsWithTheSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAsking(listRoots)
		s, _ := begun(t, a, nil)
		var out outlet
		request(t, s, "9", "tools/call", &out)
		synctest.Wait()
		s.Close(nil)
		out.want(t, rootsQuestion, "-")
		if a.err == nil {
			t.Error("got no error")
		}
	})
}

func TestStandingQuestionAndNote(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &script{}
		s, standing := begun(t, h, nil)
		back := h.client(t, 1).Back
		go func() { _, _ = back.Call(t.Context(), listRoots) }()
		synctest.Wait()
		if err := back.Notify(t.Context(), exchange.Request{Method: "notifications/tools/list_changed"}); err != nil {
			t.Error(err)
		}
		standing.want(t, rootsQuestion, `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
		s.Close(nil)
	})
}

func TestDroppedNoteIsObserved(t *testing.T) {
	h := &script{}
	var seen []exchange.Observation
	_, standing := begun(t, h, func(o *session.Options) { o.Observe = func(x exchange.Observation) { seen = append(seen, x) } })
	standing.err = errCrash
	if err := h.client(t, 1).Back.Notify(t.Context(), exchange.Request{Method: "x"}); err != errCrash {
		t.Errorf("got %v, want %v", err, errCrash)
	}
	if len(seen) != 1 || seen[0].Kind != exchange.SeenDropped || seen[0].Detail != "x" {
		t.Errorf("observed %+v, want one dropped x", seen)
	}
}

func TestUndeclaredCapabilities(t *testing.T) {
	url := []byte(`{"mode":"url"}`)
	for _, c := range []struct {
		name         string
		capabilities string
		req          exchange.Request
		want         int // code of the refusal, 0: asked
	}{
		{"roots", `{"roots":{}}`, listRoots, 0},
		{"roots undeclared", `{}`, listRoots, -32601},
		{"roots null", `{"roots":null}`, listRoots, -32601},
		{"sampling", `{"sampling":{}}`, exchange.Request{Method: "sampling/createMessage"}, 0},
		{"sampling with tools", `{"sampling":{"tools":{}}}`, exchange.Request{Method: "sampling/createMessage", Params: []byte(`{"tools":[]}`)}, 0},
		{"sampling with tools undeclared", `{"sampling":{}}`, exchange.Request{Method: "sampling/createMessage", Params: []byte(`{"tools":[]}`)}, -32602},
		{"sampling undeclared", `{"roots":{}}`, exchange.Request{Method: "sampling/createMessage"}, -32601},
		{"elicitation undeclared", `{}`, exchange.Request{Method: "elicitation/create"}, -32601},
		{"form by an empty object", `{"elicitation":{}}`, exchange.Request{Method: "elicitation/create"}, 0},
		{"form declared", `{"elicitation":{"form":{}}}`, exchange.Request{Method: "elicitation/create"}, 0},
		{"url not declared", `{"elicitation":{"form":{}}}`, exchange.Request{Method: "elicitation/create", Params: url}, -32602},
		{"url by an empty object", `{"elicitation":{}}`, exchange.Request{Method: "elicitation/create", Params: url}, -32602},
		{"url declared", `{"elicitation":{"url":{}}}`, exchange.Request{Method: "elicitation/create", Params: url}, 0},
		{"form beside url only", `{"elicitation":{"url":{}}}`, exchange.Request{Method: "elicitation/create"}, -32602},
		{"something else", `{}`, exchange.Request{Method: "x/y"}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := newAsking(c.req)
				s, _ := start(t, a, nil)
				init := message(t, `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":`+c.capabilities+`}}`)
				if response, ok := s.Initialize(t.Context(), init); !ok {
					t.Fatalf("initialize: %s", response)
				}
				request(t, s, "9", "tools/call", &outlet{})
				synctest.Wait()
				s.Handle(message(t, `{"jsonrpc":"2.0","id":1,"result":{}}`), nil)
				synctest.Wait()
				got := 0
				if a.answer.Error != nil {
					got = a.answer.Error.Code
				}
				if got != c.want {
					t.Errorf("got %d, want %d", got, c.want)
				}
			})
		})
	}
}
