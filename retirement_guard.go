package bridge

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/retire"
)

// A windowWatch counts what a brownout window does and ends it early when the guard says so (retirement.md 6). It looks when
// something happens that may be a reason: a refusal, an exemption, a failed call.
type windowWatch struct {
	guard   retire.Guard
	keeper  *retire.Keeper
	minutes [watchedMinutes]minute // of Streamable HTTP, by minute since 1970

	mu      sync.Mutex
	window  string              // that the below are about
	refused map[string]struct{} // the surest id of each client refused in it, at most maxRefusedIDs
	exempt  int64               // refusals of clients that turned out to be exempt
	ending  string              // the window whose end is under way
	closed  bool
	aborts  sync.WaitGroup
}

const (
	watchedMinutes = 128 // a window's calls are compared with up to two hours before it
	maxRefusedIDs  = 4096
	abortTimeout   = 30 * time.Second
)

// A minute counts the calls of one minute. Two that begin one at the same time may lose a count, which does not matter to a share.
type minute struct{ at, calls, errors atomic.Int64 }

// counted returns next with the calls of its clients counted.
func (w *windowWatch) counted(next exchange.Handler) exchange.Handler {
	return &countedHandler{next, w}
}

type countedHandler struct {
	next  exchange.Handler
	watch *windowWatch
}

func (h *countedHandler) Open(ctx context.Context, c exchange.Client) (exchange.Session, error) {
	s, err := h.next.Open(ctx, c)
	if err != nil {
		h.watch.call(failed(err))
		return nil, err
	}
	return &countedSession{s, h.watch}, nil
}

type countedSession struct {
	exchange.Session
	watch *windowWatch
}

func (s *countedSession) Call(ctx context.Context, req exchange.Request, back exchange.Peer) (exchange.Response, error) {
	resp, err := s.Session.Call(ctx, req, back)
	s.watch.call(resp.Error != nil || failed(err))
	return resp, err
}

// failed reports whether err is one that the caller did not want.
func failed(err error) bool {
	if err == nil {
		return false
	}
	_, cancelled := errors.AsType[*exchange.CancelError](err)
	return !cancelled && !errors.Is(err, context.Canceled)
}

// call counts a call that has ended.
func (w *windowWatch) call(failed bool) {
	now := time.Now()
	at := now.Unix() / 60
	m := &w.minutes[at%watchedMinutes]
	if old := m.at.Load(); old != at && m.at.CompareAndSwap(old, at) {
		m.calls.Store(0)
		m.errors.Store(0)
	}
	m.calls.Add(1)
	if failed {
		m.errors.Add(1)
		if active := w.keeper.State().Active(now); active != nil {
			w.check(active)
		}
	}
}

// met takes in that the window which is on met a client with those ids: it was refused, or an exemption saved it.
func (w *windowWatch) met(s *retire.State, ids []string, refused bool) {
	active := s.Active(time.Now())
	if active == nil || len(ids) == 0 {
		return
	}
	w.mu.Lock()
	w.about(active.ID)
	switch {
	case !refused:
		for _, id := range ids {
			if _, ok := w.refused[id]; ok { // before it said who it is
				w.exempt++
				break
			}
		}
	case len(w.refused) < maxRefusedIDs:
		w.refused[ids[0]] = struct{}{}
	}
	w.mu.Unlock()
	w.check(active)
}

// about begins to count anew for another window. The caller holds mu.
func (w *windowWatch) about(window string) {
	if w.window == window && w.refused != nil {
		return
	}
	w.window, w.refused, w.exempt = window, make(map[string]struct{}), 0
}

// check ends the window if there is a reason to. The end is written to a file, and so another goroutine's; close waits for it.
func (w *windowWatch) check(active *retire.Window) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.about(active.ID)
	reason := w.guard.Check(w.counters(active))
	if reason == "" || w.closed || w.ending == active.ID {
		return
	}
	w.ending = active.ID
	id := active.ID
	w.aborts.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), abortTimeout)
		defer cancel()
		_, err := w.keeper.Abort(ctx, id, retire.Change{Actor: "guard", Origin: retire.FromGuard, Reason: reason})
		if err != nil { // the next reason tries again
			w.mu.Lock()
			w.ending = ""
			w.mu.Unlock()
		}
	})
}

// counters returns what the window has done. The caller holds mu.
func (w *windowWatch) counters(active *retire.Window) retire.Counters {
	c := retire.Counters{Refused: len(w.refused), ExemptRefused: w.exempt}
	now, from := time.Now().Unix()/60, active.From.Unix()/60
	for i := range w.minutes {
		m := &w.minutes[i]
		switch at := m.at.Load(); {
		case at <= now-watchedMinutes:
		case at < from:
			c.BaseCalls += m.calls.Load()
			c.BaseErrors += m.errors.Load()
		default:
			c.Calls += m.calls.Load()
			c.Errors += m.errors.Load()
		}
	}
	return c
}

// close lets nothing more begin and waits for what is under way.
func (w *windowWatch) close() {
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	w.aborts.Wait()
}
