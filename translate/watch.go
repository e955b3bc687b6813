package translate

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
	"github.com/mcp-dualstack/bridge/negotiate"
)

// watches holds a watch for each credential that handshake-era clients of a modern server come with: without
// pass-through that is one for all.
type watches struct {
	h *handler

	mu sync.Mutex
	by map[string]*watch // by Client.Authorization
}

// join lets d hear of changes, until leave.
func (ws *watches) join(d *drive) *watch {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	w := ws.by[d.client.Authorization]
	if w == nil {
		w = newWatch(ws.h, d)
		if ws.by == nil {
			ws.by = make(map[string]*watch)
		}
		ws.by[d.client.Authorization] = w
	}
	w.enter(d)
	return w
}

// leave is the end of join. With the last session the watch ends, and leave waits for that.
func (ws *watches) leave(d *drive) {
	ws.mu.Lock()
	last := d.watch.exit(d)
	if last {
		delete(ws.by, d.client.Authorization)
	}
	ws.mu.Unlock()
	if last {
		d.watch.stop()
	}
}

// A watch keeps the subscriptions that handshake-era sessions with a modern server need (translation.md 8.2): one
// listen for the list changes, which every session hears of, and one for the URIs that any of them
// subscribed to.
type watch struct {
	h      *handler
	client exchange.Client // the bridge itself
	caps   []byte          // ServerCapabilities

	ctx    context.Context // ends with stop
	cancel context.CancelFunc
	wg     sync.WaitGroup // the two keepers and every listen

	changed chan struct{} // has one element when wanted is not what it was

	mu       sync.Mutex
	sessions map[*drive]map[string]struct{} // with the URIs of each
	wanted   map[string]*want               // the union
}

// A want is a URI that some session subscribed to.
type want struct {
	sessions int
	settled  chan struct{} // closed when the server has said whether it will tell
	refusal  *exchange.Error
	err      error // why the server has not said
}

func newWatch(h *handler, d *drive) *watch {
	w := &watch{
		h: h, caps: d.server.Capabilities,
		client: exchange.Client{
			Revision: d.pay.server, Requested: d.pay.server.String(), Info: h.o.Info, Capabilities: []byte("{}"),
			Principal: d.client.Principal, Authorization: d.client.Authorization,
		},
		changed:  make(chan struct{}, 1),
		sessions: make(map[*drive]map[string]struct{}),
		wanted:   make(map[string]*want),
	}
	w.ctx, w.cancel = context.WithCancel(context.Background())
	if filter := listFilter(d.server.Capabilities); filter != nil {
		w.wg.Go(func() { w.keepLists(filter) })
	}
	w.wg.Go(w.keepURIs)
	return w
}

// stop ends every listen and waits for them.
func (w *watch) stop() {
	w.cancel()
	w.wg.Wait()
}

func (w *watch) enter(d *drive) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sessions[d] = nil
}

// exit forgets a session and what it wants, and reports whether it was the last.
func (w *watch) exit(d *drive) (last bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for uri := range w.sessions[d] {
		w.release(uri)
	}
	delete(w.sessions, d)
	return len(w.sessions) == 0
}

// add subscribes d to uri. The error is -32603 when there is no room.
func (w *watch) add(d *drive, uri string) (*want, *exchange.Error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	mine := w.sessions[d]
	if _, have := mine[uri]; have {
		return w.wanted[uri], nil
	}
	wanted := w.wanted[uri]
	if len(mine) >= w.h.o.MaxSubscriptions || wanted == nil && len(w.wanted) >= w.h.o.MaxListenURIs {
		return nil, negotiate.Refused(jsonrpc.CodeInternal, reasonTooManySubscriptions, "too many resources are subscribed to; unsubscribe from some")
	}
	if wanted == nil {
		wanted = &want{settled: make(chan struct{})}
		w.wanted[uri] = wanted
		w.signal()
	}
	wanted.sessions++
	if mine == nil {
		mine = make(map[string]struct{})
		w.sessions[d] = mine
	}
	mine[uri] = struct{}{}
	return wanted, nil
}

const reasonTooManySubscriptions = "too_many_subscriptions"

// remove ends d's subscription to uri, if it has one.
func (w *watch) remove(d *drive, uri string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, have := w.sessions[d][uri]; have {
		delete(w.sessions[d], uri)
		w.release(uri)
	}
}

// release lets go of one session's share of uri. The caller holds mu.
func (w *watch) release(uri string) {
	wanted := w.wanted[uri]
	if wanted.sessions--; wanted.sessions == 0 {
		delete(w.wanted, uri)
		w.signal()
	}
}

func (w *watch) signal() {
	select {
	case w.changed <- struct{}{}:
	default:
	}
}

// uris returns what is wanted, sorted.
func (w *watch) uris() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Sorted(maps.Keys(w.wanted))
}

// settle notes what the server has said about uris. Those it did not honour are forgotten; so are, when there was no
// acknowledgement because of err, those it has not honoured before.
func (w *watch) settle(uris []string, honours func(uri string) bool, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, uri := range uris {
		wanted := w.wanted[uri]
		if wanted == nil {
			continue
		}
		select {
		case <-wanted.settled: // before; a listen that did not come about changes nothing
			continue
		default:
		}
		if !honours(uri) {
			wanted.err, wanted.refusal = err, notSubscribable
			if _, refused := errors.AsType[*exchange.Error](err); refused {
				wanted.err = nil
			}
			for _, mine := range w.sessions {
				delete(mine, uri)
			}
			delete(w.wanted, uri)
		}
		close(wanted.settled) // its fields are fixed from here on
	}
}

var notSubscribable = negotiate.Refused(jsonrpc.CodeMethodNotFound, negotiate.ReasonUnknownMethod,
	"Method not found: the server does not tell of changes to this resource")

// deliver gives a change to the sessions it concerns.
func (w *watch) deliver(note exchange.Request) {
	note.Params = withoutReserved(note.Params)
	uri, about := "", note.Method == noteUpdated
	if about {
		uri, _ = jsonrpc.String(jsonrpc.Get(note.Params, "uri"))
	}
	w.mu.Lock()
	var to []exchange.Peer
	for d, mine := range w.sessions {
		if d.client.Back != nil && (!about || concerns(uri, mine)) {
			to = append(to, d.client.Back)
		}
	}
	w.mu.Unlock()
	for _, peer := range to {
		_ = peer.Notify(w.ctx, note) // the front says what it drops
	}
}

// concerns reports whether uri, or one it lies below, is among those subscribed to.
func concerns(uri string, subscribed map[string]struct{}) bool {
	if _, ok := subscribed[uri]; ok {
		return true
	}
	for parent := range subscribed {
		if strings.HasPrefix(uri, parent) && (strings.HasSuffix(parent, "/") || uri[len(parent)] == '/') {
			return true
		}
	}
	return false
}
