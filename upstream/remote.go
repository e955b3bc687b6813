package upstream

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
	"github.com/mcp-dualstack/bridge/negotiate"
)

// A Connector is a handler that can say what it stands in front of: an Upstream or a Remote.
type Connector interface {
	exchange.Handler

	// Probe finds out which eras the server speaks, or says it if that is known.
	Probe(ctx context.Context) (Verdict, error)

	// Health returns nil if the server answers, else why not. It costs nothing while calls show that.
	Health(ctx context.Context) error

	// Close lets go of the server and waits until nothing of it is left. It may be called more than once.
	Close() error
}

// A Remote is the server behind a URL, of whatever era and HTTP transport it turns out to be
// (translation.md 4). It implements exchange.Handler. Methods may be called concurrently.
type Remote struct {
	o    Options
	url  string
	l    *leg
	pool *pool // of handshake-era sessions

	modern *stateless

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	wg     sync.WaitGroup // every goroutine the remote started

	mu       sync.Mutex
	closed   bool     // nothing new begins
	shut     bool     // and nothing else either
	verdict  *Verdict // nil as long as nothing is known
	until    time.Time
	nobodys  bool   // in pass-through mode: verdict or failed came of a probe without credentials
	views    *views // of the callers in pass-through mode; nil in any other
	proven   bool   // a handshake has succeeded under this verdict
	flights  map[string]*probing
	failed   error // the last probe's, until retry
	retry    time.Time
	delay    time.Duration // of the next retry
	held     int           // sessions, those about to begin or end included
	sessions map[*streamSession]struct{}
	sse      *Upstream // of a server of HTTP+SSE; nil: it never was one
}

// A probing is a probe that is under way; everybody with the same authorization waits for the same.
type probing struct {
	done    chan struct{} // closed when the rest is set
	verdict Verdict
	err     error
}

// URL returns the server behind an absolute http or https URL. Nothing is sent before the first Open or Probe. The error
// says what is wrong with the URL or the options; it shows neither credentials nor the query.
func URL(rawURL string, o *Options) (*Remote, error) {
	r := &Remote{o: o.withDefaults(), url: rawURL, flights: make(map[string]*probing), sessions: make(map[*streamSession]struct{})}
	if err := r.o.Validate(); err != nil {
		return nil, err
	}
	l, err := newLeg(rawURL, r.o.HTTP, r.spawn)
	if err != nil {
		return nil, err
	}
	r.l = l
	r.o.Logger = r.o.Logger.With("upstream", l.shown)
	r.ctx, r.cancel = context.WithCancel(context.Background())
	r.modern = newStateless(l, &r.o, r.doubt)
	if r.o.HTTP.PassThrough {
		r.views = newViews(r.o.HTTP.MaxCallers)
	}
	r.pool = newPool(&r.o, r.openLegacy, true)
	return r, nil
}

// Open starts a conversation. For a handshake-era client it shakes hands with the server and offers the client's own
// revision; for a client of 2026-07-28, and wherever Options.Sharing says so, it costs nothing once the server is known.
// The session has the server's era where that is not the client's, but with Options.SameEra.
//
// The error is an *exchange.Error when the server refused the handshake, otherwise an *exchange.Failure or the cause of
// ctx: era_unsupported (with Served) when client and server have no era in common, upstream_unavailable when the server
// cannot be reached or does not speak MCP, upstream_auth (with Status and Challenge in pass-through mode),
// upstream_timeout, upstream_busy (at Options.MaxSessions too), upstream_version, upstream_invalid.
func (r *Remote) Open(ctx context.Context, c exchange.Client) (exchange.Session, error) {
	v, err := r.resolve(ctx, c.Authorization)
	if err != nil {
		return nil, err
	}
	if inner := r.inner(); inner != nil && v.Transport == transportSSE {
		return inner.Open(ctx, c)
	}
	sess, err := r.openOwn(ctx, c, v)
	f, ok := errors.AsType[*exchange.Failure](err)
	if r.o.SameEra || !ok || f.Reason != exchange.ReasonEra {
		return sess, err
	}
	if c.Revision.Modern() {
		return r.pool.session(ctx, c, negotiate.All)
	}
	return r.openModern(ctx, c, r.known(v))
}

// openOwn opens a session of the client's own era.
func (r *Remote) openOwn(ctx context.Context, c exchange.Client, v Verdict) (exchange.Session, error) {
	switch modern := c.Revision.Modern(); {
	case modern && !v.Modern, !modern && !v.Legacy:
		return nil, eraFailure(c.Revision, v.Served)
	case modern:
		return r.openModern(ctx, c, v)
	case r.o.pools():
		return r.pool.session(ctx, c, r.served(v.Served))
	}
	return r.pool.makingRoom(ctx, func() (exchange.Session, error) { return r.openLegacy(ctx, c) })
}

func (r *Remote) openModern(ctx context.Context, c exchange.Client, v Verdict) (exchange.Session, error) {
	server, err := r.seenBy(ctx, c.Authorization, v)
	if err != nil {
		return nil, err
	}
	server.Served = r.served(v.Served)
	return &statelessSession{m: r.modern, server: server, auth: c.Authorization}, nil
}

// served returns what clients may speak through a server that speaks spoken.
func (r *Remote) served(spoken negotiate.Set) negotiate.Set {
	if !r.o.SameEra {
		return negotiate.All
	}
	return spoken
}

// openLegacy opens a session of its own.
func (r *Remote) openLegacy(ctx context.Context, c exchange.Client) (exchange.Session, error) {
	ctx, stop := r.opening(ctx)
	defer stop()
	if err := r.hold(); err != nil {
		return nil, err
	}
	s, err := openStream(ctx, r.l, &r.o, c, r.spawn, r.letGo)
	if err != nil {
		return nil, r.judge(err, c.Revision)
	}
	if err := r.enter(s); err != nil {
		return nil, err
	}
	s.server.Served = r.learn(s.server)
	r.o.Logger.Info("upstream session opened", "revision", s.server.Revision.String(), "offered", c.Revision.String())
	return s, nil
}

// opening bounds ctx by Options.OpenTimeout and the life of the remote.
func (r *Remote) opening(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithTimeoutCause(ctx, r.o.OpenTimeout, errOpenTimeout)
	ctx, end := context.WithCancelCause(ctx)
	stop := context.AfterFunc(r.ctx, func() { end(exchange.Fail(exchange.ReasonClosed, nil)) })
	return ctx, func() { stop(); end(nil); cancel() }
}

// hold reserves room for a session; letGo gives it back.
func (r *Remote) hold() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return exchange.Fail(exchange.ReasonClosed, nil)
	}
	if r.held >= r.o.MaxSessions {
		r.o.reached(BoundSessions)
		return &exchange.Failure{Reason: exchange.ReasonBusy, RetryAfter: busyRetryAfter}
	}
	r.held++
	return nil
}

func (r *Remote) letGo() {
	r.mu.Lock()
	r.held--
	r.mu.Unlock()
	r.pool.room()
}

// enter remembers a session so that Close ends it.
func (r *Remote) enter(s *streamSession) error {
	r.mu.Lock()
	if r.closed {
		r.mu.Unlock()
		_ = s.Close()
		return exchange.Fail(exchange.ReasonClosed, nil)
	}
	r.sessions[s] = struct{}{}
	context.AfterFunc(s.ctx, func() {
		r.mu.Lock()
		delete(r.sessions, s)
		r.mu.Unlock()
	})
	r.mu.Unlock()
	return nil
}

// spawn runs f in a goroutine that Close waits for. It returns false when the remote has been closed.
func (r *Remote) spawn(f func()) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.shut {
		return false
	}
	r.wg.Go(f)
	return true
}

// learn notes that a handshake has succeeded and returns what clients may speak.
func (r *Remote) learn(server exchange.Server) negotiate.Set {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.proven = true
	if r.verdict == nil {
		return r.served(negotiate.Legacy)
	}
	if !r.verdict.Modern {
		server.Served = r.verdict.Served
		v := *r.verdict
		v.Server = server
		r.verdict = &v
	}
	return r.served(r.verdict.Served)
}

// judge draws conclusions from a handshake that failed: a server that was thought to speak both eras and does not know
// initialize speaks one (translation.md 12), and any other that does not know it is to be probed again.
func (r *Remote) judge(err error, client negotiate.Revision) error {
	e, refused := errors.AsType[*exchange.Error](err)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.verdict == nil || r.o.Era == "legacy" {
		return err
	}
	unknown := refused && (e.Code == jsonrpc.CodeMethodNotFound || e.Code == jsonrpc.CodeUnsupportedVersion)
	switch {
	case unknown && r.verdict.Modern && !r.proven:
		v := *r.verdict
		v.Served, v.Server.Served = negotiate.Modern, negotiate.Modern
		v.Legacy = false
		r.verdict = &v
		return eraFailure(client, v.Served)
	case unknown, unavailable(err) && !r.verdict.Modern:
		r.until = time.Time{}
	}
	return err
}

// doubt lets the verdict count no longer: the server contradicted it.
func (r *Remote) doubt() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.verdict != nil {
		r.o.Logger.Warn("upstream is not what it was taken for; it is probed again")
		r.verdict = nil
	}
}

// known returns the newest verdict, v if there is none.
func (r *Remote) known(v Verdict) Verdict {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.verdict != nil {
		return *r.verdict
	}
	return v
}

func (r *Remote) inner() *Upstream {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.sse
}

// Close ends every session, at the server too, and waits until nothing is left. It may be called more than once.
func (r *Remote) Close() error {
	r.mu.Lock()
	r.closed = true
	sessions := make([]*streamSession, 0, len(r.sessions))
	for s := range r.sessions {
		sessions = append(sessions, s)
	}
	inner := r.sse
	r.mu.Unlock()
	for _, s := range sessions {
		_ = s.Close() // always nil
	}
	r.cancel()
	r.pool.close()
	r.mu.Lock()
	r.shut = true
	r.mu.Unlock()
	var err error
	if inner != nil {
		err = inner.Close()
	}
	r.wg.Wait()
	r.l.idle()
	return err
}
