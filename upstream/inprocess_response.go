package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"strconv"
	"sync"
	"time"
)

// An innerWriter is the ResponseWriter of a handler that is called in the process, and the way of what it writes to the body
// of the response. Methods may be called concurrently.
type innerWriter struct {
	req    *http.Request // the caller's
	trace  *httptrace.ClientTrace
	cancel context.CancelCauseFunc // ends the handler's context
	header http.Header             // the handler's, until it is sent
	begun  chan struct{}           // closed when sent or err is set
	body   flow

	mu       sync.Mutex
	status   int            // of WriteHeader; 0: it has not been called
	frozen   http.Header    // the header as WriteHeader found it
	sent     *http.Response // nil before the header has been sent, with the first bytes of the body or a Flush
	err      error          // why there is none
	declared int64          // Content-Length; -1: none
	written  int64
	finished bool
}

func newInnerWriter(req *http.Request, trace *httptrace.ClientTrace, cancel context.CancelCauseFunc) *innerWriter {
	return &innerWriter{req: req, trace: trace, cancel: cancel, header: make(http.Header), begun: make(chan struct{}), declared: -1}
}

// response waits for the header.
func (w *innerWriter) response() (*http.Response, error) {
	<-w.begun
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.sent, w.err
}

// Header returns the header that WriteHeader sends.
func (w *innerWriter) Header() http.Header { return w.header }

// WriteHeader completes the header, or of an interim response tells the trace.
func (w *innerWriter) WriteHeader(status int) {
	if status < 100 || status > 999 {
		panic(fmt.Sprintf("invalid WriteHeader code %v", status)) // as net/http does
	}
	if status >= 100 && status < 200 && status != http.StatusSwitchingProtocols {
		w.interim(status)
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.complete(status)
}

// complete takes the header as it is, the first time. The caller holds mu.
func (w *innerWriter) complete(status int) {
	if w.status != 0 {
		return
	}
	w.status, w.frozen = status, w.header.Clone()
	if n, err := strconv.ParseInt(w.frozen.Get("Content-Length"), 10, 64); err == nil && n >= 0 {
		w.declared = n
	}
}

func (w *innerWriter) interim(status int) {
	if w.trace == nil || w.trace.Got1xxResponse == nil || w.hasBegun() {
		return
	}
	if err := w.trace.Got1xxResponse(status, textproto.MIMEHeader(w.header.Clone())); err != nil {
		w.abandon(err)
	}
}

func (w *innerWriter) hasBegun() bool {
	select {
	case <-w.begun:
		return true
	default:
		return false
	}
}

// begin sends the header, of a body that begins with start. The caller holds mu.
func (w *innerWriter) begin(start []byte) {
	w.complete(http.StatusOK)
	if w.hasBegun() || w.finished {
		return
	}
	h, status := w.frozen, w.status
	_, has := h[headerContentType]
	if !has && len(start) > 0 {
		h.Set(headerContentType, http.DetectContentType(start))
	}
	if h.Get("Date") == "" {
		h.Set("Date", time.Now().UTC().Format(http.TimeFormat))
	}
	resp := &http.Response{
		Status: strconv.Itoa(status) + " " + http.StatusText(status), StatusCode: status,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: h, Request: w.req, Body: http.NoBody, ContentLength: w.declared,
	}
	switch {
	case !bodyAllowed(status):
		resp.ContentLength = 0
	case w.req.Method != http.MethodHead:
		resp.Body = &innerBody{w}
	}
	w.sent = resp
	close(w.begun)
}

// bodyAllowed reports whether a response of that status has a body (RFC 9110, section 6.4.1).
func bodyAllowed(status int) bool {
	return status >= 200 && status != http.StatusNoContent && status != http.StatusNotModified
}

// Write hands p over; it waits while the reader is too far behind.
func (w *innerWriter) Write(p []byte) (int, error) {
	if err := w.admit(p); err != nil {
		return 0, err
	}
	if w.req.Method == http.MethodHead {
		return len(p), nil
	}
	return w.body.write(p)
}

// admit reports whether p may be written, and sends the header.
func (w *innerWriter) admit(p []byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.complete(http.StatusOK)
	switch {
	case w.finished:
		return errHandlerOver
	case !bodyAllowed(w.status):
		return http.ErrBodyNotAllowed
	case w.declared >= 0 && w.written+int64(len(p)) > w.declared:
		return http.ErrContentLength
	}
	w.written += int64(len(p))
	w.begin(p)
	if w.sent == nil {
		return w.err
	}
	return nil
}

var errHandlerOver = errors.New("the response is over")

// Flush sends the header. What is written has been handed over already.
func (w *innerWriter) Flush() { _ = w.FlushError() }

// FlushError is Flush; it says when nobody reads any more.
func (w *innerWriter) FlushError() error {
	w.mu.Lock()
	w.begin(nil)
	w.mu.Unlock()
	return w.body.failure()
}

// SetWriteDeadline bounds how long a Write waits for the reader.
func (w *innerWriter) SetWriteDeadline(t time.Time) error {
	w.body.setDeadline(t)
	return nil
}

// SetReadDeadline does nothing: the body of a request is in memory.
func (w *innerWriter) SetReadDeadline(time.Time) error { return nil }

// EnableFullDuplex does nothing: the body of the request can always be read.
func (w *innerWriter) EnableFullDuplex() error { return nil }

// finish ends the response when the handler has returned, or with err that it did not.
func (w *innerWriter) finish(err error) {
	w.mu.Lock()
	if err == nil {
		w.begin(nil)
	}
	if !w.hasBegun() {
		w.err = err
		close(w.begun)
	}
	w.finished = true
	short := err == nil && w.declared >= 0 && w.written < w.declared && w.sent != nil && w.sent.Body != http.NoBody
	w.mu.Unlock()
	switch {
	case err != nil:
		w.body.end(err)
	case short:
		w.body.end(io.ErrUnexpectedEOF)
	default:
		w.body.end(io.EOF)
	}
}

// abandon ends the exchange because nobody waits for the rest.
func (w *innerWriter) abandon(err error) {
	w.mu.Lock()
	if !w.hasBegun() {
		w.err = err
		close(w.begun)
	}
	w.mu.Unlock()
	w.body.end(err)
	w.cancel(err)
}

// An innerBody is the body of a response.
type innerBody struct{ w *innerWriter }

// Read reads what the handler has written.
func (b *innerBody) Read(p []byte) (int, error) { return b.w.body.read(p) }

// Close ends the handler's context.
func (b *innerBody) Close() error {
	b.w.body.drop()
	b.w.cancel(context.Canceled)
	return nil
}
