package upstream

import (
	"strconv"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
	"github.com/mcp-dualstack/bridge/negotiate"
)

// note hands a notification of the server's to the one peer it is for (translation.md 6.3, 6.4, 9).
// What cannot be attributed with certainty is dropped.
func (c *conn) note(m *jsonrpc.Message) {
	switch m.Method {
	case "notifications/cancelled":
		c.withdraw(m.Params)
	case "notifications/progress":
		c.progress(m)
	default:
		peer := c.addressee(m)
		if peer == nil {
			c.noise.report("notification dropped, nobody certain to give it to: "+m.Method, nil)
			c.o.dropped(m.Method)
			return
		}
		// An error says that it will not arrive, which the front reports.
		_ = peer.Notify(c.ctx, exchange.Request{Method: m.Method, Params: m.Params})
	}
}

// progress restores the client's own token. Progress of a call that has ended is dropped.
func (c *conn) progress(m *jsonrpc.Message) {
	id, ok := tokenID(jsonrpc.Get(m.Params, negotiate.MetaProgressToken))
	if !ok {
		return
	}
	c.mu.Lock()
	cl := c.calls[id]
	c.mu.Unlock()
	if cl == nil || cl.token == nil || cl.back == nil || cl.ctx.Err() != nil {
		return
	}
	params := jsonrpc.Set(m.Params, cl.token, negotiate.MetaProgressToken)
	_ = cl.back.Notify(c.ctx, exchange.Request{Method: m.Method, Params: params}) // as in note
}

// progressToken returns the raw token that the server sees for a call.
func progressToken(id int64) []byte {
	b := strconv.AppendInt([]byte(`"p`), id, 10)
	return append(b, '"')
}

func tokenID(raw []byte) (id int64, ok bool) {
	if len(raw) < len(`"p1"`) || raw[0] != '"' || raw[1] != 'p' {
		return 0, false
	}
	return ownID(raw[2 : len(raw)-1])
}

// addressee returns whom a notification is for, nil if nobody.
func (c *conn) addressee(m *jsonrpc.Message) exchange.Peer {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.revision.Modern() {
		return c.modernAddressee(m)
	}
	if ofSession(m.Method) {
		return c.back
	}
	if cl := c.only(); cl != nil && cl.back != nil {
		return cl.back
	}
	return c.back
}

// ofSession reports whether a notification is about the session, whatever it comes beside.
func ofSession(method string) bool {
	switch method {
	case "notifications/tools/list_changed", "notifications/prompts/list_changed", "notifications/resources/list_changed",
		"notifications/resources/updated", "notifications/elicitation/complete", "notifications/tasks/status":
		return true
	}
	return false
}

// modernAddressee attributes on a connection that many clients share. The caller holds mu.
func (c *conn) modernAddressee(m *jsonrpc.Message) exchange.Peer {
	if sub := jsonrpc.Get(m.Meta, negotiate.MetaSubscription); sub != nil {
		id, _ := ownID(sub)
		if cl := c.calls[id]; cl != nil && cl.ctx.Err() == nil {
			return cl.back
		}
		return nil // the listen has ended, and a late note is no surprise
	}
	if m.Method == "notifications/message" && c.ghosts.none() {
		if cl := c.only(); cl != nil && cl.logs {
			return cl.back
		}
	}
	return nil
}

// only returns the call in flight if there is exactly one. A listen is not counted on a modern
// connection: what belongs to it says so. The caller holds mu.
func (c *conn) only() *call {
	var found *call
	for _, cl := range c.calls {
		if cl.internal || c.revision.Modern() && cl.method == methodListen {
			continue
		}
		if found != nil {
			return nil
		}
		found = cl
	}
	return found
}

const methodListen = "subscriptions/listen"

// withdraw takes a cancellation of the server's: of a question, or on a modern connection of a listen,
// which it ends.
func (c *conn) withdraw(params []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.questions.withdraw(params) || !c.revision.Modern() {
		return
	}
	id, _ := ownID(jsonrpc.Get(params, "requestId"))
	if cl := c.calls[id]; cl != nil && cl.method == methodListen {
		c.finish(cl, outcome{resp: exchange.Response{Result: []byte(`{"resultType":"complete"}`)}})
	}
}
