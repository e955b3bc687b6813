package translate

import (
	"context"
	"sync"
	"time"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
	"github.com/mcp-dualstack/bridge/negotiate"
)

const methodListen = "subscriptions/listen"

// A listener is one subscriptions/listen of a modern client in front of a handshake-era server (translation.md 8.1).
type listener struct {
	back  exchange.Peer
	lists []bool              // of listKinds, honoured; fixed before the listener hears anything
	uris  map[string]struct{} // honoured; changed by the goroutine of the listen only, under mu

	wake chan struct{} // has one element when there is something to tell

	mu      sync.Mutex
	changed []*exchange.Request // of listKinds, the latest of each kind that has not been told
	updated []exchange.Request  // by URI, the latest of each; never more than uris
	at      map[string]int      // place in updated
}

// listen serves a subscriptions/listen until ctx ends, the handler is closed or the server is gone for good. The front
// writes the subscription id on what the client is told and on the result.
func (s *suspendSession) listen(ctx context.Context, params []byte, back exchange.Peer) (exchange.Response, error) {
	filter := jsonrpc.Get(params, "notifications")
	if !jsonrpc.IsObject(filter) {
		return exchange.Response{Error: negotiate.Refused(jsonrpc.CodeInvalidParams, negotiate.ReasonMalformedRequest,
			"Invalid params: subscriptions/listen needs the object notifications")}, nil
	}
	if back == nil {
		return exchange.Response{}, exchange.Fail(exchange.ReasonNoChannel, nil)
	}
	w, err := s.s.listens.join(ctx, s.client)
	if err != nil {
		return exchange.Response{}, err
	}
	l := &listener{
		back: back, lists: make([]bool, len(listKinds)), changed: make([]*exchange.Request, len(listKinds)),
		uris: make(map[string]struct{}), at: make(map[string]int), wake: make(chan struct{}, 1),
	}
	defer w.exit(l)
	caps := w.server().Capabilities
	for i, c := range listKinds {
		l.lists[i] = isTrue(jsonrpc.Get(filter, c.member)) && isTrue(jsonrpc.Get(caps, c.capability, "listChanged"))
	}
	var uris []string
	if isTrue(jsonrpc.Get(caps, "resources", "subscribe")) {
		uris = s.s.readURIs(jsonrpc.Get(filter, "resourceSubscriptions"))
	}
	if err := w.enter(ctx, l, uris); err != nil {
		return exchange.Response{}, err
	}
	if err := back.Notify(ctx, exchange.Request{Method: noteAcknowledged, Params: l.honoured(uris)}); err != nil {
		return exchange.Response{}, err
	}
	return l.serve(ctx, w, s.s.o.Merge)
}

func isTrue(raw []byte) bool { return string(raw) == "true" }

// readURIs returns the distinct URIs of a filter, as many as are allowed.
func (s *suspender) readURIs(raw []byte) (uris []string) {
	seen := make(map[string]struct{})
	jsonrpc.Elements(raw, func(v []byte) bool {
		uri, ok := jsonrpc.String(v)
		if _, double := seen[uri]; !ok || double {
			return true
		}
		if len(uris) == s.o.MaxListenURIs {
			s.reached(BoundListenURIs)
			s.log.Warn("listen asks for more URIs than are honoured", "limit", s.o.MaxListenURIs)
			return false
		}
		seen[uri] = struct{}{}
		uris = append(uris, uri)
		return true
	})
	return uris
}

// honoured returns the params of the acknowledgement: the part of the filter that is honoured, its URIs in the
// order they were asked for.
func (l *listener) honoured(asked []string) []byte {
	filter := []byte("{}")
	for i, c := range listKinds {
		if l.lists[i] {
			filter = jsonrpc.Set(filter, []byte("true"), c.member)
		}
	}
	list := []byte{'['}
	for _, uri := range asked {
		if _, ok := l.uris[uri]; !ok {
			continue
		}
		if len(list) > 1 {
			list = append(list, ',')
		}
		list = append(list, jsonrpc.Quote(uri)...)
	}
	if len(list) > 1 {
		filter = jsonrpc.Set(filter, append(list, ']'), "resourceSubscriptions")
	}
	return jsonrpc.Set(nil, filter, "notifications")
}

func (l *listener) want(uri string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.uris[uri] = struct{}{}
}

func (l *listener) unwant(uri string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.uris, uri)
}

// hear keeps a change that the client wants to know of. A list change replaces one of its kind that has not been
// told, an update one of its URI: both say only that something is not what it was.
func (l *listener) hear(note exchange.Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if note.Method == noteUpdated {
		uri, _ := jsonrpc.String(jsonrpc.Get(note.Params, "uri"))
		if !concerns(uri, l.uris) {
			return
		}
		if i, waits := l.at[uri]; waits {
			l.updated[i] = note
		} else if len(l.updated) < maxUpdates {
			l.at[uri] = len(l.updated)
			l.updated = append(l.updated, note)
		}
	} else {
		for i, c := range listKinds {
			if c.note == note.Method && l.lists[i] {
				l.changed[i] = &note
			}
		}
	}
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// maxUpdates bounds the URIs below the honoured ones that wait to be told within the time of merging.
const maxUpdates = 4096

// take returns what has not been told.
func (l *listener) take() []exchange.Request {
	l.mu.Lock()
	defer l.mu.Unlock()
	var notes []exchange.Request
	for i, n := range l.changed {
		if n != nil {
			notes = append(notes, *n)
			l.changed[i] = nil
		}
	}
	for _, n := range l.updated {
		if concerns(uriOf(n), l.uris) { // else it came before the server had refused
			notes = append(notes, n)
		}
	}
	l.updated = nil
	clear(l.at)
	return notes
}

// serve tells the client of changes. Copies of a change reach the bridge over several sessions of the server's; those
// that come within merge are one.
func (l *listener) serve(ctx context.Context, w *listenWatch, merge time.Duration) (exchange.Response, error) {
	var due <-chan time.Time
	for {
		select {
		case <-l.wake:
			if due == nil {
				due = time.After(merge)
			}
		case <-due:
			due = nil
			for _, note := range l.take() {
				if err := l.back.Notify(ctx, note); err != nil {
					return exchange.Response{}, err
				}
			}
		case <-w.over:
			return exchange.Response{Result: []byte(`{"resultType":"complete"}`)}, nil
		case <-w.s.ctx.Done():
			return exchange.Response{Result: []byte(`{"resultType":"complete"}`)}, nil
		case <-ctx.Done():
			return exchange.Response{}, context.Cause(ctx)
		}
	}
}
