package translate

import (
	"context"
	"sync"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
	"github.com/mcp-dualstack/bridge/negotiate"
)

// A visit is one request of a modern client as the call it is attached to sees it.
type visit struct {
	back     exchange.Peer
	token    []byte // raw progress token; nil: none
	level    int    // least severity of log messages the client wants; 0: none
	declared declared
	wake     chan struct{} // has one token when the call has changed

	telling sync.WaitGroup // what is being told; nothing is added once the call has let go of the request
}

func newVisit(params []byte, d declared, back exchange.Peer) *visit {
	v := &visit{back: back, declared: d, wake: make(chan struct{}, 1)}
	meta := jsonrpc.Get(params, "_meta")
	if token := jsonrpc.Get(meta, negotiate.MetaProgressToken); !jsonrpc.IsNull(token) {
		v.token = token
	}
	v.level = severity(jsonrpc.Get(meta, negotiate.MetaLogLevel))
	return v
}

// severity returns the place of a raw LoggingLevel, from 1 for debug to 8 for emergency, 0 if it is none.
func severity(raw []byte) int {
	for i, name := range levels {
		if is(raw, name) {
			return i + 1
		}
	}
	return 0
}

var levels = [...]string{"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"}

// notify tells the request that its call has changed.
func (v *visit) notify() {
	select {
	case v.wake <- struct{}{}:
	default:
	}
}

// tell passes on what a handshake-era server said because of the request, as far as a modern client may hear
// it on that request's stream (translation.md 6.3, 6.5).
func (v *visit) tell(ctx context.Context, note exchange.Request) error {
	switch note.Method {
	case "notifications/progress":
		if v.token == nil {
			return nil
		}
		note.Params = jsonrpc.Set(note.Params, v.token, negotiate.MetaProgressToken)
	case "notifications/message":
		if level := severity(jsonrpc.Get(note.Params, "level")); v.level == 0 || level < v.level {
			return nil
		}
	default:
		return nil
	}
	if v.back == nil {
		return nil
	}
	note.Params = withoutReserved(note.Params)
	return v.back.Notify(ctx, note)
}

// Notify is told by the server because of c. Nothing is heard while c is suspended.
func (c *call) Notify(ctx context.Context, note exchange.Request) error {
	if c.sess.heard(note) {
		return nil
	}
	v := c.attached()
	if v == nil {
		if note.Method == "notifications/message" { // translation.md 7.3.3
			c.s.dropped(c.sess.client, note.Method)
		}
		return nil
	}
	defer v.telling.Done()
	return v.tell(ctx, note)
}

// attached returns the request to tell, nil while there is none. The caller says when it has told.
func (c *call) attached() *visit {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	if c.state != stateRunning {
		return nil
	}
	c.visit.telling.Add(1)
	return c.visit
}

// A bystander is the peer of a call that may not suspend.
type bystander struct {
	sess *suspendSession
	v    *visit
}

// Call refuses (translation.md 7.3.9).
func (b bystander) Call(_ context.Context, req exchange.Request) (exchange.Response, error) {
	return exchange.Response{Error: negotiate.Refused(jsonrpc.CodeInvalidParams, reasonUnsolicited,
		"Invalid params: nothing can be asked during a request that is not tools/call, prompts/get or resources/read")}, nil
}

// Notify passes on what belongs to the call.
func (b bystander) Notify(ctx context.Context, note exchange.Request) error {
	if b.sess.heard(note) {
		return nil
	}
	return b.v.tell(ctx, note)
}
