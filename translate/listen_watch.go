package translate

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
	"github.com/mcp-dualstack/bridge/negotiate"
)

// A listenWatch is the session on which the bridge hears of changes for one principal: the shared one, without client
// capabilities. It is opened again when the server has ended it, and everything is subscribed to again.
type listenWatch struct {
	s         *suspender
	client    exchange.Client
	principal string
	users     int       // guarded by mu of listens
	until     time.Time // it lingers; zero: it does not. Guarded by mu of listens

	ctx     context.Context // ends when the last user has left or the handler is closed
	cancel  context.CancelFunc
	ready   chan struct{} // closed when the first session is open, or failure is set
	failure error         // why there is none; read after ready
	over    chan struct{} // closed when the server is gone for good

	mu        sync.Mutex
	sess      exchange.Session // nil while there is none
	listeners map[*listener]struct{}
	topics    map[string]*topic
}

// A topic is a URI that listeners want to hear of.
type topic struct {
	users int // listeners, those that wait for settled included; guarded by mu of the watch
	turn  chan struct{}
	on    exchange.Session // on which it is subscribed to, nil if on none; whoever has the turn
}

func newListenWatch(s *suspender, c exchange.Client) *listenWatch {
	w := &listenWatch{
		s: s, principal: c.Principal, ready: make(chan struct{}), over: make(chan struct{}),
		listeners: make(map[*listener]struct{}), topics: make(map[string]*topic),
	}
	w.client = exchange.Client{
		Revision: negotiate.Rev20260728, Requested: negotiate.Rev20260728.String(), Capabilities: []byte("{}"),
		Principal: c.Principal, Authorization: c.Authorization, Back: w,
	}
	w.ctx, w.cancel = context.WithCancel(s.ctx)
	return w
}

// run keeps a session open until the last user has left.
func (w *listenWatch) run() {
	defer w.cancel()
	sess, err := w.s.next.Open(w.ctx, w.client)
	if err != nil {
		w.failure = err
		w.s.listens.forget(w)
		close(w.ready)
		return
	}
	w.become(sess)
	close(w.ready)
	for sess != nil {
		select {
		case <-sess.Done():
			w.become(nil)
			w.close(sess)
			if sess = w.reopen(); sess != nil {
				w.become(sess)
				w.resync()
			}
		case <-w.ctx.Done():
			w.become(nil)
			w.close(sess)
			return
		}
	}
	if w.ctx.Err() == nil {
		w.s.listens.forget(w)
		close(w.over)
	}
}

func (w *listenWatch) become(sess exchange.Session) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sess = sess
}

func (w *listenWatch) close(sess exchange.Session) {
	if err := sess.Close(); err != nil {
		w.s.log.Debug("close watch session", "err", err)
	}
}

const maxRetryWatch = 30 * time.Second

// reopen opens a session again, as often as it takes. It returns nil when the server is gone for good or nobody
// listens any more.
func (w *listenWatch) reopen() exchange.Session {
	for pause := w.s.o.RetryWatch; ; pause = min(2*pause, maxRetryWatch) {
		sess, err := w.s.next.Open(w.ctx, w.client)
		if err == nil && !sess.Server().Revision.Modern() {
			return sess
		}
		if err == nil {
			w.close(sess)
			return nil // another server altogether
		}
		if f, ok := errors.AsType[*exchange.Failure](err); ok && (f.Reason == exchange.ReasonClosed || f.Reason == exchange.ReasonEra) {
			return nil
		}
		w.s.log.Warn("watch session lost", "err", err, "again_in", pause)
		t := time.NewTimer(pause)
		select {
		case <-t.C:
		case <-w.ctx.Done():
			t.Stop()
			return nil
		}
	}
}

func (w *listenWatch) server() exchange.Server {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.sess == nil {
		return exchange.Server{}
	}
	return w.sess.Server()
}

// enter subscribes to the URIs and lets l hear of changes, those included that a server reports as soon as it is asked. URIs that
// it refuses are not honoured. The error is the cause of ctx.
func (w *listenWatch) enter(ctx context.Context, l *listener, uris []string) error {
	w.mu.Lock()
	w.listeners[l] = struct{}{}
	w.mu.Unlock()
	for _, uri := range uris {
		l.want(uri)
		ok, err := w.subscribe(ctx, uri)
		if !ok {
			l.unwant(uri)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// exit is the end of a listen, entered or not: l hears no more, the server is told what nobody listens for, and the
// watch is let go of. It does not wait for the server.
func (w *listenWatch) exit(l *listener) {
	w.mu.Lock()
	delete(w.listeners, l)
	w.mu.Unlock()
	rest := func() {
		for uri := range l.uris {
			w.unsubscribe(uri)
		}
		w.s.listens.leave(w)
	}
	if len(l.uris) == 0 || !w.s.spawn(rest) { // bounded by unsubscribeTime for each URI
		w.s.listens.leave(w)
	}
}

// deliver gives a change to everybody it may concern.
func (w *listenWatch) deliver(note exchange.Request) {
	note = exchange.Request{Method: note.Method, Params: withoutReserved(note.Params)}
	w.mu.Lock()
	all := make([]*listener, 0, len(w.listeners))
	for l := range w.listeners {
		all = append(all, l)
	}
	w.mu.Unlock()
	for _, l := range all {
		l.hear(note)
	}
}

// Notify is told by the server.
func (w *listenWatch) Notify(_ context.Context, note exchange.Request) error {
	w.s.heard(w.principal, hashPrincipal(w.principal), note)
	return nil
}

// Call answers from Options.Roots or refuses: nothing asked here belongs to a call (translation.md 7.3.10).
func (w *listenWatch) Call(_ context.Context, req exchange.Request) (exchange.Response, error) {
	if req.Method == methodRoots && w.s.roots != nil {
		return exchange.Response{Result: jsonrpc.Set(nil, w.s.roots, "roots")}, nil
	}
	return exchange.Response{Error: negotiate.Refused(jsonrpc.CodeInvalidParams, reasonUnsolicited,
		"Invalid params: no request is there that %s could belong to", req.Method)}, nil
}
