package translate

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
)

// A urlState is what the token of a call says that the server refused until URLs have been visited (translation.md 7.6).
type urlState struct {
	attempts int
	asked    bool     // the client was asked, so it has to answer; otherwise it has accepted before
	ids      []string // elicitationId of each URL, in the order of the keys
	session  string   // of the server's, that asked for them (exchange.Affinity); empty: it has no name
	accepted bool     // by the request that is being served
}

// encode returns u as {"n":attempts,"asked":bool,"s":session,"ids":[...]}.
func (u *urlState) encode() []byte {
	out := strconv.AppendInt([]byte(`{"n":`), int64(u.attempts), 10)
	out = strconv.AppendBool(append(out, `,"asked":`...), u.asked)
	out = append(append(out, `,"s":`...), jsonrpc.Quote(u.session)...)
	out = append(out, `,"ids":[`...)
	for i, id := range u.ids {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, jsonrpc.Quote(id)...)
	}
	return append(out, `]}`...)
}

func readURLState(raw []byte) *urlState {
	u := &urlState{asked: string(jsonrpc.Get(raw, "asked")) == "true"}
	u.attempts, _ = strconv.Atoi(string(jsonrpc.Get(raw, "n")))
	u.session, _ = jsonrpc.String(jsonrpc.Get(raw, "s"))
	jsonrpc.Elements(jsonrpc.Get(raw, "ids"), func(v []byte) bool {
		id, _ := jsonrpc.String(v)
		u.ids = append(u.ids, id)
		return true
	})
	return u
}

// key returns the key under which the client is asked for the i-th URL.
func (u *urlState) key(i int) string { return fmt.Sprintf("%d.%d", u.attempts, i+1) }

// readElicitations returns the URLs of a URLElicitationRequiredError (2025-11-25 schema) as questions, with their ids. It
// is empty if there are none that can be asked.
func readElicitations(e *exchange.Error) (qs []*question, ids []string) {
	jsonrpc.Elements(jsonrpc.Get(e.Data, "elicitations"), func(v []byte) bool {
		id, _ := jsonrpc.String(jsonrpc.Get(v, "elicitationId"))
		if q, ok := newQuestion(exchange.Request{Method: methodElicit, Params: v}); ok && is(jsonrpc.Get(v, "mode"), "url") {
			qs, ids = append(qs, q), append(ids, id)
		}
		return true
	})
	return qs, ids
}

// urlRequired answers a call that the server refused with -32042.
func (c *call) urlRequired(e *exchange.Error, v *visit) (exchange.Response, error) {
	qs, ids := readElicitations(e)
	u := &urlState{attempts: 1, asked: true, ids: ids}
	if c.affinity != nil {
		u.session = c.affinity.Served
	}
	if c.urls != nil {
		u.attempts = c.urls.attempts + 1
		u.asked = !c.urls.accepted || !sameIDs(c.urls.ids, ids)
	}
	switch {
	case len(qs) == 0:
		return exchange.Response{Error: rewritten(e, jsonrpc.CodeInternal, nil)}, nil
	case !v.declared.url:
		return exchange.Response{Error: missingCapability(c.method, []byte(`{"elicitation":{"url":{}}}`), "elicitation.url")}, nil
	case u.attempts > c.s.o.MaxURLAttempts:
		c.s.reached(BoundURLAttempts)
		return exchange.Response{Error: internal(reasonTooManyRounds, "the server asks for the same URLs again and again")}, nil
	}
	for i, q := range qs {
		q.key = u.key(i)
	}
	if !u.asked {
		qs = nil
	}
	c.s.listens.linger(c.sess.client, c.s.o.TTL)
	ask := c.asking(kindURL, time.Now().Add(c.s.o.TTL), qs)
	ask.token.inner = u.encode()
	return ask.result()
}

func sameIDs(a, b []string) bool {
	if len(a) != len(b) {
		return false
	}
	seen := make(map[string]int, len(a))
	for _, id := range a {
		seen[id]++
	}
	for _, id := range b {
		if seen[id]--; seen[id] < 0 {
			return false
		}
	}
	return true
}

// revisit serves the retry of a call that the server refused until URLs have been visited.
func (s *suspendSession) revisit(ctx context.Context, t *token, req exchange.Request, v *visit) (exchange.Response, error) {
	u := readURLState(t.inner)
	if !v.declared.url {
		return exchange.Response{Error: missingCapability(req.Method, []byte(`{"elicitation":{"url":{}}}`), "elicitation.url")}, nil
	}
	declined, err := u.read(jsonrpc.Get(req.Params, "inputResponses"))
	switch {
	case err != nil:
		return failed(err)
	case declined:
		resp := brokenOff(req.Method, reasonDeclined, "the user declined to visit the URL that "+subject(req.Method, req.Params)+" needs")
		if resp.Error == nil {
			resp.Result = uncached(s.payload.result(req.Method, resp.Result))
		}
		return resp, nil
	case u.accepted:
		if err := s.s.visited.wait(ctx, s.principal, u.ids, s.s.o.URLWait); err != nil {
			return exchange.Response{}, err
		}
	}
	// The error said that the request was not processed, so this is no second execution.
	return s.begin(ctx, attempt{req: req, urls: u}, v)
}

// read takes the client's answers. Answers that are missing leave u not accepted: the server is asked what it still needs.
func (u *urlState) read(responses []byte) (declined bool, err error) {
	u.accepted = true
	if !u.asked {
		return false, nil
	}
	qs := make([]*question, len(u.ids))
	for i := range qs {
		qs[i] = &question{key: u.key(i), method: methodElicit}
	}
	answers, err := readAnswers(qs, responses)
	if err != nil {
		return false, err
	}
	for _, a := range answers {
		switch {
		case a == nil:
			u.accepted = false
		case !is(jsonrpc.Get(a, "action"), "accept"):
			declined = true
		}
	}
	return declined, nil
}
