package translate

import (
	"context"
	"time"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
)

// subscribe counts one more listener of a URI, and asks the server for the first. ok is false if the server refuses; then
// the listener does not count. The error is the cause of ctx.
func (w *listenWatch) subscribe(ctx context.Context, uri string) (ok bool, err error) {
	t, err := w.take(ctx, uri)
	if err != nil {
		return false, err
	}
	if w.ensure(ctx, t, uri) {
		w.release(t, uri, 0)
		return true, nil
	}
	w.release(t, uri, 1)
	if ctx.Err() != nil {
		return false, context.Cause(ctx)
	}
	return false, nil
}

// take counts one more user of a topic and waits for its turn, which the caller gives back.
func (w *listenWatch) take(ctx context.Context, uri string) (*topic, error) {
	w.mu.Lock()
	t := w.topics[uri]
	if t == nil {
		t = &topic{turn: make(chan struct{}, 1)}
		w.topics[uri] = t
	}
	t.users++
	w.mu.Unlock()
	select {
	case t.turn <- struct{}{}:
		return t, nil
	case <-ctx.Done():
		w.mu.Lock()
		defer w.mu.Unlock()
		t.users--
		w.tidy(t, uri)
		return nil, context.Cause(ctx)
	}
}

// release gives the turn back and counts so many users less.
func (w *listenWatch) release(t *topic, uri string, users int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	t.users -= users
	<-t.turn
	w.tidy(t, uri)
}

// tidy forgets a topic without users, unless somebody has its turn: there is one turn for a URI, so that what the server is told about it
// comes in order. The caller holds mu.
func (w *listenWatch) tidy(t *topic, uri string) {
	if t.users == 0 && len(t.turn) == 0 && w.topics[uri] == t {
		delete(w.topics, uri)
	}
}

// isLast reports whether t has one user, who has the turn.
func (w *listenWatch) isLast(t *topic) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return t.users == 1
}

// ensure makes sure that the URI is subscribed to on the present session. It needs the turn.
func (w *listenWatch) ensure(ctx context.Context, t *topic, uri string) bool {
	w.mu.Lock()
	sess := w.sess
	w.mu.Unlock()
	if sess == nil {
		return t.on != nil // between two sessions; resync subscribes again
	}
	if t.on == sess {
		return true
	}
	resp, err := sess.Call(ctx, topicRequest("resources/subscribe", uri), silent{})
	if err != nil || resp.Error != nil {
		w.s.log.Info("subscription not honoured", "err", err, "refusal", resp.Error)
		return false
	}
	t.on = sess
	return true
}

// unsubscribe is the end of a subscribe that was ok. The server is told when nobody is left.
func (w *listenWatch) unsubscribe(uri string) {
	w.mu.Lock()
	t, sess := w.topics[uri], w.sess
	w.mu.Unlock()
	if t == nil {
		return
	}
	ctx, cancel := context.WithTimeout(w.s.ctx, unsubscribeTime)
	defer cancel()
	select {
	case t.turn <- struct{}{}:
		defer w.release(t, uri, 1)
	case <-ctx.Done():
		w.mu.Lock()
		defer w.mu.Unlock()
		t.users--
		w.tidy(t, uri)
		return
	}
	if !w.isLast(t) || sess == nil || t.on != sess {
		return
	}
	t.on = nil // who comes now waits for the turn and subscribes again
	if _, err := sess.Call(ctx, topicRequest("resources/unsubscribe", uri), silent{}); err != nil {
		w.s.log.Debug("unsubscribe", "err", err)
	}
}

// unsubscribeTime bounds what the end of a listen waits for.
const unsubscribeTime = 5 * time.Second

func topicRequest(method, uri string) exchange.Request {
	return exchange.Request{Method: method, Params: jsonrpc.Set(nil, jsonrpc.Quote(uri), "uri")}
}

// resync subscribes to everything again on a new session and tells every listener that anything may have changed: what
// happened meanwhile is not known (translation.md 8.1 point 6).
func (w *listenWatch) resync() {
	w.mu.Lock()
	topics := make(map[string]*topic, len(w.topics))
	for uri, t := range w.topics {
		topics[uri] = t
	}
	w.mu.Unlock()
	for uri := range topics {
		t, err := w.take(w.ctx, uri)
		if err != nil {
			return
		}
		if !w.isLast(t) { // else nobody wants it any more
			w.ensure(w.ctx, t, uri)
		}
		w.release(t, uri, 1)
	}
	for _, c := range listKinds {
		w.deliver(exchange.Request{Method: c.note})
	}
	for uri := range topics {
		w.deliver(topicRequest(noteUpdated, uri))
	}
}
