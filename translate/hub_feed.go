package translate

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
	"github.com/mcp-dualstack/bridge/negotiate"
)

// A feed is one subscriptions/listen of a hub's with the server. It implements exchange.Peer for it.
type feed struct {
	hub *hub

	once     sync.Once
	acked    chan struct{} // closed when honoured and uris are set
	honoured []byte        // raw SubscriptionFilter
	uris     []string      // of honoured, sorted
	at       time.Time     // when it was closed

	ended chan struct{} // closed when resp and err are set
	resp  exchange.Response
	err   error
}

// begin opens a feed; its goroutine ends with the hub at the latest. The caller holds mu.
func (b *hub) begin(filter []byte, uris []string) *feed {
	f := &feed{hub: b, acked: make(chan struct{}), ended: make(chan struct{})}
	for _, uri := range uris {
		b.uris[uri] = f
	}
	if b.feeds++; b.feeds > maxFeeds {
		f.resp.Result = []byte(`{"resultType":"complete"}`)
		close(f.ended)
		b.end(f)
		return f
	}
	b.wg.Go(func() {
		f.resp, f.err = b.call(filter, f)
		b.mu.Lock()
		defer b.mu.Unlock()
		close(f.ended)
		b.lost(f)
	})
	return f
}

// call makes the listen.
func (b *hub) call(filter []byte, f *feed) (exchange.Response, error) {
	s, err := b.h.next.Open(b.ctx, b.client)
	if err != nil {
		return exchange.Response{}, err
	}
	defer s.Close()
	if !s.Server().Revision.Modern() {
		return exchange.Response{}, exchange.Fail(exchange.ReasonEra, nil)
	}
	params := negotiate.WithEnvelope(jsonrpc.Set(nil, filter, "notifications"), negotiate.Envelope{
		Version: b.client.Revision, Info: b.client.Info, Capabilities: b.client.Capabilities,
	})
	return s.Call(b.ctx, exchange.Request{Method: methodListen, Params: params}, f)
}

// lost deals with a feed that has ended. One that never was is only missing to those who wait for it; the end of
// one that was is the end of all. The caller holds mu.
func (b *hub) lost(f *feed) {
	b.feeds--
	if b.lists == f {
		b.lists = nil
	}
	for uri, of := range b.uris {
		if of == f {
			delete(b.uris, uri)
		}
	}
	select {
	case <-f.acked:
		b.end(f)
	default:
	}
}

// end ends the hub with the outcome of f. The caller holds mu.
func (b *hub) end(f *feed) {
	if b.over == nil {
		b.over = f
		close(b.ended)
		b.cancel()
	}
}

// refused reports whether the server did not honour a URI that it was asked for some time ago. What does not exist yet may later.
func (f *feed) refused(uri string) bool {
	select {
	case <-f.acked:
		return !f.honours(uri) && time.Since(f.at) >= refusalHolds
	default:
		return false
	}
}

// refusalHolds is how long a URI is not asked for again: a further listen with the server lasts as long as the hub.
const refusalHolds = time.Minute

// honours reports whether the server tells of changes to uri. It is for acknowledged feeds.
func (f *feed) honours(uri string) bool {
	_, ok := slices.BinarySearch(f.uris, uri)
	return ok
}

// Call refuses: a server of 2026-07-28 sends no requests.
func (f *feed) Call(context.Context, exchange.Request) (exchange.Response, error) {
	return exchange.Response{Error: negotiate.Refused(jsonrpc.CodeMethodNotFound, negotiate.ReasonUnknownMethod,
		"Method not found: a client of 2026-07-28 answers no requests")}, nil
}

// Notify takes the acknowledgement and passes changes on.
func (f *feed) Notify(_ context.Context, note exchange.Request) error {
	if note.Method != noteAcknowledged {
		f.hub.deliver(note)
		return nil
	}
	f.once.Do(func() {
		f.honoured = jsonrpc.Get(note.Params, "notifications")
		f.uris = honouredURIs(f.honoured)
		f.at = time.Now()
		close(f.acked)
	})
	return nil
}
