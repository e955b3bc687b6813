// Package upstream connects to the MCP server behind the bridge: a child process on its standard
// streams, or any byte stream that carries newline-delimited JSON-RPC.
//
// An [Upstream] is an exchange.Handler. Each client of the handshake era gets a connection of its
// own, on which its own revision is offered; all clients of 2026-07-28 share one (translation.md 12).
// Eras are never mixed on a connection. Which eras the server speaks is found out by a probe on the
// first one (translation.md 4).
package upstream

import (
	"context"
	"errors"
	"io"
	"path/filepath"
	"sync"
	"time"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/negotiate"
)

// A Command starts a server that speaks on its standard streams. Its arguments and environment are
// never logged: they may hold secrets.
type Command struct {
	Path string   // program, looked up in PATH if it has no slash
	Args []string // without the program's name
	Dir  string   // working directory, which a relative Path is relative to; empty: the bridge's own

	// Env is the child's environment besides PATH, HOME, the locale and a few more that hold no secrets: NAME=VALUE sets a variable,
	// NAME passes the bridge's own on if it has one, and a * at the end of NAME stands for the rest of a name. "*" passes on
	// all.
	Env []string
}

// An Upstream is the server behind the bridge. It implements exchange.Handler. Methods may be called
// concurrently.
type Upstream struct {
	o    Options
	name string // for the log
	kind string // Verdict.Transport
	dial func(context.Context) (io.ReadWriteCloser, error)

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	wg     sync.WaitGroup // every goroutine the upstream started, connections included
	pool   *pool          // of handshake-era connections
	fault  error          // what is wrong with the options

	mu      sync.Mutex
	closed  bool
	verdict *Verdict // nil as long as nothing is known
	proven  bool     // a handshake has succeeded once, so the verdict does not rest on silence
	shared  *conn    // the connection of all modern clients; nil or ended when there is none
	spare   *conn    // probed and found legacy, for the next legacy session
	flight  *flight  // the probe or restart that is under way
	conns   map[*conn]struct{}
	held    int // connections, those about to be made included
	pace    pace

	starts starts
	vitals vitals
	leg    *leg // of HTTP+SSE; nil: another transport
}

// Stdio returns an upstream whose connections are child processes of c.
func Stdio(c Command, o *Options) *Upstream {
	u := newUpstream(filepath.Base(c.Path), o)
	u.kind = "stdio"
	u.dial = func(ctx context.Context) (io.ReadWriteCloser, error) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		return start(c, &u.o)
	}
	return u
}

// Pipe returns an upstream whose connections are made by dial. Bytes on them are newline-delimited
// JSON-RPC; Close of one must make its Read and Write return.
func Pipe(dial func(ctx context.Context) (io.ReadWriteCloser, error), o *Options) *Upstream {
	u := newUpstream("pipe", o)
	u.kind = "pipe"
	u.dial = dial
	return u
}

func newUpstream(name string, o *Options) *Upstream {
	u := &Upstream{o: o.withDefaults(), name: name, conns: make(map[*conn]struct{})}
	u.o.Logger = u.o.Logger.With("upstream", name)
	u.ctx, u.cancel = context.WithCancel(context.Background())
	u.pool = newPool(&u.o, u.openNoted, false)
	if err := u.o.Validate(); err != nil {
		u.fault = exchange.Fail(exchange.ReasonUnavailable, err)
	}
	return u
}

// Open starts a conversation. For a handshake-era client it connects to the server and offers the
// client's own revision; for a client of 2026-07-28, and wherever Options.Sharing says so, it costs nothing once
// the server is known. The session has the server's era where that is not the client's, but with Options.SameEra.
//
// The error is an *exchange.Error when the server refused the handshake, otherwise an
// *exchange.Failure: era_unsupported (with Served) when client and server have no era in common,
// upstream_unavailable when the server could not be started or ended during the handshake,
// upstream_version when it chose a revision that is none, upstream_busy at Options.MaxSessions.
func (u *Upstream) Open(ctx context.Context, c exchange.Client) (exchange.Session, error) {
	sess, err := u.openOwn(ctx, c)
	f, ok := errors.AsType[*exchange.Failure](err)
	if u.o.SameEra || !ok || f.Reason != exchange.ReasonEra {
		return sess, err
	}
	if c.Revision.Modern() {
		return u.pool.session(ctx, c, u.served(f.Served))
	}
	return u.openModern(ctx, c)
}

// openOwn opens a session of the client's own era.
func (u *Upstream) openOwn(ctx context.Context, c exchange.Client) (exchange.Session, error) {
	if c.Revision.Modern() {
		return u.openModern(ctx, c)
	}
	v, _, err := u.resolve(ctx, false)
	if err != nil {
		return nil, err
	}
	switch {
	case !v.Legacy:
		return nil, eraFailure(c.Revision, v.Served)
	case u.o.pools():
		return u.pool.session(ctx, c, u.served(v.Served))
	}
	return u.pool.makingRoom(ctx, func() (exchange.Session, error) { return u.openNoted(ctx, c) })
}

func (u *Upstream) openModern(ctx context.Context, c exchange.Client) (exchange.Session, error) {
	v, shared, err := u.resolve(ctx, true)
	if err != nil {
		return nil, err
	}
	if !v.Modern {
		if u.o.SameEra { // the session that follows shows it otherwise
			if err := u.verify(ctx, v); err != nil {
				return nil, err
			}
		}
		return nil, eraFailure(c.Revision, v.Served)
	}
	server := v.Server
	server.Served = u.served(v.Served)
	return newModernSession(u, shared, server), nil
}

// served returns what clients may speak through a server that speaks spoken.
func (u *Upstream) served(spoken negotiate.Set) negotiate.Set {
	if !u.o.SameEra {
		return negotiate.All
	}
	return spoken
}

// eraFailure is the refusal of a client whose era the server does not speak.
func eraFailure(client negotiate.Revision, served negotiate.Set) error {
	f := &exchange.Failure{Reason: exchange.ReasonEra, Served: served}
	if client.Modern() {
		f.Message = "the server behind the bridge speaks only the initialize handshake (MCP 2024-11-05 to 2025-11-25), not " +
			client.String() + " requests; connect with initialize"
	} else {
		f.Message = "the server behind the bridge speaks only MCP 2026-07-28, not the initialize handshake of " +
			client.String() + "; use a client that speaks 2026-07-28"
	}
	return f
}

// Close ends every connection and waits until all children are gone. It may be called more than once.
func (u *Upstream) Close() error {
	u.mu.Lock()
	u.closed = true
	conns := make([]*conn, 0, len(u.conns))
	for c := range u.conns {
		conns = append(conns, c)
	}
	u.mu.Unlock()
	u.cancel()
	for _, c := range conns {
		c.close()
	}
	u.pool.close()
	u.wg.Wait()
	return nil
}

// connect makes a connection, within Options.OpenTimeout.
func (u *Upstream) connect(ctx context.Context) (*conn, error) {
	if err := u.starts.admit(ctx); err != nil {
		return nil, err
	}
	if err := u.hold(); err != nil {
		return nil, err
	}
	rwc, err := u.dial(ctx)
	if err != nil {
		u.release(nil)
		if f, ok := errors.AsType[*exchange.Failure](err); ok {
			return nil, f
		}
		return nil, exchange.Fail(exchange.ReasonUnavailable, err)
	}
	c := newConn(rwc, &u.o)
	u.mu.Lock()
	defer u.mu.Unlock()
	u.conns[c] = struct{}{}
	u.wg.Go(func() { // until the connection has ended, which Close brings about at the latest
		c.run()
		u.release(c)
	})
	if u.closed {
		c.close()
		return nil, exchange.Fail(exchange.ReasonClosed, nil)
	}
	return c, nil
}

// hold reserves room for a connection.
func (u *Upstream) hold() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.closed {
		return exchange.Fail(exchange.ReasonClosed, nil)
	}
	if u.held >= u.o.MaxSessions {
		return &exchange.Failure{Reason: exchange.ReasonBusy, RetryAfter: busyRetryAfter}
	}
	u.held++
	return nil
}

const busyRetryAfter = 5 * time.Second

func (u *Upstream) release(c *conn) {
	u.mu.Lock()
	u.held--
	delete(u.conns, c)
	if u.spare == c {
		u.spare = nil
	}
	u.mu.Unlock()
	u.pool.room()
}

// spawn runs f in a goroutine that Close waits for. It returns false when the upstream has been closed.
func (u *Upstream) spawn(f func()) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.closed {
		return false
	}
	u.wg.Go(f)
	return true
}
