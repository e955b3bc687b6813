package upstream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
)

const (
	// ackWait is how long the next line waits for the response to the POST of a request, once that has been sent. The response says
	// only that the message has come, and the order of lines rests on it; but there are servers that give it together with
	// the answer, and they must be able to hear what belongs to the call meanwhile (an answer to their question, a cancellation).
	ackWait = 250 * time.Millisecond

	// noteWait is the same for what has no answer.
	noteWait = 5 * time.Second
)

// BoundPosts is for Options.Bound: HTTPOptions.MaxPosts.
const BoundPosts = "posts"

// A posted is a line on its way.
type posted struct {
	id    int64 // of a request; 0: it is none
	line  []byte
	slow  *time.Timer   // ends the POST
	sent  chan struct{} // closed when the request is on the wire
	acked chan struct{} // closed when the header of the response is here, or it is known why there is none
	over  chan struct{} // closed when nobody waits for an answer any more
	done  bool          // over is closed; guarded by mu of the stream
}

// Write posts the lines that p completes, each when the one before has arrived. The error is why the session has ended.
func (s *sseStream) Write(p []byte) (int, error) {
	n := len(p)
	for {
		line, rest, whole := bytes.Cut(p, newline)
		s.half = append(s.half, line...)
		if !whole {
			return n, nil
		}
		line, s.half, p = s.half, nil, rest
		if err := s.send(line); err != nil {
			return 0, err
		}
	}
}

var newline = []byte("\n")

// send posts a line and returns when the next may follow.
func (s *sseStream) send(line []byte) error {
	p := &posted{line: line, sent: make(chan struct{}), acked: make(chan struct{}), over: make(chan struct{})}
	wait := noteWait
	switch m, _ := jsonrpc.Scan(line); { // the connection wrote it, so it is a message
	case m.Kind == jsonrpc.Request:
		p.id, _ = ownID(m.ID)
		wait = ackWait
	case m.Method == "notifications/cancelled":
		s.settled(jsonrpc.Get(m.Params, "requestId"))
	}
	ctx, cancel := context.WithCancelCause(s.ctx)
	p.slow = time.AfterFunc(s.l.o.ResponseTimeout, func() { cancel(errSlow) })
	if err := s.enter(p); err != nil {
		cancel(nil)
		p.slow.Stop()
		s.heard.fail(p.id, err)
		return nil
	}
	s.wg.Go(func() { // until the POST has ended, which its timeout or the end of ctx brings about
		defer cancel(nil)
		s.post(ctx, p)
		s.leave(p)
	})
	return s.arrival(p, wait)
}

// arrival waits until a line has arrived, or may be taken to have: wait after it was sent.
func (s *sseStream) arrival(p *posted, wait time.Duration) error {
	select {
	case <-p.sent:
	case <-p.acked:
		return nil
	case <-s.ctx.Done():
		return context.Cause(s.ctx)
	}
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case <-p.acked:
	case <-p.over:
	case <-t.C:
	case <-s.ctx.Done():
		return context.Cause(s.ctx)
	}
	return nil
}

// enter counts a request in. The error is upstream_busy for one too many.
func (s *sseStream) enter(p *posted) error {
	if p.id == 0 {
		return nil
	}
	s.mu.Lock()
	full := len(s.posts) >= s.l.o.MaxPosts
	if !full {
		s.posts[p.id] = p
	}
	s.mu.Unlock()
	if full {
		s.o.reached(BoundPosts)
		return &exchange.Failure{Reason: exchange.ReasonBusy, RetryAfter: busyRetryAfter, Err: errPosts}
	}
	return nil
}

var errPosts = errors.New("too many requests that the server has not acknowledged")

func (s *sseStream) leave(p *posted) {
	p.slow.Stop()
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.posts, p.id)
}

// wire notes that a post is on the wire. A request may wait for the response to its POST as long as it waits for its answer;
// everything else has ResponseTimeout.
func (s *sseStream) wire(p *posted) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.id != 0 && !p.done {
		p.slow.Stop()
	}
	select {
	case <-p.sent: // a redirect sends it again
	default:
		close(p.sent)
	}
}

// settled notes that nobody waits for the answer to the request of that raw id any more.
func (s *sseStream) settled(raw []byte) {
	id, ok := ownID(raw)
	if !ok {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.posts[id]; p != nil && !p.done {
		p.done = true
		close(p.over)
		p.slow.Reset(s.l.o.ResponseTimeout)
	}
}

// post sends the line and deals with the response.
func (s *sseStream) post(ctx context.Context, p *posted) {
	s.mu.Lock()
	to := s.endpoint
	s.mu.Unlock()
	resp, err := to.do(ctx, send{
		method: http.MethodPost, header: http.Header{headerAccept: {acceptBoth}}, body: p.line, authorization: s.auth,
		wrote: func() { s.wire(p) },
	})
	close(p.acked)
	if err != nil {
		s.failed(p, to.sendFailure(err))
		return
	}
	defer resp.Body.Close()
	p.slow.Reset(s.l.o.ResponseTimeout)
	body, err := readBody(resp, s.o.MaxMessageBytes)
	if resp.StatusCode/100 == 2 && errors.Is(err, errOversize) {
		s.failed(p, tooLargeAnswer(s.o.MaxMessageBytes, err))
		return
	}
	s.weigh(p, to, resp, body)
}

// weigh deals with the response to a POST (translation.md 13).
func (s *sseStream) weigh(p *posted, to *leg, resp *http.Response, body []byte) {
	answer, own := s.answerIn(p, body)
	if own {
		_ = s.deliver(answer) // unless the session has ended
		return
	}
	switch resp.StatusCode {
	case http.StatusNotFound, http.StatusGone:
		s.cancel(fmt.Errorf("the endpoint does not know the session: HTTP status %d", resp.StatusCode))
		return
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusTooManyRequests, http.StatusServiceUnavailable: // the status says more
		answer = nil
	}
	switch {
	case answer != nil:
		_ = s.deliver(answer)
	case resp.StatusCode/100 != 2:
		s.failed(p, to.statusFailure(resp))
	}
}

// answerIn returns the answer to a request in the body of the response to its POST, nil if there is none: a response with its
// id (own), or an error without one, which gets it.
func (s *sseStream) answerIn(p *posted, body []byte) (answer []byte, own bool) {
	if p.id == 0 || !jsonrpc.IsObject(body) {
		return nil, false
	}
	m, fault := jsonrpc.Scan(body)
	if fault != nil || m.Kind != jsonrpc.Response {
		return nil, false
	}
	if id, ok := ownID(m.ID); ok && id == p.id {
		return m.Raw, true
	}
	if m.ID == nil && m.Error != nil {
		return jsonrpc.AppendError(nil, strconv.AppendInt(nil, p.id, 10), m.Error), false
	}
	return nil, false
}

// failed ends the call of a request, or reports that something else was not taken.
func (s *sseStream) failed(p *posted, err error) {
	switch {
	case s.ctx.Err() != nil:
	case p.id == 0:
		s.noise.report("message not taken: "+err.Error(), nil)
	default:
		s.heard.fail(p.id, err)
	}
}
