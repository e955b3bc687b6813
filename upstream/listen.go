package upstream

import (
	"context"
	"errors"
	"sync"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
)

// A listening is the peer of a subscriptions/listen across the restarts of a server
// (translation.md 8.1.6, 12). Its client sees one acknowledgement, and after a restart a change of
// everything it listens to, because what has changed meanwhile is unknown.
type listening struct {
	back exchange.Peer

	mu           sync.Mutex
	acknowledged bool   // by the server that is asked now
	honoured     []byte // raw SubscriptionFilter of the first acknowledgement; nil before that
}

const noteAcknowledged = "notifications/subscriptions/acknowledged"

// Call asks the client.
func (l *listening) Call(ctx context.Context, req exchange.Request) (exchange.Response, error) {
	return l.back.Call(ctx, req)
}

// Notify tells the client, of a further acknowledgement by what may have changed.
func (l *listening) Notify(ctx context.Context, note exchange.Request) error {
	if note.Method != noteAcknowledged {
		return l.back.Notify(ctx, note)
	}
	l.mu.Lock()
	first := l.honoured == nil
	l.acknowledged = true
	if first {
		if l.honoured = jsonrpc.Get(note.Params, "notifications"); l.honoured == nil {
			l.honoured = []byte("{}")
		}
	}
	honoured := l.honoured
	l.mu.Unlock()
	if first {
		return l.back.Notify(ctx, note)
	}
	for _, change := range changes(honoured) {
		if err := l.back.Notify(ctx, change); err != nil {
			return err
		}
	}
	return nil
}

// changes returns a notification for everything that a SubscriptionFilter of 2026-07-28 covers.
func changes(filter []byte) []exchange.Request {
	var all []exchange.Request
	for _, kind := range []string{"tools", "prompts", "resources"} {
		if string(jsonrpc.Get(filter, kind+"ListChanged")) == "true" {
			all = append(all, exchange.Request{Method: "notifications/" + kind + "/list_changed"})
		}
	}
	jsonrpc.Elements(jsonrpc.Get(filter, "resourceSubscriptions"), func(uri []byte) bool {
		all = append(all, exchange.Request{Method: methodUpdated, Params: jsonrpc.Set(nil, uri, "uri")})
		return true
	})
	return all
}

// again reports whether a listen that ended with err is to be opened anew: its server ended after it had
// acknowledged it.
func (l *listening) again(err error) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	acknowledged := l.acknowledged
	l.acknowledged = false
	return acknowledged && isLost(err)
}

func isLost(err error) bool {
	f, ok := errors.AsType[*exchange.Failure](err)
	return ok && f.Reason == exchange.ReasonLost
}

// listen keeps a subscriptions/listen open as long as the server can be started again.
func (s *modernSession) listen(ctx context.Context, req exchange.Request, back exchange.Peer) (exchange.Response, error) {
	if back == nil {
		return s.once(ctx, req, nil)
	}
	l := &listening{back: back}
	for {
		resp, err := s.once(ctx, req, l)
		if !l.again(err) {
			return resp, err
		}
		req.Sent = nil // it has been called
	}
}
