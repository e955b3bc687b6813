package translate

import (
	"context"
	"fmt"
	"time"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
)

// Pauses of translation.md 7.4, the first and the longest.
const (
	emptyWait, maxEmptyWait = 250 * time.Millisecond, 5 * time.Second
	urlWait, maxURLWait     = 2 * time.Second, 15 * time.Second
)

// A trip is one request of a handshake-era client on its way through the rounds of a modern server. The client
// sees one long request.
type trip struct {
	d    *drive
	req  exchange.Request
	base []byte // params with the envelope and without anything of a round; every round begins with them
	back *driveBack

	rounds, urlRounds  int
	emptyNext, urlNext time.Duration
	given              map[string]string // URLs the user has accepted, with the id the client knows each by
}

func newTrip(d *drive, req exchange.Request, back exchange.Peer) *trip {
	params := req.Params
	if asksTheUser(req.Method) { // words of the rounds, which are the bridge's (translation.md 0)
		params = jsonrpc.Delete(jsonrpc.Delete(params, "inputResponses"), "requestState")
	}
	if req.Method == "tools/call" {
		params = jsonrpc.Delete(params, "task") // translation.md 10
	}
	return &trip{
		d: d, req: req, base: d.envelope(params), back: newDriveBack(d, back),
		emptyNext: emptyWait, urlNext: urlWait,
	}
}

// run calls until there is an answer that the client can be given.
func (t *trip) run(ctx context.Context) (exchange.Response, error) {
	next := exchange.Request{Method: t.req.Method, Params: t.base, Sent: t.req.Sent}
	for {
		resp, err := t.d.up.Call(ctx, next, t.back)
		if err != nil {
			return exchange.Response{}, err
		}
		if resp.Error != nil {
			return t.refusal(resp.Error)
		}
		kind := jsonrpc.Get(resp.Result, "resultType")
		switch {
		case !jsonrpc.IsObject(resp.Result):
			return exchange.Response{}, exchange.Fail(exchange.ReasonInvalid, fmt.Errorf("%s: the result is not an object", t.req.Method))
		case kind == nil, is(kind, resultComplete):
			t.finish(ctx)
			return exchange.Response{Result: t.d.pay.result(t.req.Method, resp.Result)}, nil
		case !is(kind, resultInputRequired) || !asksTheUser(t.req.Method):
			return exchange.Response{}, exchange.Fail(exchange.ReasonInvalid, fmt.Errorf("%s: resultType %.40s", t.req.Method, kind))
		}
		params, end, err := t.round(ctx, resp.Result)
		if end != nil || err != nil {
			return deref(end), err
		}
		next = exchange.Request{Method: t.req.Method, Params: params}
	}
}

func deref(r *exchange.Response) exchange.Response {
	if r == nil {
		return exchange.Response{}
	}
	return *r
}

// round deals with an InputRequiredResult and returns the params of the next round, or how the trip ends.
func (t *trip) round(ctx context.Context, result []byte) (params []byte, end *exchange.Response, err error) {
	state := jsonrpc.Get(result, "requestState")
	asked, err := t.readInputs(jsonrpc.Get(result, "inputRequests"))
	if err != nil {
		return nil, nil, err
	}
	if len(asked) == 0 && jsonrpc.IsNull(state) {
		return nil, nil, exchange.Fail(exchange.ReasonInvalid, fmt.Errorf("%s: input_required without inputRequests and requestState", t.req.Method))
	}
	o := &t.d.h.o.Drive
	count, limit, bound, wait, most := &t.rounds, o.MaxRounds, BoundRounds, &t.emptyNext, maxEmptyWait
	waiting := t.allGiven(asked)
	if waiting && len(asked) > 0 {
		count, limit, bound, wait, most = &t.urlRounds, o.MaxURLRounds, BoundURLAttempts, &t.urlNext, maxURLWait
	}
	if *count++; *count > limit {
		o.reached(bound)
		return nil, t.fail(reasonTooManyRounds, fmt.Sprintf("%s asked for input %d times and did not come to an end.",
			subject(t.req.Method, t.req.Params), limit)), nil
	}
	if waiting {
		if err := pause(ctx, *wait); err != nil {
			return nil, nil, err
		}
		*wait = min(2**wait, most)
	} else if end, err := t.ask(ctx, asked); end != nil || err != nil {
		return nil, end, err
	}
	return t.next(asked, state), nil, nil
}

// next returns the params of the next round: those of the first, the answers, and the server's state as it
// wrote it, if it wrote one.
func (t *trip) next(asked []*input, state []byte) []byte {
	params := t.base
	if len(asked) > 0 {
		var answers []byte
		for _, in := range asked {
			answers = jsonrpc.Set(answers, in.answer, in.key)
		}
		params = jsonrpc.Set(params, answers, "inputResponses")
	}
	if !jsonrpc.IsNull(state) {
		params = jsonrpc.Set(params, state, "requestState")
	}
	return params
}

// fail ends the trip with a reason that the client's model can read.
func (t *trip) fail(reason, text string) *exchange.Response {
	r := brokenOff(t.req.Method, reason, text)
	return &r
}

// finish tells the client that the URLs it was given have served their purpose (translation.md 7.4 step 8).
func (t *trip) finish(ctx context.Context) {
	for _, id := range t.given {
		params := jsonrpc.Set(nil, jsonrpc.Quote(id), "elicitationId")
		_ = t.back.to.Notify(ctx, exchange.Request{Method: "notifications/elicitation/complete", Params: params}) // the response follows and matters more
	}
}

// refusal is the server's error as the client may have it (translation.md 13).
func (t *trip) refusal(e *exchange.Error) (exchange.Response, error) {
	switch e.Code {
	case jsonrpc.CodeMissingCapability:
		return *t.fail(exchange.ReasonNoCapability, lacks(t.d.client.Revision, t.req.Method, t.req.Params, requiredCapabilities(e.Data))), nil
	case jsonrpc.CodeUnsupportedVersion:
		return exchange.Response{}, exchange.Fail(exchange.ReasonVersion, e)
	case jsonrpc.CodeHeaderMismatch:
		return exchange.Response{}, refusedHeaders(e)
	case jsonrpc.CodeURLElicitation: // not a word of its revision (translation.md 6.6)
		return exchange.Response{}, exchange.Fail(exchange.ReasonInvalid, e)
	case jsonrpc.CodeInvalidParams:
		if t.req.Method == "resources/read" && sameString(jsonrpc.Get(e.Data, "uri"), jsonrpc.Get(t.req.Params, "uri")) {
			return exchange.Response{Error: recoded(e, jsonrpc.CodeResourceNotFound)}, nil
		}
	}
	return exchange.Response{Error: e}, nil
}

// sameString reports whether both are JSON strings that say the same.
func sameString(a, b []byte) bool {
	s, ok := jsonrpc.String(a)
	u, ok2 := jsonrpc.String(b)
	return ok && ok2 && s == u
}

// pause waits for d or the end of ctx, whose cause is the error.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
