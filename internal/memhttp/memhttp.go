// Package memhttp connects a real HTTP server and a real HTTP client through memory, for tests.
//
// Everything blocks on condition variables and channels, so inside a testing/synctest bubble a
// waiting connection is durably blocked and time can go on. The server must be made inside the bubble.
package memhttp

import (
	"context"
	"log"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
)

// DefaultBufferBytes is what a connection holds in each direction before a write blocks.
const DefaultBufferBytes = 64 << 10

// Host is what clients dial and what RemoteAddr and the Host header show.
const Host = "127.0.0.1:8420"

// Options change how a server is made. The zero value is what New uses.
type Options struct {
	BufferBytes int                // per direction of a connection; zero: DefaultBufferBytes
	Server      func(*http.Server) // if set, changes the server before it starts, for timeouts and the like
}

// A Server is an HTTP server in memory. It ends with its test.
type Server struct {
	URL string // without a path: http:// and Host

	buffer    int
	listener  *listener
	transport *http.Transport
	clients   atomic.Uint32 // connections dialled so far, for their port numbers
}

// New starts a server for h with default options.
func New(t testing.TB, h http.Handler) *Server {
	t.Helper()
	return NewWith(t, h, nil)
}

// NewWith starts a server for h; nil Options mean defaults. At the end of the test it closes every connection
// and waits until all handlers have returned.
func NewWith(t testing.TB, h http.Handler, o *Options) *Server {
	t.Helper()
	if o == nil {
		o = &Options{}
	}
	s := &Server{URL: "http://" + Host, buffer: o.BufferBytes}
	if s.buffer == 0 {
		s.buffer = DefaultBufferBytes
	}
	s.listener = &listener{conns: make(chan net.Conn), closed: make(chan struct{})}
	s.transport = &http.Transport{
		DialContext:         func(ctx context.Context, _, _ string) (net.Conn, error) { return s.Dial(ctx) },
		DisableCompression:  true,
		MaxIdleConnsPerHost: 64,
	}
	var running sync.WaitGroup                                             // the accept loop and every connection's
	hs := &http.Server{Handler: h, ErrorLog: log.New(logWriter{t}, "", 0)} // #nosec G112 -- for tests, in memory
	hs.ConnState = func(_ net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			running.Add(1)
		case http.StateClosed, http.StateHijacked:
			running.Done()
		}
	}
	if o.Server != nil {
		o.Server(hs)
	}
	running.Go(func() { _ = hs.Serve(s.listener) }) // always ErrServerClosed
	t.Cleanup(func() {
		s.transport.CloseIdleConnections()
		_ = hs.Close()
		running.Wait()
	})
	return s
}

// Client returns a client whose connections go to s, whatever host the URL names. All clients of s share one pool of
// connections. Redirects are not followed.
func (s *Server) Client() *http.Client {
	return &http.Client{
		Transport:     s.transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// Dial returns the client's end of a new connection, for tests that read and write bytes.
func (s *Server) Dial(ctx context.Context) (net.Conn, error) {
	port := uint16(50000 + s.clients.Add(1)%10000)
	client := net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), port))
	c, sc := Pipe(s.buffer, client, serverAddr)
	select {
	case s.listener.conns <- sc:
		return c, nil
	case <-s.listener.closed:
		return nil, &net.OpError{Op: "dial", Net: "tcp", Addr: serverAddr, Err: net.ErrClosed}
	case <-ctx.Done():
		return nil, &net.OpError{Op: "dial", Net: "tcp", Addr: serverAddr, Err: ctx.Err()}
	}
}

var serverAddr = net.TCPAddrFromAddrPort(netip.MustParseAddrPort(Host))

// A listener hands over the server's ends of dialled connections.
type listener struct {
	conns  chan net.Conn
	once   sync.Once
	closed chan struct{}
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *listener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *listener) Addr() net.Addr { return serverAddr }

// A logWriter puts the server's complaints, a panic of a handler for one, into the test's log.
type logWriter struct{ t testing.TB }

func (w logWriter) Write(b []byte) (int, error) {
	w.t.Logf("http: %s", b)
	return len(b), nil
}
