package upstream

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
	"github.com/mcp-dualstack/bridge/negotiate"
)

// A post is a call on its way: a POST, and the streams that carry its response.
type post struct {
	*call
	http     context.Context // of the HTTP requests of this running exchange; outlives the call's for the cancellation
	abandon  context.CancelCauseFunc
	written  atomic.Bool
	answered atomic.Bool // the response has begun and is no refusal
	began    func()      // the response has begun
	told     sync.Once

	elsewhere bool // its answer is to come on the standing stream; guarded by mu of the session
}

// overNow says that the server has answered the call or knows of its cancellation.
func (p *post) overNow() { p.told.Do(func() { close(p.over) }) }

// call sends a request and waits for its outcome.
func (s *streamSession) call(ctx context.Context, req exchange.Request, cl *call) (exchange.Response, error) {
	p := &post{call: cl}
	p.over = make(chan struct{})
	p.http, p.abandon = context.WithCancelCause(s.ctx)
	wrote, began := headStart(req.Sent)
	p.began = began

	s.mu.Lock()
	if s.ended != nil {
		s.mu.Unlock()
		p.abandon(nil)
		return exchange.Response{}, s.ended
	}
	s.lastID++
	p.id = s.lastID
	s.calls[p.id] = p
	body := requestBody(p.call, req)
	s.wg.Go(func() { s.carry(p, body, wrote) }) // ends with p.http at the latest
	s.mu.Unlock()

	select {
	case a := <-p.answer:
		return a.resp, a.err
	case <-ctx.Done():
		return s.takeBack(p)
	}
}

// headStart returns what is to be called when a request has been written and when its response begins, so that
// sent is called at the later of the first and orderGrace after it, or at the second.
func headStart(sent func()) (wrote, began func()) {
	if sent == nil {
		return func() {}, func() {}
	}
	once := sync.OnceFunc(sent)
	return func() { time.AfterFunc(orderGrace, once) }, once
}

// requestBody returns the message of a call, with its id and its progress token.
func requestBody(cl *call, req exchange.Request) []byte {
	params := req.Params
	if cl.token != nil {
		params = jsonrpc.Set(params, progressToken(cl.id), "_meta", negotiate.MetaProgressToken)
	}
	var space [20]byte
	return jsonrpc.AppendRequest(make([]byte, 0, len(params)+len(req.Method)+64), strconv.AppendInt(space[:0], cl.id, 10), req.Method, params)
}

// carry sends a call until it has an outcome: once, and once more if nothing of it was sent or if it may run twice
// (translation.md 1.5).
func (s *streamSession) carry(p *post, body []byte, wrote func()) {
	defer p.abandon(nil)
	for attempt := 0; ; attempt++ {
		err := s.attempt(p, body, wrote)
		if err == nil {
			return
		}
		if attempt == 0 && p.http.Err() == nil && again(err, p.method) && pauseFor(p.http, redialDelay) == nil {
			continue
		}
		s.fail(p, s.l.sendFailure(err))
		return
	}
}

// again reports whether a request that met with err may be sent again.
func again(err error, method string) bool {
	te, ok := errors.AsType[*transportError](err)
	return ok && (te.untouched || repeatable(method))
}

// attempt sends a call and reads its response. The error is nil when the call has its outcome or may get it on the
// standing stream.
func (s *streamSession) attempt(p *post, body []byte, wrote func()) error {
	resp, err := s.l.do(p.http, send{
		method: http.MethodPost, header: s.header(nil), body: body, authorization: s.authorize,
		wrote: func() { p.written.Store(true); wrote() },
	})
	if err != nil {
		return err
	}
	p.written.Store(true)
	p.answered.Store(resp.StatusCode/100 == 2) // a refusal says for itself what it means
	p.began()
	if p.internal && resp.StatusCode/100 == 2 {
		id := resp.Header.Get(negotiate.HeaderSession)
		if len(id) > maxSessionID {
			drain(resp)
			return exchange.Fail(exchange.ReasonInvalid, errSessionID)
		}
		s.mu.Lock()
		s.id = id
		s.mu.Unlock()
	}
	if isStream(resp) {
		return s.follow(p, resp)
	}
	defer drain(resp)
	return s.single(p, resp)
}

// maxSessionID bounds the Mcp-Session-Id that a server gives, which goes back with every request, in bytes.
const maxSessionID = 4 << 10

var errSessionID = errors.New("the id of the session is longer than 4 KiB")
