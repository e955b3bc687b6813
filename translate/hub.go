package translate

import (
	"context"
	"slices"
	"sync"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
	"github.com/mcp-dualstack/bridge/negotiate"
)

// maxFeeds bounds the listens of one hub. At the bound the hub ends, as a server may end a listen, and its members begin anew.
const maxFeeds = 256

// hubs holds the hub of each credential.
type hubs struct {
	h *handler

	mu sync.Mutex
	by map[string]*hub // by Client.Authorization
}

// A hub is what all listens with a modern server share on one connection. Clients come and go, and the server hears of a
// listen's end only when the last one has gone: go-sdk v1.8.0 as a server on stdio forgets every subscription of
// the connection when one listen on it ends, and says nothing (measured). What is new is asked for by a further
// listen, so there is no moment without one.
type hub struct {
	h      *handler
	client exchange.Client // the bridge itself

	ctx    context.Context // of its feeds
	cancel context.CancelFunc
	wg     sync.WaitGroup // every feed

	users int // of this hub; guarded by mu of hubs

	mu      sync.Mutex
	over    *feed // that ended by itself and with it the hub; nil as long as it lives
	ended   chan struct{}
	members map[*member]struct{}
	offers  []byte           // SubscriptionFilter of the list changes that the server promises, nil for none
	lists   *feed            // for offers; nil until somebody wants list changes
	uris    map[string]*feed // what the feeds were asked for
	feeds   int
}

// A member is one listen of somebody's.
type member struct {
	back  exchange.Peer
	lists [len(listKinds)]bool
	uris  map[string]struct{}

	// Guarded by mu of the hub.

	ready  bool               // it has been told that it is subscribed
	missed []exchange.Request // what came before that, the latest of each kind and URI
	at     map[string]int     // place in missed, by method and URI; nil: there is nothing
}

// listen is a subscriptions/listen of c's with a server of those ServerCapabilities, through the hub. It lasts until ctx or the
// server ends it.
func (hs *hubs) listen(ctx context.Context, c exchange.Client, caps []byte, req exchange.Request, back exchange.Peer) (exchange.Response, error) {
	if req.Sent != nil {
		req.Sent()
	}
	b := hs.enter(c, listFilter(caps))
	defer hs.leave(b, c)
	m := newMember(jsonrpc.Get(req.Params, "notifications"), back)
	feeds := b.cover(m)
	defer b.forget(m)
	for _, f := range feeds {
		select {
		case <-f.acked:
		case <-f.ended:
			return f.resp, f.err
		case <-ctx.Done():
			return exchange.Response{}, context.Cause(ctx)
		}
	}
	b.acknowledge(ctx, m, feeds)
	select {
	case <-ctx.Done():
		return exchange.Response{}, context.Cause(ctx)
	case <-b.ended:
		return b.over.resp, b.over.err
	}
}

// shareable reports whether a listen asks for nothing but what a hub can tell apart.
func shareable(params []byte) bool {
	filter := jsonrpc.Get(params, "notifications")
	ok := jsonrpc.IsObject(filter)
	jsonrpc.Members(filter, func(name string, v []byte) bool {
		if name == "resourceSubscriptions" {
			ok = jsonrpc.IsArray(v)
			return ok
		}
		for _, k := range listKinds {
			if k.member == name {
				return true
			}
		}
		ok = false
		return false
	})
	return ok
}

func newMember(filter []byte, back exchange.Peer) *member {
	m := &member{back: back, uris: make(map[string]struct{})}
	for i, k := range listKinds {
		m.lists[i] = string(jsonrpc.Get(filter, k.member)) == "true"
	}
	for _, uri := range honouredURIs(filter) {
		m.uris[uri] = struct{}{}
	}
	return m
}

func (hs *hubs) enter(c exchange.Client, offers []byte) *hub {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	b := hs.by[c.Authorization]
	if b == nil || b.isOver() {
		b = &hub{
			h: hs.h, offers: offers, ended: make(chan struct{}), members: make(map[*member]struct{}), uris: make(map[string]*feed),
			client: exchange.Client{
				Revision: negotiate.Modern.Newest(), Requested: negotiate.Modern.Newest().String(), Info: hs.h.o.Info, Capabilities: []byte("{}"),
				Principal: c.Principal, Authorization: c.Authorization,
			},
		}
		b.ctx, b.cancel = context.WithCancel(context.Background())
		if hs.by == nil {
			hs.by = make(map[string]*hub)
		}
		hs.by[c.Authorization] = b
	}
	b.users++
	return b
}

// leave ends the hub with its last user and waits for that.
func (hs *hubs) leave(b *hub, c exchange.Client) {
	hs.mu.Lock()
	b.users--
	last := b.users == 0
	if last && hs.by[c.Authorization] == b {
		delete(hs.by, c.Authorization)
	}
	hs.mu.Unlock()
	if last {
		b.cancel()
		b.wg.Wait()
	}
}

func (b *hub) isOver() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.over != nil
}

// cover makes m a member, begins what is missing for it, and returns the feeds that it needs.
func (b *hub) cover(m *member) (needs []*feed) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.members[m] = struct{}{}
	if m.lists != [len(listKinds)]bool{} && b.offers != nil {
		if b.lists == nil { // for all kinds, so that the next member needs no further listen
			b.lists = b.begin(b.offers, nil)
		}
		needs = append(needs, b.lists)
	}
	var missing []string
	seen := make(map[*feed]bool)
	for uri := range m.uris {
		f := b.uris[uri]
		switch {
		case f == nil || f.refused(uri):
			missing = append(missing, uri)
		case !seen[f]:
			seen[f] = true
			needs = append(needs, f)
		}
	}
	if len(missing) > 0 {
		slices.Sort(missing)
		needs = append(needs, b.begin(uriFilter(missing), missing))
	}
	return needs
}

// acknowledge tells m what it is subscribed to, and then what it has missed meanwhile.
func (b *hub) acknowledge(ctx context.Context, m *member, feeds []*feed) {
	b.mu.Lock()
	var honoured []byte
	for i, k := range listKinds {
		m.lists[i] = m.lists[i] && slices.ContainsFunc(feeds, func(f *feed) bool { return string(jsonrpc.Get(f.honoured, k.member)) == "true" })
		if m.lists[i] {
			honoured = jsonrpc.Set(honoured, []byte("true"), k.member)
		}
	}
	var uris []string
	for uri := range m.uris {
		if slices.ContainsFunc(feeds, func(f *feed) bool { return f.honours(uri) }) {
			uris = append(uris, uri)
		} else {
			delete(m.uris, uri)
		}
	}
	slices.Sort(uris)
	if len(uris) > 0 {
		honoured = jsonrpc.Set(honoured, jsonrpc.Get(uriFilter(uris), "resourceSubscriptions"), "resourceSubscriptions")
	}
	if honoured == nil {
		honoured = []byte("{}")
	}
	b.mu.Unlock()
	_ = m.back.Notify(ctx, exchange.Request{Method: noteAcknowledged, Params: jsonrpc.Set(nil, honoured, "notifications")}) // the front says what it drops
	b.mu.Lock()
	m.ready = true
	missed := slices.DeleteFunc(m.missed, func(n exchange.Request) bool { return !m.hears(n.Method, uriOf(n)) })
	m.missed, m.at = nil, nil
	b.mu.Unlock()
	for _, note := range missed {
		_ = m.back.Notify(ctx, note)
	}
}

func (b *hub) forget(m *member) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.members, m)
}

// deliver gives a change to the members it concerns.
func (b *hub) deliver(note exchange.Request) {
	note.Params = jsonrpc.Delete(note.Params, "_meta", negotiate.MetaSubscription) // each member has its own, from its front
	if isEmpty(jsonrpc.Get(note.Params, "_meta")) {
		note.Params = jsonrpc.Delete(note.Params, "_meta")
	}
	uri := uriOf(note)
	var to []exchange.Peer
	b.mu.Lock()
	for m := range b.members {
		switch {
		case !m.hears(note.Method, uri):
		case m.ready:
			to = append(to, m.back)
		default:
			m.miss(note, uri)
		}
	}
	b.mu.Unlock()
	for _, peer := range to {
		_ = peer.Notify(b.ctx, note)
	}
}

// miss keeps a change for when m has been told that it is subscribed. A server may say it right behind its acknowledgement.
func (m *member) miss(note exchange.Request, uri string) {
	key := note.Method + " " + uri
	if i, has := m.at[key]; has {
		m.missed[i] = note
		return
	}
	if len(m.missed) >= maxUpdates {
		return
	}
	if m.at == nil {
		m.at = make(map[string]int)
	}
	m.at[key] = len(m.missed)
	m.missed = append(m.missed, note)
}

// uriOf returns the URI that a note is about, empty if it is about none.
func uriOf(note exchange.Request) string {
	uri, _ := jsonrpc.String(jsonrpc.Get(note.Params, "uri"))
	return uri
}

func (m *member) hears(method, uri string) bool {
	if method == noteUpdated {
		return concerns(uri, m.uris)
	}
	for i, k := range listKinds {
		if k.note == method {
			return m.lists[i]
		}
	}
	return false
}
