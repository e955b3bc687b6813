package streamable

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
	"github.com/mcp-dualstack/bridge/internal/pulse"
	core "github.com/mcp-dualstack/bridge/internal/session"
	"github.com/mcp-dualstack/bridge/negotiate"
)

// lateChoice is how long the type of a stateless answer may stay open (translation.md 9).
const lateChoice = 10 * time.Second

// errClientGone is the cause of a stateless request whose response stream was closed (2026-07-28
// streamable-http, Cancellation).
var errClientGone = &exchange.CancelError{Reason: "the client closed the response stream"}

// A stateless is one 2026-07-28 request being served.
type stateless struct {
	f      *Front
	c      *carrier
	m      *jsonrpc.Message
	claim  negotiate.Claim
	client exchange.Client
	header http.Header // Mcp-Param-* of tools/call
	in     form
	ctx    context.Context // of the HTTP request, without its end
	st     *stream
}

// statelessOf reads a request of 2026-07-28 (translation.md 3.1). It returns nil if it has refused it.
func (f *Front) statelessOf(c *carrier, r *http.Request, m *jsonrpc.Message, in form) *stateless {
	all := f.o.Enabled | negotiate.Modern
	claim, no := negotiate.CheckModern(r.Header, m, all, f.o.AcceptRawName)
	x := &stateless{f: f, c: c, m: m, claim: claim, client: f.client(r, f.o.Principal(r), ""), in: in}
	x.client.Revision, x.client.Info, x.client.Capabilities = negotiate.Rev20260728, claim.Info, claim.Capabilities
	x.client.Requested, _ = jsonrpc.String(claim.Version)
	if no != nil {
		if no.Err.Code == jsonrpc.CodeUnsupportedVersion {
			no.Err = negotiate.UnsupportedVersion(x.served(r), claim.Version)
		}
		c.refuse(r, m.ID, &refusal{status: no.Status, err: no.Err})
		return nil
	}
	if m.Method == methodListen && !in.stream {
		c.refuse(r, m.ID, refusedAcceptStream)
		return nil
	}
	if no := f.beginStateless(m.Method); no != nil {
		c.refuse(r, m.ID, no)
		return nil
	}
	if m.Method == "tools/call" {
		x.header = paramHeaders(r.Header)
	}
	x.ctx = context.WithoutCancel(r.Context())
	return x
}

// serve carries the request out and writes what comes of it.
func (x *stateless) serve() {
	defer x.f.endStateless(x.m.Method)
	ctx, cancel := context.WithCancelCause(x.ctx)
	defer cancel(nil)
	x.st = newStream(x.f, x.c)
	if x.m.Method == methodListen {
		x.listen(ctx, cancel)
		return
	}
	x.perform(ctx, cancel)
}

// perform carries a call out in this goroutine. Most calls have nothing to say but their answer, and that quickly; what another has
// to say before is written by a goroutine of its own.
func (x *stateless) perform(ctx context.Context, cancel context.CancelCauseFunc) {
	leave := context.AfterFunc(x.c.ctx, func() { cancel(errClientGone) })
	defer leave()
	x.f.onClose(x.c, cancel)
	x.c.help(func() {
		if err := x.stream(); err != nil {
			cancel(x.whyLeft())
		}
	})
	if x.in.stream {
		var late pulse.Alarm
		x.f.clock.AddFunc(&late, time.Now().Add(min(lateChoice, x.f.o.KeepAlive)), x.c.assist)
		defer late.Remove()
	}
	defer func() {
		if !x.st.isOver() { // a panic, on its way to net/http: nobody writes for a handler that has returned
			x.st.Finish(nil)
			x.c.alone()
		}
	}()
	x.run(ctx)
	if !x.c.alone() {
		return
	}
	if msg, a, only, _ := x.st.only(); only && (x.in.json || a.status > http.StatusOK) {
		x.c.answer(msg, a)
		return
	}
	_ = x.stream() // who is not there any more has no call to be cancelled
}

// listen carries a listen out in a goroutine of its own, for which it waits, and may wait here for days: what reads the request has
// returned, so that its frames do not keep the stack large.
func (x *stateless) listen(ctx context.Context, cancel context.CancelCauseFunc) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		x.run(ctx)
	}()
	x.f.onDrain(x.c, func() {
		x.st.Finish(jsonrpc.AppendResult(nil, x.m.ID, listenEnd(x.m.ID)))
		cancel(exchange.Fail(exchange.ReasonClosed, nil))
	})
	if err := x.write(); err != nil {
		cancel(x.whyLeft())
	}
	<-done
}

// whyLeft is the cause of a call whose answer cannot be written.
func (x *stateless) whyLeft() error {
	if x.f.ctx.Err() != nil {
		return context.Cause(x.f.ctx)
	}
	return errClientGone
}

// run carries the call out and ends the stream with its outcome.
func (x *stateless) run(ctx context.Context) {
	resp, err := x.call(ctx)
	id := x.m.ID
	if err != nil && context.Cause(ctx) == error(errClientGone) {
		x.st.Finish(nil)
		return
	}
	if err != nil && x.m.Method == methodListen && x.listenIsOver(err) {
		resp, err = exchange.Response{Result: listenEnd(id)}, nil
	}
	switch {
	case err != nil:
		x.f.o.Logger.Warn("request without an answer", "method", x.m.Method, "err", err)
		no := statelessRefusal(err, x.f.o.Enabled, x.claim.Version)
		x.st.finish(jsonrpc.AppendError(nil, id, no.err), answer{no.status, no.retryAfter, no.challenge})
	case resp.Error != nil:
		x.st.finish(jsonrpc.AppendError(nil, id, resp.Error), answer{status: statelessStatus(resp.Error.Code)})
	default:
		x.st.Finish(jsonrpc.AppendResult(nil, id, resp.Result))
	}
}

// call opens a conversation for this one request.
func (x *stateless) call(ctx context.Context) (exchange.Response, error) {
	open := x.f.h.Open
	if x.m.Method == methodListen {
		open = x.openAside
	}
	up, err := open(ctx, x.client)
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return exchange.Response{}, err
	}
	defer x.close(up)
	if x.m.Method == methodDiscover {
		return x.discovered(up), nil
	}
	back := &statelessPeer{st: x.st, drop: !x.in.stream}
	if x.m.Method == methodListen {
		back.subscription = x.m.ID
	}
	resp, err := up.Call(ctx, exchange.Request{Method: x.m.Method, Params: x.m.Params, Header: x.header}, back)
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err == nil && resp.Error == nil && back.subscription != nil {
		resp.Result = jsonrpc.Set(resp.Result, back.subscription, "_meta", negotiate.MetaSubscription)
	}
	return resp, err
}

// openAside opens a conversation on another stack than that on which a listen waits.
func (x *stateless) openAside(ctx context.Context, c exchange.Client) (up exchange.Session, err error) {
	core.Aside(func() { up, err = x.f.h.Open(ctx, c) })
	return up, err
}

// discovered answers server/discover.
func (x *stateless) discovered(up exchange.Session) exchange.Response {
	return exchange.Response{Result: discoverResult(up.Server(), x.servable(up.Server().Served))}
}

func (x *stateless) close(up exchange.Session) {
	if err := up.Close(); err != nil {
		x.f.o.Logger.Debug("close upstream session", "err", err)
	}
}

// write writes the answer to a listen, in the form that is chosen as late as it may. An error means that the client
// has gone or was cut off.
func (x *stateless) write() error {
	answered, err := x.choose()
	if answered || err != nil {
		return err
	}
	x.c.startLong()
	return x.c.carry(x.st)
}

// stream writes the answer as an event stream. The error is as that of write.
func (x *stateless) stream() error {
	x.c.startStream()
	return x.c.carry(x.st)
}

// choose waits until it is known what the answer is to look like, and writes it if it is one JSON text.
func (x *stateless) choose() (answered bool, err error) {
	late := time.Now().Add(min(lateChoice, x.f.o.KeepAlive))
	for {
		msg, a, only, begun := x.st.only()
		if only && (x.in.json || a.status > http.StatusOK) {
			x.c.answer(msg, a)
			return true, nil
		}
		if begun || x.in.stream && !time.Now().Before(late) {
			return false, nil
		}
		if x.in.stream {
			x.c.ring(late)
		}
		select {
		case <-x.c.wake:
		case <-x.c.gone:
			return false, errGone
		case <-x.f.ctx.Done():
			return false, errGone
		}
	}
}

// served returns what clients may speak here, for a refusal: what the server behind the bridge says, if it can
// be asked.
func (x *stateless) served(r *http.Request) negotiate.Set {
	ctx, cancel := x.f.context(r)
	defer cancel()
	up, err := x.f.h.Open(ctx, x.client)
	if err == nil {
		defer up.Close()
		return x.servable(up.Server().Served)
	}
	if f, ok := errors.AsType[*exchange.Failure](err); ok {
		return x.servable(f.Served)
	}
	return x.servable(0)
}

// servable returns what of s this front serves; all of it if s is not known.
func (x *stateless) servable(s negotiate.Set) negotiate.Set {
	all := x.f.o.Enabled | negotiate.Modern
	if s == 0 {
		return all
	}
	return s & all
}

// paramHeaders returns the Mcp-Param-* fields of h. It is not nil even without any: that none came says something (translation.md 11).
func paramHeaders(h http.Header) http.Header {
	out := http.Header{}
	for name, values := range h {
		if strings.HasPrefix(name, negotiate.HeaderParamPrefix) {
			out[name] = values
		}
	}
	return out
}

// A statelessPeer is a client of 2026-07-28 as the server sees it during one call. It can be told, never
// asked: what the server needs it says in the result (2026-07-28 basic/patterns/mrtr).
type statelessPeer struct {
	st           *stream
	drop         bool   // the client takes plain JSON only: there is no place for anything else
	subscription []byte // raw id of a listen, which goes on everything (translation.md 8.1); nil: none
}

func (p *statelessPeer) Notify(_ context.Context, note exchange.Request) error {
	params := note.Params
	switch {
	case p.drop:
		return nil
	case p.subscription != nil && (note.Method == "notifications/progress" || note.Method == "notifications/message"):
		return nil // never on a listen stream (2026-07-28 streamable-http, Receiving Messages)
	case p.subscription != nil:
		params = jsonrpc.Set(params, p.subscription, "_meta", negotiate.MetaSubscription)
	}
	return p.st.append(jsonrpc.AppendNotification(nil, note.Method, params), false)
}

func (p *statelessPeer) Call(context.Context, exchange.Request) (exchange.Response, error) {
	return exchange.Response{}, exchange.Fail(exchange.ReasonNoChannel, nil)
}
