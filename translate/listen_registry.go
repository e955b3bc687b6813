package translate

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
)

// listens holds the watch sessions of modern clients with a handshake-era server, one per principal (translation.md 8.1,
// point 2). Methods may be called concurrently.
type listens struct {
	s *suspender

	mu    sync.Mutex
	by    map[string]*listenWatch // by principal
	count int                     // joins, lingering included
}

func (ls *listens) init(s *suspender) { ls.s, ls.by = s, make(map[string]*listenWatch) }

// join returns the watch of a client's principal, a new one if there is none. The caller calls leave.
func (ls *listens) join(ctx context.Context, c exchange.Client) (*listenWatch, error) {
	w, err := ls.get(c)
	if err != nil {
		return nil, err
	}
	select {
	case <-w.ready:
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	if err == nil {
		err = w.failure
	}
	if err != nil {
		ls.leave(w)
		return nil, err
	}
	return w, nil
}

// get returns a watch that may not be ready yet.
func (ls *listens) get(c exchange.Client) (*listenWatch, error) {
	w, err := ls.take(c)
	if _, full := errors.AsType[*exchange.Failure](err); full && err != errHandlerClosed {
		ls.s.reached(BoundListens)
	}
	return w, err
}

func (ls *listens) take(c exchange.Client) (*listenWatch, error) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if ls.count >= ls.s.o.MaxListens {
		return nil, &exchange.Failure{Reason: reasonListens, RetryAfter: retrySuspended, Message: "too many subscriptions are open; try again later"}
	}
	w := ls.by[c.Principal]
	if w == nil {
		w = newListenWatch(ls.s, c)
		if !ls.s.spawn(w.run) { // until the last one leaves
			return nil, errHandlerClosed
		}
		ls.by[c.Principal] = w
	}
	w.users++
	ls.count++
	return w, nil
}

// leave lets go of a watch. The last one ends it.
func (ls *listens) leave(w *listenWatch) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ls.count--
	if w.users--; w.users == 0 {
		if ls.by[w.principal] == w {
			delete(ls.by, w.principal)
		}
		w.cancel()
	}
}

// linger keeps the watch of a client open for d from now on, to hear that URLs have been visited. Where there is no room
// for it the client just waits longer.
func (ls *listens) linger(c exchange.Client, d time.Duration) {
	w, err := ls.get(c)
	if err != nil {
		ls.s.log.Debug("watch for elicitations", "err", err)
		return
	}
	ls.mu.Lock()
	again := !w.until.IsZero()
	w.until = time.Now().Add(d)
	ls.mu.Unlock()
	if again || !ls.s.spawn(func() { ls.stay(w) }) {
		ls.leave(w)
	}
}

// stay leaves w when its time is over.
func (ls *listens) stay(w *listenWatch) {
	defer ls.leave(w)
	for {
		ls.mu.Lock()
		left := time.Until(w.until)
		if left <= 0 {
			w.until = time.Time{}
		}
		ls.mu.Unlock()
		if left <= 0 {
			return
		}
		t := time.NewTimer(left)
		select {
		case <-t.C:
		case <-w.ctx.Done(): // it could not be opened, or the handler is closed
			t.Stop()
			return
		}
	}
}

// heard deals with a note that concerns a principal rather than a call, and reports whether it was one.
func (s *suspender) heard(principal string, p principalHash, note exchange.Request) bool {
	if note.Method == noteVisited {
		id, _ := jsonrpc.String(jsonrpc.Get(note.Params, "elicitationId"))
		s.visited.add(p, id)
		return true
	}
	if note.Method != noteUpdated && !strings.HasSuffix(note.Method, "/list_changed") {
		return false
	}
	s.listens.mu.Lock()
	w := s.listens.by[principal]
	s.listens.mu.Unlock()
	if w != nil {
		w.deliver(note)
	}
	return true
}

// forget makes the next join open a new watch.
func (ls *listens) forget(w *listenWatch) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if ls.by[w.principal] == w {
		delete(ls.by, w.principal)
	}
}
