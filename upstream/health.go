package upstream

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/mcp-dualstack/bridge/exchange"
)

// How long a sign is believed before the server is asked.
const (
	upFresh   = 10 * time.Second
	downFresh = 2 * time.Second
)

// Vitals are the signs of life of a server. The zero value knows nothing. Methods may be called concurrently.
type vitals struct {
	mu    sync.Mutex
	at    time.Time // of the last sign
	err   error     // why the server is taken to be down; nil: it is up
	check *checkup  // under way; nil: none is
}

// A checkup is a question whether the server lives; everybody who asks meanwhile waits for the same.
type checkup struct {
	done chan struct{} // closed when err is set
	err  error
}

// note takes a sign: nil that the server has answered, an error that it cannot be reached.
func (v *vitals) note(err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.at, v.err = time.Now(), err
}

// health returns why the server is down, nil if it is up. Without a fresh sign ask is called in a goroutine of spawn's; it
// notes what it learns. The error is the cause of ctx when that ends before anything is known.
func (v *vitals) health(ctx context.Context, spawn func(func()) bool, ask func() error) error {
	v.mu.Lock()
	fresh := upFresh
	if v.err != nil {
		fresh = downFresh
	}
	if !v.at.IsZero() && time.Since(v.at) < fresh {
		defer v.mu.Unlock()
		return v.err
	}
	c := v.check
	if c == nil {
		c = &checkup{done: make(chan struct{})}
		v.check = c
		if !spawn(func() { v.examine(c, ask) }) { // bounded by what ask is
			v.check = nil
			v.mu.Unlock()
			return exchange.Fail(exchange.ReasonClosed, nil)
		}
	}
	v.mu.Unlock()
	select {
	case <-c.done:
		return c.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (v *vitals) examine(c *checkup, ask func() error) {
	c.err = ask()
	if f, ok := errors.AsType[*exchange.Failure](c.err); c.err == nil || ok && f.Reason != exchange.ReasonClosed {
		v.note(c.err)
	}
	v.mu.Lock()
	v.check = nil
	v.mu.Unlock()
	close(c.done)
}

// Health returns nil if the server answers, else why not. It costs nothing while calls show that; a server that was not heard of for
// 10 s is asked, which goes on when ctx ends. The error is a *exchange.Failure or the cause of ctx.
func (r *Remote) Health(ctx context.Context) error {
	return r.l.vitals.health(ctx, r.spawn, func() error {
		ctx, stop := r.opening(r.ctx)
		defer stop()
		if _, err := r.resolve(ctx, ""); err != nil && !r.guarded(err) {
			return err
		}
		return r.l.reach(ctx)
	})
}

// guarded reports whether a probe failed for want of a client's own credentials, which says that the server is there.
func (r *Remote) guarded(err error) bool {
	f, ok := errors.AsType[*exchange.Failure](err)
	return ok && f.Reason == exchange.ReasonAuth && r.o.HTTP.PassThrough
}

// reach makes a request that no server acts on, to see whether there is one. The error is that of sendFailure.
func (l *leg) reach(ctx context.Context) error {
	ctx, cancel := l.soon(ctx)
	defer cancel()
	resp, err := l.do(ctx, send{method: http.MethodOptions})
	if err != nil {
		return l.sendFailure(err)
	}
	drain(resp)
	return l.gateway(resp)
}

// gateway is the failure of a response that something between here and the server made because it did not reach it.
func (l *leg) gateway(resp *http.Response) error {
	switch resp.StatusCode {
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return l.statusFailure(resp)
	}
	return nil
}

// noted notes what a request shows of the server's life: that it answers, or that nobody takes connections. One that broke
// off shows nothing.
func (l *leg) noted(resp *http.Response, err error) {
	if err == nil {
		l.vitals.note(l.gateway(resp))
		return
	}
	if te, ok := errors.AsType[*transportError](err); ok && te.untouched {
		l.vitals.note(l.sendFailure(err))
	}
}

// Health returns nil if the server answers, else why not. It costs nothing while a connection is open or the last start
// succeeded, and over HTTP while calls show that it answers. Otherwise the server is asked or started, as for Open, but at most
// every 2 s; that goes on when ctx ends. The error is a *exchange.Failure or the cause of ctx.
func (u *Upstream) Health(ctx context.Context) error {
	if u.leg != nil {
		return u.leg.vitals.health(ctx, u.spawn, func() error {
			ctx, stop := u.opening(u.ctx)
			defer stop()
			return u.leg.reach(ctx)
		})
	}
	if u.steady() {
		return nil
	}
	return u.vitals.health(ctx, u.spawn, func() error {
		ctx, stop := u.opening(u.ctx)
		defer stop()
		v, _, err := u.resolve(ctx, true)
		if err == nil && !v.Modern {
			err = u.greet(ctx)
		}
		return err
	})
}

// steady reports whether the server runs or started the last time it was to.
func (u *Upstream) steady() bool {
	u.mu.Lock()
	known := u.verdict != nil && (u.proven || u.shared != nil || u.spare != nil)
	open := len(u.conns) > 0
	u.mu.Unlock()
	return known && (open || u.starts.wellSoFar())
}

// greet shakes hands and lets go. A server that can say no is one.
func (u *Upstream) greet(ctx context.Context) error {
	sess, err := u.openNoted(ctx, exchange.Client{Revision: poolRevision, Requested: poolRevision.String()})
	if err != nil {
		if refused(err) {
			return nil
		}
		return err
	}
	return sess.Close()
}

// wellSoFar reports whether the last start did not fail.
func (s *starts) wellSoFar() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.delay == 0
}
