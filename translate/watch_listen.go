package translate

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
	"github.com/mcp-dualstack/bridge/negotiate"
)

const (
	listenDebounce = 50 * time.Millisecond // from a changed union to its listen (translation.md 8.2)
	ackTimeout     = 10 * time.Second      // for the acknowledgement of a listen
	relisten       = time.Second           // after a listen ended, doubling
	maxRelisten    = time.Minute
	steadyListen   = time.Minute // a listen that lived as long makes the next wait short again

	noteUpdated      = "notifications/resources/updated"
	noteAcknowledged = "notifications/subscriptions/acknowledged"
)

// The members of SubscriptionFilter (2026-07-28) for list changes, with the capability and the notification of each.
var listKinds = [...]struct{ member, capability, note string }{
	{"toolsListChanged", "tools", "notifications/tools/list_changed"},
	{"promptsListChanged", "prompts", "notifications/prompts/list_changed"},
	{"resourcesListChanged", "resources", "notifications/resources/list_changed"},
}

// listFilter returns the SubscriptionFilter for the list changes that ServerCapabilities promise, nil for none.
func listFilter(caps []byte) (filter []byte) {
	for _, k := range listKinds {
		if string(jsonrpc.Get(caps, k.capability, "listChanged")) == "true" {
			filter = jsonrpc.Set(filter, []byte("true"), k.member)
		}
	}
	return filter
}

// uriFilter returns the SubscriptionFilter for uris.
func uriFilter(uris []string) []byte {
	list := []byte{'['}
	for i, uri := range uris {
		if i > 0 {
			list = append(list, ',')
		}
		list = append(list, jsonrpc.Quote(uri)...)
	}
	return jsonrpc.Set(nil, append(list, ']'), "resourceSubscriptions")
}

// A listening is one subscriptions/listen in flight. It implements exchange.Peer for it.
type listening struct {
	w      *watch
	cancel context.CancelFunc
	begun  time.Time
	uris   []string // that the server honours

	once     sync.Once
	acked    chan struct{} // closed when honoured is set
	honoured []byte        // raw SubscriptionFilter

	ended chan struct{} // closed when resp and err are set
	resp  exchange.Response
	err   error
}

// listen begins a subscription. Its goroutine ends with the watch at the latest.
func (w *watch) listen(filter []byte) *listening {
	l := &listening{w: w, begun: time.Now(), acked: make(chan struct{}), ended: make(chan struct{})}
	ctx, cancel := context.WithCancel(w.ctx)
	l.cancel = cancel
	params := negotiate.WithEnvelope(jsonrpc.Set(nil, filter, "notifications"), negotiate.Envelope{
		Version: w.client.Revision, Info: w.client.Info, Capabilities: w.client.Capabilities,
	})
	w.wg.Go(func() {
		defer close(l.ended)
		defer cancel()
		l.resp, l.err = w.call(ctx, exchange.Request{Method: methodListen, Params: params}, l)
	})
	return l
}

// call makes a listen of the bridge's own with the modern server.
func (w *watch) call(ctx context.Context, req exchange.Request, back exchange.Peer) (exchange.Response, error) {
	if !w.h.o.UpstreamHTTP {
		return w.h.hubs.listen(ctx, w.client, w.caps, req, back)
	}
	s, err := w.h.next.Open(ctx, w.client)
	if err != nil {
		return exchange.Response{}, err
	}
	defer s.Close()
	if !s.Server().Revision.Modern() {
		return exchange.Response{}, exchange.Fail(exchange.ReasonEra, errors.New("the server no longer speaks 2026-07-28"))
	}
	return s.Call(ctx, req, back)
}

// Call refuses: a server of 2026-07-28 sends no requests.
func (l *listening) Call(context.Context, exchange.Request) (exchange.Response, error) {
	return exchange.Response{Error: negotiate.Refused(jsonrpc.CodeMethodNotFound, negotiate.ReasonUnknownMethod,
		"Method not found: a client of 2026-07-28 answers no requests")}, nil
}

// Notify takes the acknowledgement and gives changes to those they concern.
func (l *listening) Notify(_ context.Context, note exchange.Request) error {
	switch note.Method {
	case noteAcknowledged:
		l.once.Do(func() {
			l.honoured = jsonrpc.Get(note.Params, "notifications")
			close(l.acked)
		})
	case noteUpdated:
		l.w.deliver(note)
	default:
		for _, k := range listKinds {
			if k.note == note.Method {
				l.w.deliver(note)
			}
		}
	}
	return nil
}

// established waits for the acknowledgement and reports whether it came.
func (l *listening) established() bool {
	timer := time.NewTimer(ackTimeout)
	defer timer.Stop()
	select {
	case <-l.acked:
		return true
	case <-l.ended:
		select { // it may have been acknowledged and ended at once
		case <-l.acked:
			return true
		default:
			return false
		}
	case <-timer.C:
	case <-l.w.ctx.Done():
	}
	return false
}

// why returns the reason of a listen that was not established: a refusal by the server, or none with the failure.
func (l *listening) why() error {
	select {
	case <-l.ended:
	default:
		return exchange.Fail(exchange.ReasonTimeout, errors.New("subscriptions/listen was not acknowledged"))
	}
	switch {
	case l.err != nil:
		return l.err
	case l.resp.Error != nil:
		return l.resp.Error
	}
	return exchange.Fail(exchange.ReasonInvalid, errors.New("subscriptions/listen ended without an acknowledgement"))
}

// unknown reports whether err says that the server has no subscriptions at all.
func unknown(err error) bool {
	e, ok := errors.AsType[*exchange.Error](err)
	return ok && e.Code == jsonrpc.CodeMethodNotFound
}

// A backoff is the time to wait before a listen is opened again.
type backoff time.Duration

// after returns the wait after a listen that began then.
func (b *backoff) after(begun time.Time) time.Duration {
	if *b == 0 || time.Since(begun) >= steadyListen {
		*b = backoff(relisten)
	}
	wait := time.Duration(*b)
	*b = min(2**b, backoff(maxRelisten))
	return wait
}

// keepLists holds the listen for list changes until the watch ends, or the server turns out to have none.
func (w *watch) keepLists(filter []byte) {
	var wait backoff
	for gap := false; ; gap = true {
		l := w.listen(filter)
		if l.established() {
			if gap { // what happened meanwhile is unknown (translation.md 15)
				w.resyncLists(l.honoured)
			}
			select {
			case <-l.ended:
			case <-w.ctx.Done():
				return
			}
		} else if err := l.why(); unknown(err) {
			return
		}
		l.cancel()
		if pause(w.ctx, wait.after(l.begun)) != nil {
			return
		}
	}
}

func (w *watch) resyncLists(honoured []byte) {
	for _, k := range listKinds {
		if string(jsonrpc.Get(honoured, k.member)) == "true" {
			w.deliver(exchange.Request{Method: k.note})
		}
	}
}

// keepURIs holds the listen for the URIs that are wanted until the watch ends.
func (w *watch) keepURIs() {
	var current *listening // acknowledged
	var again <-chan time.Time
	var wait backoff
	gap := false
	for {
		var ended <-chan struct{}
		if current != nil {
			ended = current.ended
		}
		select {
		case <-w.ctx.Done():
			return
		case <-w.changed:
			if pause(w.ctx, listenDebounce) != nil {
				return
			}
		case <-ended:
			again, current, gap = time.After(wait.after(current.begun)), nil, true
			continue
		case <-again:
			again = nil
		}
		next, err := w.renew(current)
		switch {
		case err != nil && current == nil && len(w.uris()) > 0:
			again = time.After(wait.after(time.Now()))
		case err == nil:
			if current = next; gap && next != nil {
				w.resyncURIs(next.uris)
				gap = false
			}
		}
	}
}

// renew replaces current by a listen for what is wanted now, after the acknowledgement of that one. It returns current when that is
// what is wanted, and nil for nothing. The error says why the new listen was not established; current goes on then.
func (w *watch) renew(current *listening) (*listening, error) {
	uris := w.uris()
	if current != nil && slices.Equal(uris, current.uris) {
		// A resource that was let go of and wanted again in between is one that the server tells of already.
		w.settle(uris, func(uri string) bool { return slices.Contains(current.uris, uri) }, nil)
		return current, nil
	}
	var next *listening
	if len(uris) > 0 {
		next = w.listen(uriFilter(uris))
		if !next.established() {
			next.cancel()
			err := next.why()
			w.settle(uris, func(string) bool { return false }, err)
			return current, err
		}
		next.uris = honouredURIs(next.honoured)
		w.settle(uris, func(uri string) bool { return slices.Contains(next.uris, uri) }, nil)
	}
	if current != nil {
		current.cancel()
	}
	return next, nil
}

// honouredURIs returns the resourceSubscriptions of a SubscriptionFilter, sorted.
func honouredURIs(filter []byte) (uris []string) {
	jsonrpc.Elements(jsonrpc.Get(filter, "resourceSubscriptions"), func(v []byte) bool {
		if uri, ok := jsonrpc.String(v); ok {
			uris = append(uris, uri)
		}
		return true
	})
	slices.Sort(uris)
	return slices.Compact(uris)
}

func (w *watch) resyncURIs(uris []string) {
	for _, uri := range uris {
		w.deliver(exchange.Request{Method: noteUpdated, Params: jsonrpc.Set(nil, jsonrpc.Quote(uri), "uri")})
	}
}
