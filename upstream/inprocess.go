package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptrace"
	"runtime/debug"
	"sync"
)

// InProcess returns the server that h is: a Go server's own handler, of whatever era and HTTP transport, called without a
// socket. Its requests are for http://localhost/mcp; use URL with HandlerTransport for a handler that is served elsewhere.
// Options.HTTP.RoundTripper is not used. The error says what is wrong with the options.
func InProcess(h http.Handler, o *Options) (*Remote, error) {
	var d Options
	if o != nil {
		d = *o
	}
	var web HTTPOptions
	if d.HTTP != nil {
		web = *d.HTTP
	}
	web.RoundTripper = HandlerTransport(h, d.Logger)
	d.HTTP = &web
	return URL("http://localhost/mcp", &d)
}

// HandlerTransport returns a RoundTripper whose server is h, for HTTPOptions.RoundTripper. Requests look to h as if they came over
// HTTP/1.1 from the loopback interface. Responses stream: what h writes can be read at once, at most 64 KiB are kept for a
// reader that is slow, and then Write waits. When the request's context ends or the body is closed, the context of h ends and
// its writes fail. A panic of h breaks the response, as a connection that is lost does; logger, if not nil, hears of it.
//
// A ResponseWriter has Flush, and deadlines through http.ResponseController; it cannot be hijacked and has no trailers.
func HandlerTransport(h http.Handler, logger *slog.Logger) http.RoundTripper {
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	return &handlerTransport{h: h, log: logger}
}

type handlerTransport struct {
	h   http.Handler
	log *slog.Logger
}

// RoundTrip calls the handler and returns when it has begun to answer.
func (t *handlerTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	trace := httptrace.ContextClientTrace(req.Context())
	body := &requestBodyReader{rc: req.Body}
	if err := req.Context().Err(); err != nil {
		body.close()
		return nil, err
	}
	if trace != nil && trace.GotConn != nil {
		trace.GotConn(httptrace.GotConnInfo{})
	}
	ctx, cancel := context.WithCancelCause(context.Background()) // a server does not see what its client's context holds
	w := newInnerWriter(req, trace, cancel)
	stop := context.AfterFunc(req.Context(), func() { w.abandon(context.Cause(req.Context())) })
	inner := innerRequest(ctx, req, body)
	go func() { // until the handler returns, which the end of its context is to bring about
		defer stop()
		defer body.close()
		defer cancel(errAnswered)
		t.serve(w, inner)
	}()
	if trace != nil && trace.WroteRequest != nil {
		trace.WroteRequest(httptrace.WroteRequestInfo{})
	}
	return w.response()
}

var errAnswered = errors.New("the handler has returned")

// serve calls the handler and ends the response.
func (t *handlerTransport) serve(w *innerWriter, req *http.Request) {
	defer func() {
		p := recover()
		if p == nil {
			w.finish(nil)
			return
		}
		if p != http.ErrAbortHandler { //nolint:errorlint // net/http compares so too
			t.log.Error("in-process server panicked", "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
		}
		w.finish(errHandlerPanicked)
	}()
	t.h.ServeHTTP(w, req)
}

var errHandlerPanicked = fmt.Errorf("the in-process server gave up the response: %w", io.ErrUnexpectedEOF)

// innerRequest returns the request as a server sees it.
func innerRequest(ctx context.Context, req *http.Request, body io.ReadCloser) *http.Request {
	in := req.Clone(ctx)
	in.Body = body
	in.RequestURI = req.URL.RequestURI()
	in.Proto, in.ProtoMajor, in.ProtoMinor = "HTTP/1.1", 1, 1
	in.RemoteAddr = "127.0.0.1:1"
	if in.Host == "" {
		in.Host = req.URL.Host
	}
	in.URL.Scheme, in.URL.Host, in.URL.User = "", "", nil
	if user := req.URL.User; user != nil && in.Header.Get(headerAuthorization) == "" {
		password, _ := user.Password()
		in.SetBasicAuth(user.Username(), password)
	}
	in.GetBody, in.Response, in.Close = nil, nil, false
	if req.Body == nil {
		in.ContentLength = 0
	} else if req.ContentLength == 0 && req.Body != http.NoBody {
		in.ContentLength = -1
		in.TransferEncoding = []string{"chunked"}
	}
	return in
}

// A requestBodyReader is the body of a request until the handler has returned.
type requestBodyReader struct {
	mu     sync.Mutex
	rc     io.ReadCloser // nil: empty
	closed bool
}

// Read reads the body.
func (b *requestBodyReader) Read(p []byte) (int, error) {
	b.mu.Lock()
	closed := b.closed
	b.mu.Unlock()
	switch {
	case closed:
		return 0, http.ErrBodyReadAfterClose
	case b.rc == nil:
		return 0, io.EOF
	}
	return b.rc.Read(p)
}

// Close lets go of the body.
func (b *requestBodyReader) Close() error {
	b.mu.Lock()
	first := !b.closed
	b.closed = true
	b.mu.Unlock()
	if first && b.rc != nil {
		return b.rc.Close()
	}
	return nil
}

func (b *requestBodyReader) close() { _ = b.Close() } // nobody hears an error here
