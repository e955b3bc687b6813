package upstream

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"os"
	"sync/atomic"
	"time"

	"github.com/mcp-dualstack/bridge/exchange"
)

// HTTPOptions say how servers behind a URL are reached. The zero value of each field is the default.
type HTTPOptions struct {
	Headers    http.Header // sent with every request, the bridge's own credentials among them; never logged
	BearerFile string      // holds a token for Authorization; read again when it has changed

	// PassThrough declares that the server guards itself and is one resource with the bridge: Client.Authorization is
	// sent in place of the bridge's own credentials, and a 401 or 403 is told with its challenge (translation.md 13).
	PassThrough bool

	MaxCallers int // in pass-through mode: whose view of the server is remembered; 0: 1024

	CAFile string                                // PEM certificates that are trusted beside the system's
	TLS    *tls.Config                           // nil: Go's defaults
	Proxy  func(*http.Request) (*url.URL, error) // nil: as HTTP_PROXY, HTTPS_PROXY and NO_PROXY say

	// RoundTripper takes the place of the pooled transport that the fields above and below configure; nil: that one.
	RoundTripper http.RoundTripper

	DialTimeout     time.Duration // for a connection and its TLS handshake; 0: 10 s
	ResponseTimeout time.Duration // for what a server can answer at once: the handshake, notifications, a stream's header; 0: 30 s
	CallTimeout     time.Duration // for a call, which is cancelled then; 0: none
	IdleTimeout     time.Duration // of a pooled connection; 0: 4 s, less than the 5 s after which a Node server closes it
	MaxConns        int           // connections to the server at once, one for each call and stream in flight; 0: no bound

	// Of a server of HTTP+SSE.
	AllowOtherOrigin bool          // its endpoint may be on another origin, which is sent the headers and credentials too
	StreamTimeout    time.Duration // without a byte on its stream, after which that counts as broken; 0: none
	MaxPosts         int           // requests of a session whose POST has no response yet; one more is upstream_busy; 0: 256

	MaxTools       int  // whose header parameters are remembered; 0: 4096
	SendRawMcpName bool // Mcp-Name goes out unencoded, as go-sdk v1.8.0 wants it (translation.md 11)
}

func (o *HTTPOptions) withDefaults() *HTTPOptions {
	var d HTTPOptions
	if o != nil {
		d = *o
	}
	if d.Proxy == nil {
		d.Proxy = http.ProxyFromEnvironment
	}
	def(&d.DialTimeout, 10*time.Second)
	def(&d.ResponseTimeout, 30*time.Second)
	def(&d.IdleTimeout, 4*time.Second)
	def(&d.MaxPosts, 256)
	def(&d.MaxTools, 4096)
	def(&d.MaxCallers, 1024)
	return &d
}

// A leg is the way to one URL: where requests go, with which credentials, over which pool of connections.
type leg struct {
	url    string
	shown  string // without credentials and query, for logs and errors
	o      *HTTPOptions
	client *http.Client
	bearer *bearer           // nil: no file
	spawn  func(func()) bool // runs what its owner waits for; false: it does not any more
	vitals *vitals           // of the server
}

// newLeg returns the leg to an absolute http or https URL.
func newLeg(rawURL string, o *HTTPOptions, spawn func(func()) bool) (*leg, error) {
	u, err := url.Parse(rawURL)
	if err != nil {
		return nil, errors.New("upstream URL cannot be read") // the error of url.Parse holds the URL
	}
	l := &leg{shown: shown(u), o: o, spawn: spawn, vitals: &vitals{}}
	if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("upstream URL %s: must begin with http:// or https:// and a host", l.shown)
	}
	u.Fragment = ""
	l.url = u.String()
	rt := o.RoundTripper
	if rt == nil {
		if rt, err = newTransport(o); err != nil {
			return nil, err
		}
	}
	if o.BearerFile != "" {
		l.bearer = &bearer{path: o.BearerFile}
	}
	l.client = &http.Client{Transport: rt, CheckRedirect: sameOrigin}
	return l, nil
}

// Shown returns what of a URL may be logged and shown: scheme, host and path. The rest may be secret.
func Shown(rawURL string) string {
	u, err := url.Parse(rawURL)
	if err != nil {
		return "an unreadable URL"
	}
	return shown(u)
}

func shown(u *url.URL) string {
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
}

func newTransport(o *HTTPOptions) (*http.Transport, error) {
	conf := o.TLS.Clone()
	if o.CAFile != "" {
		if conf == nil {
			conf = &tls.Config{}
		}
		if err := trust(conf, o.CAFile); err != nil {
			return nil, err
		}
	}
	d := &net.Dialer{Timeout: o.DialTimeout, KeepAlive: 30 * time.Second}
	return &http.Transport{
		Proxy:               o.Proxy,
		DialContext:         d.DialContext,
		TLSClientConfig:     conf,
		TLSHandshakeTimeout: o.DialTimeout,
		ForceAttemptHTTP2:   true,
		DisableCompression:  true, // events are to arrive when they are written
		MaxIdleConnsPerHost: 64,
		MaxConnsPerHost:     o.MaxConns,
		IdleConnTimeout:     o.IdleTimeout,

		MaxResponseHeaderBytes: maxHeaderBytes,
	}, nil
}

// maxHeaderBytes bounds the header of a response.
const maxHeaderBytes = 1 << 20

func trust(conf *tls.Config, file string) error {
	pem, err := os.ReadFile(file) // #nosec G304 -- the operator's file
	if err != nil {
		return err
	}
	pool := conf.RootCAs
	if pool != nil {
		pool = pool.Clone()
	} else if pool, err = x509.SystemCertPool(); err != nil {
		pool = x509.NewCertPool()
	}
	if !pool.AppendCertsFromPEM(pem) {
		return fmt.Errorf("%s: no PEM certificate in it", file)
	}
	conf.RootCAs = pool
	return nil
}

// maxRedirects bounds the redirects of one request.
const maxRedirects = 3

// sameOrigin follows a redirect that stays on the origin and keeps the method, which for a POST are 307
// and 308. A server cannot send the bridge and its credentials elsewhere.
func sameOrigin(req *http.Request, via []*http.Request) error {
	first := via[0]
	if len(via) > maxRedirects || req.Method != first.Method || req.URL.Scheme != first.URL.Scheme || req.URL.Host != first.URL.Host {
		return http.ErrUseLastResponse
	}
	return nil
}

// A transportError says that a request had no response.
type transportError struct {
	untouched bool // no connection was had, so nothing of it has been sent
	err       error
}

// Error describes e without the URL.
func (e *transportError) Error() string { return e.err.Error() }

// Unwrap returns the cause.
func (e *transportError) Unwrap() error { return e.err }

// A send is one HTTP request.
type send struct {
	method        string
	header        http.Header
	body          []byte // nil: none
	authorization string // the caller's own; empty: the bridge's credentials
	wrote         func() // called when the request has been written, never after the response has begun; nil: nobody asks
}

const (
	headerAuthorization = "Authorization"
	headerAccept        = "Accept"
	headerContentType   = "Content-Type"
	typeJSON            = "application/json"
	typeStream          = "text/event-stream"
	acceptBoth          = typeJSON + ", " + typeStream
)

// do sends a request and returns the response, whose body the caller closes. ctx governs the body too.
// The error is the cause of ctx or a *transportError.
func (l *leg) do(ctx context.Context, s send) (*http.Response, error) {
	var connected atomic.Bool
	trace := &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { connected.Store(true) }}
	if s.wrote != nil {
		trace.WroteRequest = func(i httptrace.WroteRequestInfo) {
			if i.Err == nil {
				s.wrote()
			}
		}
	}
	req, err := l.request(httptrace.WithClientTrace(ctx, trace), s)
	if err != nil {
		return nil, &transportError{untouched: true, err: err}
	}
	resp, err := l.client.Do(req)
	if err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if ue, ok := errors.AsType[*url.Error](err); ok {
			err = ue.Err // ue holds the URL
		}
		err = &transportError{untouched: !connected.Load(), err: err}
		l.noted(nil, err)
		return nil, err
	}
	l.noted(resp, nil)
	return resp, nil
}

func (l *leg) request(ctx context.Context, s send) (*http.Request, error) {
	var body io.Reader
	if s.body != nil {
		body = bytes.NewReader(s.body)
	}
	req, err := http.NewRequestWithContext(ctx, s.method, l.url, body)
	if err != nil {
		return nil, errors.New("request cannot be made") // the error may hold the URL
	}
	for name, values := range l.o.Headers {
		req.Header[http.CanonicalHeaderKey(name)] = values
	}
	for name, values := range s.header {
		req.Header[name] = values
	}
	if s.body != nil {
		req.Header.Set(headerContentType, typeJSON)
	}
	switch {
	case l.o.PassThrough:
		req.Header.Del(headerAuthorization)
		if s.authorization != "" {
			req.Header.Set(headerAuthorization, s.authorization)
		}
	case l.bearer != nil:
		token, err := l.bearer.token()
		if err != nil {
			return nil, err
		}
		req.Header.Set(headerAuthorization, "Bearer "+token)
	}
	return req, nil
}

// soon bounds ctx by ResponseTimeout, for an exchange that a server can finish at once.
func (l *leg) soon(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, l.o.ResponseTimeout, errSlow)
}

var errSlow error = exchange.Fail(exchange.ReasonTimeout, errors.New("no answer within ResponseTimeout"))

// begin is do for a response that may last: only its header has to come within ResponseTimeout.
func (l *leg) begin(ctx context.Context, s send) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	t := time.AfterFunc(l.o.ResponseTimeout, func() { cancel(errSlow) })
	resp, err := l.do(ctx, s)
	if !t.Stop() && err == nil {
		_ = resp.Body.Close()
		err = errSlow
	}
	if err != nil {
		cancel(nil)
		return nil, err
	}
	resp.Body = &lasting{ReadCloser: resp.Body, cancel: cancel}
	return resp, nil
}

// A lasting body lets go of its context when it is closed.
type lasting struct {
	io.ReadCloser
	cancel context.CancelCauseFunc
}

// Close ends the response.
func (b *lasting) Close() error {
	defer b.cancel(nil)
	return b.ReadCloser.Close()
}

// idle closes connections that nobody uses.
func (l *leg) idle() { l.client.CloseIdleConnections() }
