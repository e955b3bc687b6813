package legacy

import (
	"context"
	"errors"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/internal/pulse"
)

var errDraining = errors.New("the bridge is shutting down")

// Drain takes no new streams and requests (503) and returns when no call is in flight, or with the cause of ctx when
// that ends first. Open streams stay, so that what a call needs can still be asked and answered.
func (f *Front) Drain(ctx context.Context) error {
	f.stopAccepting()
	for _, s := range f.all() {
		if s.stream.Load() == nil { // its client cannot come back any more
			s.end(exchange.Fail(exchange.ReasonClosed, errDraining))
		}
	}
	for f.busy() {
		select {
		case <-f.ends:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// Shutdown drains the front and ends the streams, not all at once where there are many. When ctx ends first the calls
// left get session_closed as their error, and Shutdown returns the cause after their streams have ended.
func (f *Front) Shutdown(ctx context.Context) error {
	err := f.Drain(ctx)
	if err == nil {
		f.endStreams(ctx)
		select {
		case <-f.idle:
			f.clock.Close()
			return nil
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
	}
	_ = f.Close() // it has no error
	return err
}

// Close ends all streams and returns when they have ended. Calls in flight get session_closed as their error.
func (f *Front) Close() error {
	f.stopAccepting()
	for _, s := range f.all() {
		s.end(exchange.Fail(exchange.ReasonClosed, nil))
		s.hurry(lastWrites)
	}
	<-f.idle
	f.clock.Close()
	return nil
}

func (f *Front) stopAccepting() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.isDraining() {
		return
	}
	close(f.draining)
	if f.active == 0 {
		close(f.idle)
	}
}

func (f *Front) isDraining() bool {
	select {
	case <-f.draining:
		return true
	default:
		return false
	}
}

// called is called after each call.
func (f *Front) called() {
	if !f.isDraining() {
		return
	}
	select {
	case f.ends <- struct{}{}:
	default:
	}
}

// busy reports whether a call is in flight.
func (f *Front) busy() bool {
	for _, s := range f.all() {
		if s.core.Busy() > 0 {
			return true
		}
	}
	return false
}

// endStreams ends what is open, spread over the time that there is.
func (f *Front) endStreams(ctx context.Context) {
	var ends []func()
	for _, s := range f.all() {
		ends = append(ends, func() {
			if st := s.stream.Load(); st != nil {
				st.drain()
				return
			}
			s.end(exchange.Fail(exchange.ReasonClosed, errDraining))
		})
	}
	pulse.Spread(ctx, ends)
}

// all returns every session once, in no order.
func (f *Front) all() []*session {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := make([]*session, 0, len(f.sessions))
	for id, s := range f.sessions {
		if id == s.id {
			all = append(all, s)
		}
	}
	return all
}
