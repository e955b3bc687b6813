package upstream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
	"github.com/mcp-dualstack/bridge/internal/sse"
)

// An sseStream is one session of an HTTP+SSE server as lines of JSON-RPC: what comes as message events is read, what is written
// is posted, line by line in order. It implements io.ReadWriteCloser.
type sseStream struct {
	o     *Options
	l     *leg
	auth  string // the client's own Authorization; empty: the bridge's credentials
	noise *noise
	heard failures

	ctx    context.Context // of this running session; its cause says why it ended
	cancel context.CancelCauseFunc
	wg     sync.WaitGroup // the reader of the stream and the posts, all of which end with ctx

	base   *url.URL // of the stream
	body   io.Closer
	tap    *eventTap
	events *sse.Reader
	lines  *io.PipeReader
	in     *io.PipeWriter
	half   []byte // written, a line without its end so far

	mu       sync.Mutex
	endpoint *leg
	posts    map[int64]*posted // of requests that are being posted
}

// dialSSE opens a session: it waits for the header of the stream and for its endpoint, ResponseTimeout at most. The error is a
// *exchange.Failure or the cause of ctx.
func dialSSE(ctx context.Context, l *leg, o *Options) (*sseStream, error) {
	s := &sseStream{o: o, l: l, auth: authorization(ctx), posts: make(map[int64]*posted)}
	s.noise = &noise{log: o.Logger, level: slog.LevelWarn, text: "upstream said something unexpected"}
	s.ctx, s.cancel = context.WithCancelCause(context.Background())
	s.lines, s.in = io.Pipe()
	stop := context.AfterFunc(ctx, func() { s.cancel(context.Cause(ctx)) })
	late := time.AfterFunc(l.o.ResponseTimeout, func() { s.cancel(errNoStream) })
	err := s.open()
	inTime, wanted := late.Stop(), stop()
	if err == nil && inTime && wanted {
		return s, nil
	}
	if s.ctx.Err() != nil {
		err = context.Cause(s.ctx)
	}
	_ = s.Close() // always nil
	if f, ok := errors.AsType[*exchange.Failure](err); ok {
		return nil, f
	}
	return nil, l.sendFailure(err)
}

var errNoStream error = exchange.Fail(exchange.ReasonTimeout, errors.New("no stream with an endpoint event within ResponseTimeout"))

// open gets the stream and waits for the endpoint event, before which a server has nothing to say.
func (s *sseStream) open() error {
	resp, err := s.l.do(s.ctx, send{method: http.MethodGet, header: http.Header{headerAccept: {typeStream}}, authorization: s.auth})
	if err != nil {
		return err
	}
	s.body = resp.Body
	if !isStream(resp) {
		return s.noStream(resp)
	}
	s.base = resp.Request.URL
	s.tap = newEventTap(resp.Body, s.watch())
	s.tap.most = mostOf(s.o.MaxMessageBytes)
	s.events = sse.NewReader(s.tap, s.o.MaxMessageBytes)
	for {
		ev, err := s.events.Next()
		switch {
		case err != nil && !errors.Is(err, sse.ErrTooLong):
			return exchange.Fail(exchange.ReasonUnavailable, fmt.Errorf("the stream of %s ended before an endpoint event: %w", s.l.shown, err))
		case err == nil && ev.Name == eventEndpoint && !ev.NoData:
			if err := s.moveTo(string(ev.Data)); err != nil {
				return exchange.Fail(exchange.ReasonUnavailable, err)
			}
			return nil
		case err != nil || !ev.NoData:
			s.noise.report("event before the endpoint", nil)
		}
	}
}

// noStream is why a response is not the stream.
func (s *sseStream) noStream(resp *http.Response) error {
	f := s.l.statusFailure(resp)
	if f.Reason == exchange.ReasonInvalid {
		f.Reason = exchange.ReasonUnavailable
		f.Err = fmt.Errorf("%s answered the GET with status %d and content type %.40q, not with a stream of events",
			s.l.shown, resp.StatusCode, resp.Header.Get(headerContentType))
	}
	return f
}

const eventEndpoint = "endpoint"

// moveTo makes data, that of an endpoint event, the place to post to.
func (s *sseStream) moveTo(data string) error {
	u, err := resolveEndpoint(s.base, data, s.l.o.AllowOtherOrigin)
	if err != nil {
		return err
	}
	to := *s.l
	to.url = u.String() // shown stays: the path may name the session
	s.mu.Lock()
	defer s.mu.Unlock()
	s.endpoint = &to
	return nil
}

// bind begins to read the stream.
func (s *sseStream) bind(to failures) {
	s.heard = to
	s.wg.Go(func() { // until the stream ends, which the end of ctx brings about
		s.cancel(s.read())
		_ = s.in.CloseWithError(context.Cause(s.ctx)) // always nil
	})
}

// read hands over what the server says until the stream ends.
func (s *sseStream) read() error {
	for {
		ev, err := s.events.Next()
		switch {
		case errors.Is(err, sse.ErrTooLong):
			s.heard.oversize(s.tap.longLine())
		case err != nil:
			return fmt.Errorf("the stream ended: %w", err)
		case ev.Name == eventEndpoint && !ev.NoData:
			if err := s.moveTo(string(ev.Data)); err != nil {
				s.noise.report("endpoint ignored: "+err.Error(), nil)
			}
		case ev.Name == "" || ev.Name == "message":
			if err := s.deliver(ev.Data); err != nil {
				return err
			}
		}
	}
}

// deliver hands over what the server said, in one line. The error is why the session has ended.
func (s *sseStream) deliver(msg []byte) error {
	if len(bytes.TrimSpace(msg)) == 0 {
		return nil
	}
	line := jsonrpc.OneLine(msg)
	if e := readHead(line); !e.method {
		s.settled(e.id)
	}
	_, err := s.in.Write(append(line[:len(line):len(line)], '\n'))
	return err
}

// watch ends the session after StreamTimeout without a byte; the returned function is called at each. Nil: no timeout.
func (s *sseStream) watch() func() {
	d := s.l.o.StreamTimeout
	if d <= 0 {
		return nil
	}
	t := time.AfterFunc(d, func() { s.cancel(errStreamSilent) })
	context.AfterFunc(s.ctx, func() { t.Stop() })
	return func() { t.Reset(d) }
}

var errStreamSilent = errors.New("nothing on the stream within StreamTimeout")

// Read reads what the server said, a line for each message.
func (s *sseStream) Read(p []byte) (int, error) { return s.lines.Read(p) }

// Close ends the session and waits until nothing of it is left.
func (s *sseStream) Close() error {
	s.cancel(errHungUp)
	_ = s.lines.CloseWithError(errHungUp) // always nil
	if s.body != nil {
		_ = s.body.Close() // nothing more is read of it
	}
	s.wg.Wait()
	return nil
}

var errHungUp = errors.New("closed by the bridge")
