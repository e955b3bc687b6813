package upstream

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
	"github.com/mcp-dualstack/bridge/negotiate"
)

// A post is a call on its way: a POST, and the streams that carry its response.
type post struct {
	*call
	http    context.Context // of the HTTP requests of this running exchange; outlives the call's for the cancellation
	abandon context.CancelCauseFunc
	written atomic.Bool
	began   func() // the response has begun
	told    sync.Once
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
		s.settle(p.id, outcome{err: s.l.sendFailure(err)})
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
	p.began()
	if p.internal && resp.StatusCode/100 == 2 {
		s.mu.Lock()
		s.id = resp.Header.Get(negotiate.HeaderSession)
		s.mu.Unlock()
	}
	if isStream(resp) {
		return s.follow(p, resp)
	}
	defer drain(resp)
	return s.single(p, resp)
}

// single reads a response that is one JSON text. Whatever the status, a response with the call's id is the answer.
func (s *streamSession) single(p *post, resp *http.Response) error {
	text, err := readBody(resp, s.o.MaxMessageBytes)
	if errors.Is(err, errOversize) {
		return exchange.Fail(exchange.ReasonInvalid, err)
	}
	if err != nil {
		return err
	}
	var loose, broken *exchange.Error
	each(text, s.batches(), func(m *jsonrpc.Message) bool {
		id, ok := ownID(m.ID)
		switch {
		case m.Kind == jsonrpc.Response && ok && id == p.id:
			if !s.sessionGone(resp.StatusCode, m.Error) {
				s.message(m, p)
			}
		case m.Kind == jsonrpc.Response && m.ID == nil:
			loose = m.Error
		case resp.StatusCode/100 == 2:
			s.message(m, p)
		}
		return true
	}, func(_ *jsonrpc.Message, err *jsonrpc.Error) { broken = err })
	switch {
	case !s.pending(p):
		return nil
	case s.hasID() && (resp.StatusCode == http.StatusNotFound || s.sessionGone(resp.StatusCode, loose)):
		s.lose()
		return nil
	case resp.StatusCode == http.StatusAccepted && s.hears():
		return nil // some servers answer on the standing stream
	}
	failure := s.l.statusFailure(resp)
	if loose != nil && failure.Reason != exchange.ReasonAuth && failure.Reason != exchange.ReasonBusy {
		s.settle(p.id, outcome{resp: exchange.Response{Error: loose}})
		return nil
	}
	if resp.StatusCode/100 == 2 && broken != nil {
		failure.Err = broken
	}
	return failure
}

// sessionGone reports whether an error says that the server does not know the session: with status 404 an error of the
// transport's, and with 400 the wording of the TypeScript SDK's examples, which many servers copied.
func (s *streamSession) sessionGone(status int, e *exchange.Error) bool {
	if e == nil || !s.hasID() || e.Code > -32000 || e.Code < -32019 && e.Code != jsonrpc.CodeInvalidRequest {
		return false
	}
	return status == http.StatusNotFound || status == http.StatusBadRequest && strings.Contains(strings.ToLower(e.Message), "session")
}

func (s *streamSession) hasID() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.id != ""
}

func (s *streamSession) hears() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.listening
}

// pending reports whether a call has no outcome yet.
func (s *streamSession) pending(p *post) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls[p.id] == p
}

// follow reads the stream of a call until the answer has come. A stream that breaks is resumed where it can be
// (2025-11-25 transports, Resumability and Redelivery).
func (s *streamSession) follow(p *post, resp *http.Response) error {
	var ev events
	for idle := 0; ; idle++ {
		before := ev.count
		err := ev.read(resp.Body, s.o.MaxMessageBytes, func(data []byte) bool {
			if data == nil {
				s.settle(p.id, outcome{err: exchange.Fail(exchange.ReasonInvalid, errOversize)})
				return false
			}
			s.text(data, p)
			return s.pending(p)
		})
		if err == nil || !s.pending(p) {
			drain(resp)
			return nil
		}
		_ = resp.Body.Close()
		if p.http.Err() != nil {
			return context.Cause(p.http)
		}
		if ev.count > before {
			idle = 0
		}
		if ev.lastID == "" || idle >= maxResumes {
			return err
		}
		if resp, err = s.resume(p, &ev); err != nil || resp == nil {
			return err
		}
	}
}

const (
	maxResumes   = 6                      // attempts without any event before a stream counts as lost
	resumeDelay  = 250 * time.Millisecond // where the server has not said
	maxReconnect = 30 * time.Second
)

// resume asks for what follows the last event. The response is nil when the session turned out to be lost. The error says
// that the stream is.
func (s *streamSession) resume(p *post, ev *events) (*http.Response, error) {
	delay := ev.delay()
	for tries := 0; ; tries++ {
		if err := pauseFor(p.http, min(delay<<tries, max(delay, maxReconnect))); err != nil {
			return nil, err
		}
		resp, err := s.l.begin(p.http, s.standing(ev.lastID))
		switch {
		case err != nil && p.http.Err() != nil:
			return nil, context.Cause(p.http)
		case errors.Is(err, syscall.ECONNREFUSED):
			return nil, &transportError{err: err} // the server is gone, and what it kept with it
		case err == nil && isStream(resp):
			return resp, nil
		case err == nil && resp.StatusCode == http.StatusNotFound && s.hasID():
			drain(resp)
			s.lose()
			return nil, nil
		case err == nil:
			drain(resp)
			err = &transportError{err: s.l.statusFailure(resp).Err}
			if resp.StatusCode/100 != 5 && resp.StatusCode != http.StatusTooManyRequests {
				return nil, err
			}
		}
		if tries+1 >= maxResumes {
			return nil, &transportError{err: err}
		}
	}
}

// delay returns how long to wait before a broken stream is asked for again.
func (e *events) delay() time.Duration {
	if e.retry > 0 {
		return e.retry
	}
	return resumeDelay
}

// standing returns a GET for events: those that follow the one of that id, or the standing stream.
func (s *streamSession) standing(lastID string) send {
	more := http.Header{headerAccept: {typeStream}}
	if lastID != "" {
		more[negotiate.HeaderLastEventID] = []string{lastID}
	}
	return send{method: http.MethodGet, header: s.header(more), authorization: s.authorize}
}

// settle ends the call of that id. A late answer is dropped: the call has been cancelled.
func (s *streamSession) settle(id int64, a outcome) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.calls[id]; p != nil {
		s.finish(p, a)
		p.overNow()
	}
}

// finish takes a call out. The caller holds mu and sees to p.overNow.
func (s *streamSession) finish(p *post, a outcome) {
	delete(s.calls, p.id)
	p.answer <- a
	cause := errCallOver
	if a.err != nil {
		cause = a.err
	}
	for _, q := range p.asked {
		q.cancel(cause)
	}
}

// takeBack cancels a call whose ctx has ended, unless the answer was faster. The response stream stays until the
// cancellation has been sent, because to lose it means nothing (2025-11-25 transports, Sending Messages to the Server).
func (s *streamSession) takeBack(p *post) (exchange.Response, error) {
	cause := context.Cause(p.ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.calls[p.id] != p {
		a := <-p.answer
		return a.resp, a.err
	}
	s.finish(p, outcome{err: cause})
	if !p.written.Load() {
		p.abandon(cause)
	}
	reason := ""
	if ce, ok := errors.AsType[*exchange.CancelError](cause); ok {
		reason = ce.Reason
	}
	s.wg.Go(func() { // bounded by ResponseTimeout
		defer p.abandon(cause)
		defer p.overNow()
		if err := s.say(s.ctx, cancelled(p.id, reason)); err != nil {
			s.log.Debug("cancel upstream call", "err", err)
		}
	})
	return exchange.Response{}, cause
}

// say posts a notification or an answer and waits until the server has taken it.
func (s *streamSession) say(ctx context.Context, msg []byte) error {
	s.mu.Lock()
	ended := s.ended
	s.mu.Unlock()
	if ended != nil {
		return ended
	}
	ctx, stop := s.within(ctx)
	defer stop()
	err := s.deliver(ctx, msg)
	if te, ok := errors.AsType[*transportError](err); ok && te.untouched && pauseFor(ctx, redialDelay) == nil {
		err = s.deliver(ctx, msg)
	}
	if err == nil {
		return nil
	}
	return s.l.sendFailure(err)
}

// within bounds ctx by ResponseTimeout and the life of the session.
func (s *streamSession) within(ctx context.Context) (context.Context, func()) {
	ctx, cancel := s.l.soon(ctx)
	ctx, end := context.WithCancelCause(ctx)
	stop := context.AfterFunc(s.ctx, func() { end(context.Cause(s.ctx)) })
	return ctx, func() { stop(); end(nil); cancel() }
}

// deliver posts a message that has no answer.
func (s *streamSession) deliver(ctx context.Context, msg []byte) error {
	resp, err := s.l.do(ctx, send{method: http.MethodPost, header: s.header(nil), body: msg, authorization: s.authorize})
	if err != nil {
		return err
	}
	defer drain(resp)
	if resp.StatusCode/100 == 2 {
		return nil
	}
	if s.hasID() && (resp.StatusCode == http.StatusNotFound || s.sessionGone(resp.StatusCode, looseError(resp))) {
		s.lose()
		return exchange.Fail(exchange.ReasonSessionLost, nil)
	}
	return s.l.statusFailure(resp)
}

// looseError returns the error in a response to a message that has no answer, nil if there is none.
func looseError(resp *http.Response) *exchange.Error {
	text, err := readBody(resp, 64<<10)
	if err != nil {
		return nil
	}
	m, _ := jsonrpc.Scan(text)
	return m.Error
}
