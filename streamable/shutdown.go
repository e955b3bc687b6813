package streamable

import (
	"context"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/internal/pulse"
)

// Drain answers new requests 503 and returns when no call is in flight, listens aside, or with ctx's error. Streams
// stay open, and messages that a running call needs (answers, cancellations) are still taken.
func (f *Front) Drain(ctx context.Context) error {
	f.stopAccepting()
	return f.wait(ctx, func() bool { return f.calls == f.listens })
}

// Shutdown drains the front, gives listens their result, and ends streams and sessions. Where there are many, streams do
// not end all at once. When ctx ends first, Shutdown closes at once and returns its error.
func (f *Front) Shutdown(ctx context.Context) error {
	err := f.Drain(ctx)
	if err == nil {
		f.endIdle(ctx)
		err = f.wait(ctx, func() bool { return f.calls == 0 })
	}
	if err == nil {
		f.endSessions()
		f.interrupt()
		err = f.wait(ctx, func() bool { return len(f.carriers) == 0 })
	}
	_ = f.Close() // it has no error
	return err
}

// Close ends everything at once and waits until all goroutines and handlers have returned. The error
// is always nil.
func (f *Front) Close() error {
	f.stopAccepting()
	f.cancel(exchange.Fail(exchange.ReasonClosed, nil))
	f.mu.Lock()
	for c := range f.carriers {
		c.abort()
		if c.stop != nil {
			c.stop(context.Cause(f.ctx))
		}
	}
	f.mu.Unlock()
	f.endSessions()
	_ = f.wait(context.Background(), func() bool { return len(f.carriers) == 0 && f.calls == 0 })
	f.wg.Wait()
	f.clock.Close()
	f.bodies.Close()
	return nil
}

func (f *Front) stopAccepting() {
	f.mu.Lock()
	f.draining = true
	f.mu.Unlock()
}

// onDrain says what ends the stream of c when the front shuts down and nothing else does. It is called at once if that
// has begun.
func (f *Front) onDrain(c *carrier, end func()) {
	f.mu.Lock()
	c.drain = end
	late := f.draining
	f.mu.Unlock()
	if late {
		end()
	}
}

// onClose says what ends the call of c when the front is closed. It is called at once if that has happened.
func (f *Front) onClose(c *carrier, stop context.CancelCauseFunc) {
	f.mu.Lock()
	defer f.mu.Unlock()
	c.stop = stop
	if f.ctx.Err() != nil {
		stop(context.Cause(f.ctx))
	}
}

// endIdle ends the streams that no call will end, spread over the time that pulse.Spread allows.
func (f *Front) endIdle(ctx context.Context) {
	var ends []func()
	f.mu.Lock()
	for c := range f.carriers { // in random order
		if c.drain != nil {
			ends = append(ends, c.drain)
		}
	}
	f.mu.Unlock()
	pulse.Spread(ctx, ends)
}

// interrupt ends the reading of bodies, those that come later included.
func (f *Front) interrupt() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.deaf.Store(true)
	for c := range f.carriers {
		c.interrupt()
	}
}

// wait returns when done, called under mu, is true, or with ctx's error.
func (f *Front) wait(ctx context.Context, done func() bool) error {
	for {
		f.mu.Lock()
		ok, quiet := done(), f.quiet
		f.mu.Unlock()
		if ok {
			return nil
		}
		select {
		case <-quiet:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// endSessions ends every session. What is in flight gets the reason as its error.
func (f *Front) endSessions() {
	for _, s := range f.all() {
		s.end(exchange.Fail(exchange.ReasonClosed, nil))
	}
}
