// Package bridge serves one MCP server to clients of every age behind one http.Handler.
//
// New assembles it: guard, router, retirement, the client transports, the ledger, and the server behind the
// seam of package exchange. The program cmd/bridge is this package with flags and a listener.
package bridge

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/internal/guard"
	"github.com/mcp-dualstack/bridge/internal/hijack"
	"github.com/mcp-dualstack/bridge/negotiate"
	"github.com/mcp-dualstack/bridge/streamable"
	"github.com/mcp-dualstack/bridge/telemetry"
	"github.com/mcp-dualstack/bridge/translate"
)

// LedgerFile is the name of the ledger in the state folder.
const LedgerFile = "ledger.db"

// A Bridge serves HTTP+SSE (2024-11-05), Streamable HTTP with sessions (2025-03-26 to 2025-11-25) and
// stateless Streamable HTTP (2026-07-28) for one server. It is an http.Handler for the listener of the clients; Admin
// is the one for the operator's. It may be mounted under a prefix with http.StripPrefix.
type Bridge struct {
	s          *settings
	up         exchange.Handler
	translated exchange.Handler // up, for clients of every era
	ledger     *telemetry.Ledger
	signals    *telemetry.Signals
	retirement *retirement
	mcp        *streamable.Front
	legacy     legacyRoutes
	serve      http.Handler    // of the clients' listener
	taken      *hijack.Streams // that are served outside of net/http; nil: all are served in it
	guard      *guard.Guard
	auth       *guard.Authenticator
	limiter    *guard.Limiter
	held       *guard.Budget // bytes of bodies
	challenges challenges
	unwatch    func() // ends the watch of the token file; nil: there is none

	draining atomic.Bool // Shutdown or Close was called
	ended    atomic.Bool // Close was called
	closing  sync.Once
	closed   error
}

// New returns a bridge in front of up; nil options mean all defaults. The error joins everything that is wrong
// with the options, or says why the ledger cannot be opened.
//
// The bridge owns up from here on: Close closes it if it is an io.Closer.
func New(up exchange.Handler, o *Options) (*Bridge, error) {
	if o == nil {
		o = &Options{}
	}
	b := &Bridge{up: up}
	var err error
	if b.s, b.guard, err = o.check(b.refused); err != nil {
		return nil, err
	}
	s := b.s
	if b.ledger, err = openLedger(s); err != nil {
		return nil, err
	}
	if b.retirement, err = b.openRetirement(); err != nil {
		return nil, errors.Join(err, b.ledger.Close())
	}
	if b.signals, err = b.openSignals(); err != nil {
		return nil, errors.Join(err, b.retirement.keeper.Close(), b.ledger.Close())
	}
	b.limiter, b.held = b.newLimiter(), guard.NewBudget(s.MaxBodyBytesInTotal)
	b.auth = b.newAuthenticator()
	b.watchTokens()
	b.translated = translate.Handler(b.signals.Upstream(up), s.translation(up, b.observe))
	h := b.quotas(s.access(b.challenging(b.signals.Served(b.ledger.Handler(b.translated)))))
	b.mcp = streamable.New(b.retirement.watch.counted(h), s.streamable(b.observe))
	b.legacy = newLegacyRoutes(h, s, b.retirement, b.admitted)
	b.serve = lastIfChunked(s.strict(b.guard.Handler(b.guard.CORS(b.untilClosed(b.countStreams(normalised(b.auth.Identify(b.routes()), s.prefix)))))))
	if s.Hijack {
		b.taken = hijack.New(b.serve, mayBeLong, s.Logger)
		b.serve = b.taken
	}
	return b, nil
}

// Check reports everything that is wrong with o, joined, without opening anything.
func (o *Options) Check() error {
	_, _, err := o.check(nil)
	return err
}

func openLedger(s *settings) (*telemetry.Ledger, error) {
	file := ""
	if s.State != "" {
		if err := os.MkdirAll(s.State, 0o700); err != nil {
			return nil, fmt.Errorf("make the state folder: %w", err)
		}
		file = filepath.Join(s.State, LedgerFile)
	}
	o := s.Ledger
	o.Logger = s.Logger
	l, err := telemetry.Open(file, &o)
	if err != nil {
		return nil, fmt.Errorf("open the ledger: %w", err)
	}
	return l, nil
}

// ServeHTTP serves clients.
func (b *Bridge) ServeHTTP(w http.ResponseWriter, r *http.Request) { b.serve.ServeHTTP(w, r) }

// untilClosed answers 503 once the bridge is closed. While it shuts down the fronts decide: a call in flight
// may need what its client still sends.
func (b *Bridge) untilClosed(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if b.ended.Load() {
			w.Header().Set("Retry-After", "5")
			answer(w, r, http.StatusServiceUnavailable, note{Error: "the bridge is shutting down; try again"})
			return
		}
		next.ServeHTTP(w, r)
	})
}

// observe records, counts and logs what the fronts report.
func (b *Bridge) observe(o exchange.Observation) {
	o.Principal, _ = b.s.rules.of(o.Principal) // the fronts' name for a caller tells what it may do, too
	b.ledger.Observe(o)
	b.signals.Observe(o)
}

// refused reports a request that the guard kept out.
func (b *Bridge) refused(r *http.Request, reason string) {
	b.observe(exchange.Observation{
		Kind: exchange.SeenRefused, Transport: b.transport(r), Principal: guard.IdentityOf(r).Principal, Addr: b.s.addr(r), UserAgent: r.UserAgent(), Detail: reason,
	})
}

// Unready makes readyz fail while everything is still served, so that a load balancer sends new clients elsewhere
// before any is refused.
func (b *Bridge) Unready() { b.draining.Store(true) }

// Drain refuses new work (503) and returns when no call is in flight, or with ctx's error. Streams stay open: a call may
// need them, and their clients would come back at once.
func (b *Bridge) Drain(ctx context.Context) error {
	b.Unready()
	return both(ctx, b.mcp.Drain, b.legacy.drain)
}

// Shutdown drains the bridge, ends every stream, not all at once where there are many, and closes it. It returns ctx's
// error if calls or streams had to be cut.
func (b *Bridge) Shutdown(ctx context.Context) error {
	err := b.Drain(ctx) // of both fronts, before either ends a stream
	err = errors.Join(err, both(ctx, b.mcp.Shutdown, b.legacy.shutdown))
	return errors.Join(err, b.Close())
}

// both calls the two at the same time.
func both(ctx context.Context, mcp, legacy shutdownFunc) error {
	var wg sync.WaitGroup
	var mcpErr, legacyErr error
	wg.Go(func() { mcpErr = mcp(ctx) })
	wg.Go(func() { legacyErr = legacy(ctx) })
	wg.Wait()
	return errors.Join(mcpErr, legacyErr)
}

// Close ends every stream and session at once, lets go of the server and writes the ledger. It may be called
// more than once.
func (b *Bridge) Close() error {
	b.draining.Store(true)
	b.ended.Store(true)
	b.closing.Do(func() {
		errs := []error{b.retirement.close(), b.mcp.Close(), b.legacy.close()}
		b.letGo()
		if b.unwatch != nil {
			b.unwatch()
		}
		for _, h := range []exchange.Handler{b.translated, b.up} { // suspended calls end before their sessions do
			if c, ok := h.(io.Closer); ok {
				errs = append(errs, c.Close())
			}
		}
		b.closed = errors.Join(append(errs, b.signals.Close(), b.ledger.Close())...)
	})
	return b.closed
}

// Revisions returns the dates of the MCP revisions that clients may speak, newest first.
func Revisions() []string { return negotiate.All.Strings() }
