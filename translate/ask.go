package translate

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
)

// handingOver is how long a question that waits for a stream holds back the next.
const handingOver = 250 * time.Millisecond

// An input is one entry of inputRequests (2026-07-28 schema, InputRequest) with its answer.
type input struct {
	key    string
	method string
	params []byte // in the words of the client's revision, nil for none
	url    string // of a URL elicitation, otherwise empty
	id     string // the client knows a URL elicitation by
	lacks  string // the capability that is missing for it, or what the revision has no words for; empty: none
	answer []byte // raw InputResponse
}

// readInputs reads InputRequests in document order. Absent and null are none. The error is upstream_invalid.
func (t *trip) readInputs(raw []byte) ([]*input, error) {
	if jsonrpc.IsNull(raw) {
		return nil, nil
	}
	if !jsonrpc.IsObject(raw) {
		return nil, exchange.Fail(exchange.ReasonInvalid, errors.New("inputRequests is not an object"))
	}
	var asked []*input
	var err error
	most := t.d.h.o.Drive.MaxQuestions
	jsonrpc.Members(raw, func(key string, v []byte) bool {
		var in *input
		if in, err = t.readInput(key, v); err != nil {
			return false
		}
		asked = append(asked, in)
		return len(asked) <= most
	})
	if len(asked) > most {
		t.d.h.o.Drive.reached(BoundQuestions)
		err = exchange.Fail(exchange.ReasonInvalid, fmt.Errorf("more than %d input requests in one round", most))
	}
	return asked, err
}

func (t *trip) readInput(key string, raw []byte) (*input, error) {
	in := &input{key: key, params: withoutReserved(jsonrpc.Get(raw, "params"))}
	in.method, _ = jsonrpc.String(jsonrpc.Get(raw, "method"))
	if in.method != "roots/list" && !jsonrpc.IsObject(in.params) {
		return nil, exchange.Fail(exchange.ReasonInvalid, fmt.Errorf("input request %.40q has no params", in.method))
	}
	caps := t.d.caps
	switch in.method {
	case "roots/list":
		in.need("roots", caps.roots)
	case "sampling/createMessage":
		in.need("sampling", caps.sampling)
		in.need("sampling.tools", caps.tools || jsonrpc.IsNull(jsonrpc.Get(in.params, "tools")) && jsonrpc.IsNull(jsonrpc.Get(in.params, "toolChoice")))
	case "elicitation/create":
		if is(jsonrpc.Get(in.params, "mode"), "url") {
			in.url, _ = jsonrpc.String(jsonrpc.Get(in.params, "url"))
			in.need("elicitation.url", caps.url)
			return in, nil
		}
		in.need("elicitation.form", caps.form)
	default:
		return nil, exchange.Fail(exchange.ReasonInvalid, fmt.Errorf("input request %.40q", in.method))
	}
	params, ok := t.d.pay.question(in.method, in.params)
	if in.params = params; !ok && in.lacks == "" {
		in.lacks = multiSelect
	}
	return in, nil
}

// multiSelect stands for a form field of several choices, which is no capability.
const multiSelect = "[]"

func (in *input) need(capability string, declared bool) {
	if !declared && in.lacks == "" {
		in.lacks = capability
	}
}

// allGiven reports whether there is nothing to ask: no question at all, or only URLs that the user has been given
// before. These are answered as they were then.
func (t *trip) allGiven(asked []*input) bool {
	all := true
	for _, in := range asked {
		if _, given := t.given[in.url]; given && in.url != "" {
			in.answer = []byte(`{"action":"accept"}`)
			continue
		}
		all = false
	}
	return all
}

// ask puts the questions that have no answer yet to the client, in document order and all at once. It first sees
// whether all of them can be put; if not, or if one gets no answer that the server understands, the
// others are taken back and the trip ends.
func (t *trip) ask(ctx context.Context, asked []*input) (end *exchange.Response, err error) {
	for _, in := range asked {
		if in.lacks != "" {
			return t.fail(exchange.ReasonNoCapability, t.lacking(in.lacks)), nil
		}
	}
	asking, giveUp := context.WithCancelCause(ctx)
	defer giveUp(nil)
	var wg sync.WaitGroup // Peer.Call returns at once when asking ends
	for _, in := range asked {
		if in.answer != nil {
			continue
		}
		sent := make(chan struct{})
		wg.Go(func() {
			over := sync.OnceFunc(func() { close(sent) })
			defer over()
			if err := t.put(asking, in, over); err != nil {
				giveUp(err)
			}
		})
		hold(asking, sent)
	}
	wg.Wait()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if fault, ok := errors.AsType[*unanswered](context.Cause(asking)); ok {
		return t.fail(fault.reason, fault.text), nil
	}
	for _, in := range asked {
		if in.url != "" && is(jsonrpc.Get(in.answer, "action"), "accept") {
			t.give(in)
		}
	}
	return nil, nil
}

// hold waits until a question has been handed over, so that the client sees them in order.
func hold(ctx context.Context, sent <-chan struct{}) {
	timer := time.NewTimer(handingOver)
	defer timer.Stop()
	select {
	case <-sent:
	case <-ctx.Done():
	case <-timer.C:
	}
}

func (t *trip) give(in *input) {
	if t.given == nil {
		t.given = make(map[string]string)
	}
	if _, known := t.given[in.url]; !known {
		t.given[in.url] = in.id
	}
}

func (t *trip) lacking(what string) string {
	if what == multiSelect {
		return fmt.Sprintf("%s asks for several choices in one form field; this client speaks %s, which has no such field.",
			subject(t.req.Method, t.req.Params), t.d.client.Revision)
	}
	return lacks(t.d.client.Revision, t.req.Method, t.req.Params, what)
}

// An unanswered question ends the trip: 2026-07-28 has no words for it.
type unanswered struct{ reason, text string }

// Error describes u.
func (u *unanswered) Error() string { return u.reason + ": " + u.text }

// put asks the client one question and keeps its answer.
func (t *trip) put(ctx context.Context, in *input, sent func()) error {
	ctx, cancel := context.WithTimeoutCause(ctx, t.d.h.o.Drive.AskTimeout, exchange.Fail(exchange.ReasonClientTimeout, nil))
	defer cancel()
	req := exchange.Request{Method: in.method, Params: in.params, Sent: sent}
	if in.url != "" {
		req.Params, in.id = withElicitationID(in.params)
	}
	resp, err := t.back.to.Call(ctx, req)
	timeout := reasonOf(err) == exchange.ReasonClientTimeout
	if in.method == "elicitation/create" && (err == nil || timeout) {
		in.answer = elicited(resp)
		return nil
	}
	switch {
	case err != nil && reasonOf(err) == "":
		return &unanswered{exchange.ReasonBridge, t.noAnswer(in, "could not be asked")}
	case err != nil:
		return &unanswered{reasonOf(err), t.noAnswer(in, exchange.PublicError(err).Message)}
	case resp.Error != nil:
		return &unanswered{reasonAnswer, t.noAnswer(in, fmt.Sprintf("it answered with the error %.200q", resp.Error.Message))}
	case !answersInput(in.method, resp.Result):
		return &unanswered{reasonAnswer, t.noAnswer(in, "its answer is not what MCP defines")}
	}
	in.answer = resp.Result
	return nil
}

func (t *trip) noAnswer(in *input, why string) string {
	return fmt.Sprintf("%s asked the client for %s and got none: %s.", subject(t.req.Method, t.req.Params), in.method, why)
}

func reasonOf(err error) string {
	if f, ok := errors.AsType[*exchange.Failure](err); ok {
		return f.Reason
	}
	return ""
}

// elicited returns what the server is told about an elicitation: an ElicitResult as it is, anything else as cancelled.
func elicited(resp exchange.Response) []byte {
	if resp.Error == nil && answersInput("elicitation/create", resp.Result) {
		return resp.Result
	}
	return []byte(`{"action":"cancel"}`)
}

// answersInput reports whether raw has the shape of an answer to the method (2026-07-28 schema, InputResponse).
func answersInput(method string, raw []byte) bool {
	switch method {
	case "roots/list":
		return jsonrpc.IsArray(jsonrpc.Get(raw, "roots"))
	case "sampling/createMessage":
		content := jsonrpc.Get(raw, "content")
		_, role := jsonrpc.String(jsonrpc.Get(raw, "role"))
		_, model := jsonrpc.String(jsonrpc.Get(raw, "model"))
		return role && model && (jsonrpc.IsObject(content) || jsonrpc.IsArray(content))
	case "elicitation/create":
		action := jsonrpc.Get(raw, "action")
		return is(action, "accept") || is(action, "decline") || is(action, "cancel")
	}
	return false
}
