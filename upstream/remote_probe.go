package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
	"github.com/mcp-dualstack/bridge/internal/sse"
	"github.com/mcp-dualstack/bridge/negotiate"
)

const (
	verdictLife      = time.Hour
	shakyVerdictLife = time.Minute // of one that rests on silence
	minProbeDelay    = 500 * time.Millisecond
	maxProbeDelay    = 10 * time.Second
)

// The transports of a Verdict.
const (
	transportStreamable = exchange.StreamableHTTP
	transportSSE        = exchange.HTTPSSE
)

// Probe finds out which eras and transport the server speaks, or says it if that is known. The errors are those of Open but
// era_unsupported and upstream_busy at MaxSessions; a probe that others wait for goes on.
func (r *Remote) Probe(ctx context.Context) (Verdict, error) { return r.resolve(ctx, "") }

// resolve returns the verdict. One that is too old is returned while a new one is sought.
func (r *Remote) resolve(ctx context.Context, auth string) (Verdict, error) {
	r.mu.Lock()
	if r.closed {
		r.mu.Unlock()
		return Verdict{}, exchange.Fail(exchange.ReasonClosed, nil)
	}
	now := time.Now()
	counts := r.countsFor(auth)
	if r.verdict == nil && r.failed != nil && now.Before(r.retry) && counts {
		defer r.mu.Unlock()
		return Verdict{}, later(r.failed, r.retry.Sub(now))
	}
	known := r.verdict != nil && counts
	p := r.flights[auth]
	if p == nil && (!known || now.After(r.until)) {
		p = &probing{done: make(chan struct{})}
		r.flights[auth] = p
		r.wg.Go(func() { r.fly(p, auth) }) // bounded by OpenTimeout
	}
	if known {
		defer r.mu.Unlock()
		return *r.verdict, nil
	}
	r.mu.Unlock()
	select {
	case <-p.done:
		return p.verdict, p.err
	case <-ctx.Done():
		return Verdict{}, context.Cause(ctx)
	}
}

// later returns a failure with the time after which trying again makes sense.
func later(err error, d time.Duration) error {
	f, ok := errors.AsType[*exchange.Failure](err)
	if !ok {
		return err
	}
	g := *f
	g.RetryAfter = max(g.RetryAfter, d)
	return &g
}

// fly finds the verdict out and settles it. Without one the next probe waits, a little longer each time; not so after a
// refusal of credentials, which cost the server nothing and may be others the next time.
func (r *Remote) fly(p *probing, auth string) {
	ctx, stop := r.opening(r.ctx)
	defer stop()
	found, err := r.examine(ctx, auth)
	var inner *Upstream
	if err == nil && found.Transport == transportSSE {
		if inner = r.inner(); inner == nil {
			inner, err = r.connectSSE()
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	defer close(p.done)
	delete(r.flights, auth)
	f, _ := errors.AsType[*exchange.Failure](err)
	switch {
	case err == nil:
		found.Server.Served = found.Served
		r.verdict, r.until, r.proven = &found.Verdict, time.Now().Add(found.life), false
		r.failed, r.delay = nil, 0
		r.unseen(auth)
		if inner != nil { // one from before keeps its sessions
			r.sse = inner
		}
		p.verdict = found.Verdict
		r.o.Logger.Info("upstream probed", "modern", found.Modern, "legacy", found.Legacy, "transport", found.Transport, "why", found.why)
	case f == nil || f.Reason != exchange.ReasonAuth && f.Reason != exchange.ReasonClosed:
		r.delay = min(max(2*r.delay, minProbeDelay), maxProbeDelay)
		r.failed, r.retry = err, time.Now().Add(r.delay)
		r.unseen(auth)
		fallthrough
	default:
		p.err = err
	}
}

// A discovery is what a probe of a URL found out.
type discovery struct {
	Verdict
	life time.Duration
	why  string // for the log
}

func legacyOver(transport, why string) discovery {
	return discovery{Verdict{Legacy: true, Served: negotiate.Legacy, Transport: transport}, 0, why}
}

// examine probes by the HTTP rows of translation.md 4: server/discover, then initialize, then a GET for an endpoint event.
func (r *Remote) examine(ctx context.Context, auth string) (discovery, error) {
	d, err := discovery{}, error(errUnsure)
	if r.o.Era != "legacy" {
		d, err = r.discover(ctx, auth)
	}
	silent := errors.Is(err, errSilent)
	if errors.Is(err, errUnsure) {
		if r.o.Era == "modern" {
			return d, exchange.Fail(exchange.ReasonVersion, errNotModern)
		}
		d, err = r.tryInitialize(ctx, auth)
	}
	if errors.Is(err, errUnsure) {
		d, err = r.tryEndpoint(ctx, auth, err)
	}
	if err != nil {
		return d, r.l.sendFailure(err)
	}
	if r.o.Era == "modern" {
		if !d.Modern {
			return d, exchange.Fail(exchange.ReasonVersion, errNotModern)
		}
		d.Legacy, d.Served = false, negotiate.Modern
	}
	d.life = verdictLife
	if silent {
		d.life = shakyVerdictLife
	}
	return d, nil
}

var (
	// errUnsure says that an answer gives no verdict and the next question may.
	errUnsure = errors.New("no JSON-RPC answer")
	// errSilent is an errUnsure without any answer.
	errSilent = fmt.Errorf("no answer to server/discover: %w", errUnsure)
)

// discover asks server/discover. The error is errUnsure when the next step is to be taken.
func (r *Remote) discover(ctx context.Context, auth string) (discovery, error) {
	for retried := false; ; retried = true {
		rep, err := r.askDiscover(ctx, auth)
		if err != nil {
			return discovery{}, err
		}
		d, again, err := r.weigh(rep)
		if !again {
			return d, err
		}
		if retried {
			return d, exchange.Fail(exchange.ReasonVersion, rep.answer.Error)
		}
	}
}

// askDiscover waits ProbeTimeout for an answer, or where the server must be modern as long as ctx lasts.
func (r *Remote) askDiscover(ctx context.Context, auth string) (reply, error) {
	soon := ctx
	if r.o.Era != "modern" {
		var cancel context.CancelFunc
		soon, cancel = context.WithTimeoutCause(ctx, r.o.ProbeTimeout, errSilent)
		defer cancel()
	}
	req := exchange.Request{Method: methodDiscover, Params: negotiate.WithEnvelope(nil, negotiate.Envelope{Version: negotiate.Rev20260728, Info: r.o.Info})}
	header, _ := r.modern.header(req, nil)
	cl := newCall(soon, req, nil)
	cl.id = r.modern.lastID.Add(1)
	rep, err := r.l.ask(soon, send{method: http.MethodPost, header: header, body: requestBody(cl, req), authorization: auth}, cl.id, r.o.MaxMessageBytes, ignore)
	if te, ok := errors.AsType[*transportError](err); ok && !te.untouched {
		return rep, errSilent // it hung up on what it did not know
	}
	return rep, err
}

func ignore(*jsonrpc.Message) {}

// weigh applies the table of translation.md 4. again says that the server speaks 2026-07-28 but refused this request for
// its version.
func (r *Remote) weigh(rep reply) (d discovery, again bool, err error) {
	status := rep.resp.StatusCode
	if status == http.StatusUnauthorized || status == http.StatusForbidden {
		return d, false, r.l.statusFailure(rep.resp)
	}
	e := rep.loose
	switch {
	case rep.answer != nil && rep.answer.Error == nil:
		return weighDiscover(rep.answer.Result), false, nil
	case rep.answer != nil:
		e = rep.answer.Error
	case e == nil || status/100 == 5:
		return d, false, r.noAnswer(rep.resp)
	}
	switch e.Code {
	case jsonrpc.CodeUnsupportedVersion:
		if negotiate.ReadSet(jsonrpc.Get(e.Data, "supported"))&negotiate.Modern != 0 {
			rep.answer = &exchange.Response{Error: e}
			return d, true, nil
		}
		return legacyOver(transportStreamable, "revision refused"), false, nil
	case jsonrpc.CodeHeaderMismatch, jsonrpc.CodeMissingCapability:
		if status == http.StatusBadRequest {
			r.o.Logger.Error("upstream refused the bridge's probe, which is a defect of one of the two", "err", e)
			d = discovery{Verdict: Verdict{Modern: true, Served: negotiate.Modern, Transport: transportStreamable}, why: "probe refused in the words of 2026-07-28"}
			d.Server.Revision = negotiate.Rev20260728
			return d, false, nil
		}
	}
	return legacyOver(transportStreamable, "discover refused"), false, nil
}

// noAnswer is errUnsure, or a failure for a status that says nothing of the server's era.
func (r *Remote) noAnswer(resp *http.Response) error {
	switch s := resp.StatusCode; {
	case s/100 == 3, s == http.StatusTooManyRequests, s == http.StatusBadGateway, s == http.StatusServiceUnavailable, s == http.StatusGatewayTimeout,
		s == http.StatusUnauthorized, s == http.StatusForbidden:
		return r.l.statusFailure(resp)
	}
	return fmt.Errorf("HTTP status %d: %w", resp.StatusCode, errUnsure)
}

// weighDiscover reads a DiscoverResult of 2026-07-28, or what came in its place.
func weighDiscover(result []byte) discovery {
	supported := negotiate.ReadSet(jsonrpc.Get(result, "supportedVersions"))
	if supported&negotiate.Modern == 0 {
		return legacyOver(transportStreamable, "no modern revision offered")
	}
	d := discovery{Verdict: Verdict{Modern: true, Served: negotiate.Modern, Server: readDiscover(result), Transport: transportStreamable}, why: "discover answered"}
	if supported&negotiate.Legacy != 0 {
		d.Legacy, d.Served = true, negotiate.All
	}
	return d
}

// tryInitialize shakes hands to see whether the server speaks JSON-RPC on POST at all, and lets go of the session.
func (r *Remote) tryInitialize(ctx context.Context, auth string) (discovery, error) {
	c := exchange.Client{Revision: poolRevision, Authorization: auth}
	req := exchange.Request{Method: "initialize", Params: r.o.initializeParams(c)}
	cl := newCall(ctx, req, nil)
	cl.id = r.modern.lastID.Add(1)
	header := http.Header{headerAccept: {acceptBoth}}
	rep, err := r.l.ask(ctx, send{method: http.MethodPost, header: header, body: requestBody(cl, req), authorization: auth}, cl.id, r.o.MaxMessageBytes, ignore)
	if err != nil {
		return discovery{}, err
	}
	if rep.answer == nil && (rep.loose == nil || rep.resp.StatusCode/100 == 5) {
		return discovery{}, r.noAnswer(rep.resp)
	}
	d := legacyOver(transportStreamable, "initialize answered")
	if rep.answer == nil {
		return d, nil
	}
	if e := rep.answer.Error; e != nil {
		if e.Code == jsonrpc.CodeMethodNotFound || e.Code == jsonrpc.CodeUnsupportedVersion {
			return d, exchange.Fail(exchange.ReasonUnavailable, fmt.Errorf("neither server/discover nor initialize: %w", e))
		}
		return d, nil
	}
	if d.Server, err = readInitialized(rep.answer.Result); err != nil {
		return d, err
	}
	r.dismiss(rep.resp.Header.Get(negotiate.HeaderSession), d.Server.Revision, auth)
	return d, nil
}

// dismiss ends a session that was opened to see whether it can be.
func (r *Remote) dismiss(id string, revision negotiate.Revision, auth string) {
	if id == "" {
		return
	}
	r.spawn(func() {
		ctx, cancel := context.WithTimeout(context.Background(), r.o.CloseGrace)
		defer cancel()
		header := http.Header{negotiate.HeaderSession: {id}, negotiate.HeaderVersion: {revision.String()}}
		if resp, err := r.l.do(ctx, send{method: http.MethodDelete, header: header, authorization: auth}); err == nil {
			drain(resp)
		}
	})
}

// tryEndpoint looks for the endpoint event of HTTP+SSE (2024-11-05 transports). why is what the questions before came to.
func (r *Remote) tryEndpoint(ctx context.Context, auth string, why error) (discovery, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, r.o.ProbeTimeout, exchange.Fail(exchange.ReasonUnavailable, fmt.Errorf("initialize: %w; and no endpoint event", why)))
	defer cancel()
	resp, err := r.l.do(ctx, send{method: http.MethodGet, header: http.Header{headerAccept: {typeStream}}, authorization: auth})
	if err != nil {
		return discovery{}, err
	}
	defer resp.Body.Close()
	if isStream(resp) {
		gate := &floodgate{r: resp.Body, most: mostOf(maxEndpointBytes)}
		gate.open()
		events := sse.NewReader(gate, maxEndpointBytes)
		switch ev, err := events.Next(); {
		case err == nil && ev.Name == "endpoint":
			return legacyOver(transportSSE, "endpoint event"), nil
		case ctx.Err() != nil:
			return discovery{}, context.Cause(ctx)
		case err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, sse.ErrTooLong):
			return discovery{}, &transportError{err: err}
		}
	} else if f := r.l.statusFailure(resp); f.Reason == exchange.ReasonAuth || f.Reason == exchange.ReasonBusy {
		return discovery{}, f
	}
	return discovery{}, exchange.Fail(exchange.ReasonUnavailable, fmt.Errorf("nothing at %s speaks MCP: initialize: %w; GET: HTTP status %d", r.l.shown, why, resp.StatusCode))
}

// maxEndpointBytes bounds the URL of an endpoint event.
const maxEndpointBytes = 64 << 10
