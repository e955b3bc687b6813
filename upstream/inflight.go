package upstream

import (
	"context"
	"errors"
	"sync"

	"github.com/mcp-dualstack/bridge/exchange"
)

// An inFlight is the calls of one client on connections that others use too. The zero value is open and
// without calls.
type inFlight struct {
	mu     sync.Mutex
	closed bool
	calls  map[*context.CancelCauseFunc]struct{}
}

var errSessionClosed error = exchange.Fail(exchange.ReasonClosed, errors.New("session closed"))

// enter adds a call by what ends it. The error is session_closed.
func (f *inFlight) enter(cancel *context.CancelCauseFunc) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return errSessionClosed
	}
	if f.calls == nil {
		f.calls = make(map[*context.CancelCauseFunc]struct{}, 1)
	}
	f.calls[cancel] = struct{}{}
	return nil
}

func (f *inFlight) leave(cancel *context.CancelCauseFunc) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.calls, cancel)
}

// open returns session_closed after close.
func (f *inFlight) open() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return errSessionClosed
	}
	return nil
}

// close cancels every call and reports whether it was the first time.
func (f *inFlight) close() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	first := !f.closed
	f.closed = true
	for cancel := range f.calls {
		(*cancel)(errSessionClosed)
	}
	return first
}
