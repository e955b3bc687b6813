package upstream

import (
	"context"
	"io"

	"github.com/mcp-dualstack/bridge/exchange"
)

// SSE returns an upstream whose connections are sessions of a server of HTTP+SSE (2024-11-05 transports): a GET for the stream
// of what the server says, and a POST for each message to it. rawURL is that of the stream, absolute http or https.
//
// A session cannot be resumed: when its stream breaks, or its endpoint no longer knows it, the connection has ended, and calls in
// flight fail with upstream_lost. Nothing is sent before the first Open or Probe. The error says what is wrong with the URL or
// the options; it shows neither credentials nor the query.
func SSE(rawURL string, o *Options) (*Upstream, error) {
	u := newUpstream(Shown(rawURL), o)
	if err := u.o.Validate(); err != nil {
		return nil, err
	}
	l, err := newLeg(rawURL, u.o.HTTP, u.spawn)
	if err != nil {
		return nil, err
	}
	u.overSSE(l)
	return u, nil
}

// overSSE makes the connections of u sessions of HTTP+SSE.
func (u *Upstream) overSSE(l *leg) {
	u.kind, u.leg = transportSSE, l
	if l.o.PassThrough && u.o.Era != "modern" {
		u.o.Era = "legacy" // a probe would have no credentials, and its connection would be nobody's
	}
	u.dial = func(ctx context.Context) (io.ReadWriteCloser, error) { return dialSSE(ctx, l, &u.o) }
	context.AfterFunc(u.ctx, l.idle)
}

// connectSSE returns the connector of an HTTP+SSE server. Its era is known: the remote has asked.
func (r *Remote) connectSSE() (*Upstream, error) {
	o := r.o
	o.Era = "legacy"
	u := newUpstream(r.l.shown, &o)
	l := *r.l
	l.spawn = u.spawn
	u.overSSE(&l)
	return u, nil
}

// A failing connection can tell that a single request failed, while the connection goes on.
type failing interface {
	// bind is called once, before the connection is used.
	bind(failures)
}

// failures is who hears of requests that failed. Methods may be called concurrently.
type failures interface {
	// fail ends the call of that id, if it is still open.
	fail(id int64, err error)

	// oversize is told of a message over the limit.
	oversize(*longLine)
}

func (c *conn) fail(id int64, err error) { c.settle(id, outcome{err: err}) }

func (c *conn) oversize(l *longLine) { c.tooLong(l) }

// bind makes the connection hear of failed requests where its transport can tell.
func (c *conn) bind() {
	if f, ok := c.rwc.(failing); ok {
		f.bind(c)
		c.timeout = c.o.HTTP.CallTimeout
	}
}

// authorizationKey is the key of the context value by which an opening session's own Authorization gets to dial.
type authorizationKey struct{}

func withAuthorization(ctx context.Context, c exchange.Client) context.Context {
	if c.Authorization == "" {
		return ctx
	}
	return context.WithValue(ctx, authorizationKey{}, c.Authorization)
}

func authorization(ctx context.Context) string {
	s, _ := ctx.Value(authorizationKey{}).(string)
	return s
}
