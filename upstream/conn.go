package upstream

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
	"github.com/mcp-dualstack/bridge/negotiate"
)

// A conn is one connection to the server: newline-delimited JSON-RPC both ways. It maps ids and
// progress tokens, and decides whose business each message of the server's is. Methods may be called
// concurrently.
type conn struct {
	o     *Options
	log   *slog.Logger
	rwc   io.ReadWriteCloser
	out   *outbox
	noise *noise
	since time.Time

	timeout time.Duration // of a call, where the transport has one; 0: none

	ctx    context.Context // ends when the connection is over; parent of what the server asks
	cancel context.CancelCauseFunc
	wg     sync.WaitGroup // the goroutines of questions
	lost   chan struct{}  // closed when the server's side has ended by itself
	closed chan struct{}  // closed when close was called
	once   sync.Once

	mu        sync.Mutex
	revision  negotiate.Revision // spoken here; None until that is known
	back      exchange.Peer      // for what belongs to no call; nil: nobody
	ended     error              // why the connection is over; nil while it is not
	lastID    int64
	calls     map[int64]*call
	questions questions
	ghosts    ghosts
}

// A call is a request that waits for the server. Its fields do not change but for asked, which mu of
// the connection guards.
type call struct {
	id       int64
	method   string
	ctx      context.Context // of this running exchange
	back     exchange.Peer
	token    []byte // the client's raw progress token, nil if it gave none
	internal bool   // the connector's own (probe, handshake): never the call that a message belongs to
	logs     bool   // carried a log level
	answer   chan outcome
	asked    []*question
	over     chan struct{} // closed when the call has been answered or its cancellation is on its way; made with the first question
}

type outcome struct {
	resp exchange.Response
	err  error
}

func newConn(rwc io.ReadWriteCloser, o *Options) *conn {
	c := &conn{
		o: o, log: o.Logger, rwc: rwc, since: time.Now(),
		out:    newOutbox(o.MaxQueueBytes, o.MaxAnswerBytes),
		noise:  &noise{log: o.Logger, level: slog.LevelWarn, text: "upstream said something unexpected"},
		lost:   make(chan struct{}),
		closed: make(chan struct{}),
		calls:  make(map[int64]*call),
	}
	c.ctx, c.cancel = context.WithCancelCause(context.Background())
	c.bind()
	return c
}

// run serves the connection until it is over and lets go of everything.
func (c *conn) run() {
	written, read := make(chan struct{}), make(chan struct{})
	var readErr error
	go func() { // until the outbox is finished or a write fails
		defer close(written)
		if err := c.out.run(c.rwc); err != nil {
			c.unwritable(err)
		}
	}()
	go func() { // until the input ends, which Close of rwc brings about
		defer close(read)
		readErr = c.read()
	}()
	select {
	case <-read:
		c.end(exchange.Fail(exchange.ReasonLost, readErr))
	case <-c.closed:
		c.drain(written)
	}
	c.out.abandon()
	if err := c.rwc.Close(); err != nil {
		c.log.Debug("close upstream connection", "err", err)
	}
	<-written
	<-read
	c.wg.Wait()
}

// drain waits until what was handed over has been written, CloseGrace at most.
func (c *conn) drain(written <-chan struct{}) {
	t := time.NewTimer(c.o.CloseGrace)
	defer t.Stop()
	select {
	case <-written:
	case <-t.C:
	}
}

// unwritable is called when the server takes no more input. What it said before is still read: a server
// may answer and leave.
func (c *conn) unwritable(err error) {
	t := time.NewTimer(c.o.CloseGrace)
	defer t.Stop()
	select {
	case <-c.ctx.Done():
	case <-t.C:
		c.end(exchange.Fail(exchange.ReasonLost, err))
		c.hangUp()
	}
}

// close ends the connection from here: calls in flight are cancelled and fail with session_closed. It
// does not wait for the server to go; run does.
func (c *conn) close() {
	c.end(exchange.Fail(exchange.ReasonClosed, nil))
	c.hangUp()
}

func (c *conn) hangUp() { c.once.Do(func() { close(c.closed) }) }

// end fails every call with the reason, and everything that comes later. Only the first reason counts.
func (c *conn) end(reason *exchange.Failure) {
	c.mu.Lock()
	if c.ended != nil {
		c.mu.Unlock()
		return
	}
	c.ended = reason
	byItself := reason.Reason == exchange.ReasonLost
	if byItself {
		close(c.lost) // before anybody hears of it: a call that is made again is not made here
	}
	for _, cl := range c.calls {
		if !byItself && !cl.internal {
			_ = c.out.force(cancelled(cl.id, "")) // the last word; the connection closes whether or not it fits
		}
		c.finish(cl, outcome{err: reason})
	}
	c.mu.Unlock()
	c.cancel(reason)
	c.out.finish()
}

// alive reports whether the connection can be used.
func (c *conn) alive() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ended == nil
}

// become sets what is spoken on the connection and who hears what belongs to no call.
func (c *conn) become(r negotiate.Revision, back exchange.Peer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.revision, c.back = r, back
}

// call asks the server. The error is the cause of ctx or a *exchange.Failure: upstream_lost,
// session_closed, or upstream_invalid for an answer that cannot be read.
func (c *conn) call(ctx context.Context, req exchange.Request, back exchange.Peer) (exchange.Response, error) {
	if ctx.Err() != nil {
		return exchange.Response{}, context.Cause(ctx)
	}
	if c.timeout > 0 && req.Method != methodListen {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeoutCause(ctx, c.timeout, errCallTimeout)
		defer stop()
	}
	cl := newCall(ctx, req, back)
	line, err := c.enter(cl, req)
	if err != nil {
		return exchange.Response{}, err
	}
	if err := c.out.push(ctx, line); err != nil {
		return c.unsent(cl, err)
	}
	if req.Sent != nil {
		req.Sent()
	}
	select {
	case a := <-cl.answer:
		return a.resp, a.err
	case <-ctx.Done():
		return c.takeBack(cl)
	}
}

func newCall(ctx context.Context, req exchange.Request, back exchange.Peer) *call {
	cl := &call{method: req.Method, ctx: ctx, back: back, answer: make(chan outcome, 1)}
	meta := jsonrpc.Get(req.Params, "_meta")
	if token := jsonrpc.Get(meta, negotiate.MetaProgressToken); !jsonrpc.IsNull(token) {
		cl.token = token
	}
	cl.logs = jsonrpc.Get(meta, negotiate.MetaLogLevel) != nil
	return cl
}

// enter gives the call its id and returns its line.
func (c *conn) enter(cl *call, req exchange.Request) ([]byte, error) {
	c.mu.Lock()
	if err := c.ended; err != nil {
		c.mu.Unlock()
		return nil, err
	}
	c.lastID++
	cl.id = c.lastID
	c.calls[cl.id] = cl
	c.mu.Unlock()

	params := req.Params
	if cl.token != nil {
		params = jsonrpc.Set(params, progressToken(cl.id), "_meta", negotiate.MetaProgressToken)
	}
	var space [20]byte
	id := strconv.AppendInt(space[:0], cl.id, 10)
	line := c.out.buffer(len(params) + len(req.Method) + 64)
	return endLine(jsonrpc.AppendRequest(line, id, req.Method, params)), nil
}

// endLine makes a message a line.
func endLine(msg []byte) []byte { return append(jsonrpc.OneLine(msg), '\n') }

// unsent takes a call out that could not be handed over.
func (c *conn) unsent(cl *call, err error) (exchange.Response, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended != nil {
		err = c.ended
	} else if errors.Is(err, errOutboxClosed) {
		err = exchange.Fail(exchange.ReasonLost, err)
	}
	c.finish(cl, outcome{err: err})
	return exchange.Response{}, err
}

// takeBack cancels a call whose ctx has ended, unless the answer was faster. What the server had asked because
// of it is withdrawn after the cancellation is on its way.
func (c *conn) takeBack(cl *call) (exchange.Response, error) {
	cause := context.Cause(cl.ctx)
	c.mu.Lock()
	_, open := c.calls[cl.id]
	if !open {
		c.mu.Unlock()
		a := <-cl.answer
		return a.resp, a.err
	}
	reason := ""
	if ce, ok := errors.AsType[*exchange.CancelError](cause); ok {
		reason = ce.Reason
	}
	err := c.out.force(cancelled(cl.id, reason))
	c.ghosts.add(cl.id)
	c.finish(cl, outcome{err: cause})
	c.mu.Unlock()
	if errors.Is(err, errOutboxFull) {
		c.notReading()
	}
	return exchange.Response{}, cause
}

// cancelled returns the line of notifications/cancelled for an id of ours.
func cancelled(id int64, reason string) []byte {
	params := append([]byte(nil), `{"requestId":`...)
	params = strconv.AppendInt(params, id, 10)
	if reason != "" {
		params = append(append(params, `,"reason":`...), jsonrpc.Quote(reason)...)
	}
	params = append(params, '}')
	return append(jsonrpc.AppendNotification(nil, "notifications/cancelled", params), '\n')
}

// finish ends a call. The caller holds mu.
func (c *conn) finish(cl *call, a outcome) {
	if _, open := c.calls[cl.id]; !open {
		return
	}
	delete(c.calls, cl.id)
	cl.answer <- a
	if cl.over != nil {
		close(cl.over)
	}
	cause := errCallOver
	if a.err != nil {
		cause = a.err
	}
	for _, q := range cl.asked {
		q.cancel(cause)
	}
}

var errCallOver error = &exchange.CancelError{Reason: "the call that this belongs to has ended"}

// notify tells the server and returns when the note has been queued.
func (c *conn) notify(ctx context.Context, note exchange.Request) error {
	c.mu.Lock()
	err := c.ended
	c.mu.Unlock()
	if err != nil {
		return err
	}
	err = c.out.push(ctx, endLine(jsonrpc.AppendNotification(nil, note.Method, note.Params)))
	if errors.Is(err, errOutboxClosed) {
		return exchange.Fail(exchange.ReasonLost, err)
	}
	if err == nil && note.Sent != nil {
		note.Sent()
	}
	return err
}

// tell queues a note without waiting for room.
func (c *conn) tell(note exchange.Request) error {
	err := c.out.force(endLine(jsonrpc.AppendNotification(nil, note.Method, note.Params)))
	c.mu.Lock()
	ended := c.ended
	c.mu.Unlock()
	switch {
	case ended != nil:
		return ended
	case err != nil:
		return exchange.Fail(exchange.ReasonLost, err)
	}
	return nil
}

// answer writes a message that cannot wait for room.
func (c *conn) answer(msg []byte) {
	if errors.Is(c.out.force(endLine(msg)), errOutboxFull) {
		c.notReading()
	}
}

// notReading ends the connection to a server that lets answers pile up without end.
func (c *conn) notReading() {
	c.log.Warn("upstream does not read what it asked for", "limit", c.o.MaxAnswerBytes)
	c.end(exchange.Fail(exchange.ReasonLost, errOutboxFull))
	c.hangUp()
}
