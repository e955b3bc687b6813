package upstream_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/exchange/exchangetest"
	"github.com/mcp-dualstack/bridge/negotiate"
	"github.com/mcp-dualstack/bridge/upstream"
)

// A wire is the server's end of one connection, played line by line by the test.
type wire struct {
	net.Conn
	r *bufio.Reader
}

// read returns the next line from the bridge, "" at the end.
func (w *wire) read() string {
	line, err := w.r.ReadString('\n')
	if err != nil {
		return ""
	}
	return strings.TrimSuffix(line, "\n")
}

func (w *wire) say(lines ...string) {
	for _, line := range lines {
		_, _ = io.WriteString(w.Conn, line+"\n") // the bridge may have gone
	}
}

// wires returns a dial function and the server's ends of its connections in order.
func wires() (dial func(context.Context) (io.ReadWriteCloser, error), made chan *wire) {
	made = make(chan *wire, 16)
	return func(context.Context) (io.ReadWriteCloser, error) {
		ours, theirs := net.Pipe()
		made <- &wire{Conn: theirs, r: bufio.NewReader(theirs)}
		return ours, nil
	}, made
}

const (
	discoverRefused = `{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"Method not found"}}`
	discoverBoth    = `{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","supportedVersions":["2026-07-28","2025-11-25"],"capabilities":{}}}`
	discoverModern  = `{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{}}}`
)

func initializeResult(id int, version string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":{"protocolVersion":"%s","capabilities":{},"serverInfo":{"name":"s","version":"1"}}}`, id, version)
}

// inBubble runs f with an upstream whose connections the test plays, in fake time.
// sameEra returns o with refusals of clients of another era: what a connector does by itself.
func sameEra(o *upstream.Options) *upstream.Options {
	var d upstream.Options
	if o != nil {
		d = *o
	}
	d.SameEra = true
	return &d
}

func inBubble(t *testing.T, o *upstream.Options, f func(t *testing.T, up *upstream.Upstream, made chan *wire)) {
	t.Helper()
	inBothEras(t, sameEra(o), f)
}

// inBothEras is inBubble with clients of the other era let in, as long as o does not say otherwise.
func inBothEras(t *testing.T, o *upstream.Options, f func(t *testing.T, up *upstream.Upstream, made chan *wire)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		dial, made := wires()
		up := upstream.Pipe(dial, o)
		defer func() {
			for len(made) > 0 {
				_ = (<-made).Close()
			}
			_ = up.Close()
		}()
		f(t, up, made)
	})
}

func legacyClient(r negotiate.Revision, back exchange.Peer) exchange.Client {
	return exchange.Client{Revision: r, Info: []byte(`{"name":"c","version":"1"}`), Capabilities: []byte(`{}`), Back: back}
}

var modernClient = exchange.Client{Revision: negotiate.Rev20260728}

// openLegacy opens a session on the first connection of a server that knows no server/discover.
func openLegacy(t *testing.T, up *upstream.Upstream, made chan *wire, back exchange.Peer) (exchange.Session, *wire) {
	t.Helper()
	ready := make(chan *wire)
	go func() {
		w := <-made
		w.read()
		w.say(discoverRefused)
		w.read()
		w.say(initializeResult(2, "2025-11-25"))
		ready <- w
	}()
	s, err := up.Open(t.Context(), legacyClient(negotiate.Rev20251125, back))
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	w := <-ready
	t.Cleanup(func() { _ = w.Close() })
	go func() { _ = s.Notify(context.Background(), exchange.Request{Method: "notifications/initialized"}) }()
	w.read()
	return s, w
}

// openModern opens a session of a modern client with a server that speaks nothing else.
func openModern(t *testing.T, up *upstream.Upstream, made chan *wire) (exchange.Session, *wire) {
	t.Helper()
	ready := make(chan *wire)
	go func() {
		w := <-made
		w.read()
		w.say(discoverModern)
		ready <- w
	}()
	s, err := up.Open(t.Context(), modernClient)
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	w := <-ready
	t.Cleanup(func() { _ = w.Close() })
	return s, w
}

// A pending is a call that runs beside the test.
type pending struct {
	peer   *exchangetest.Peer
	cancel context.CancelCauseFunc
	done   chan struct{}
	resp   exchange.Response
	err    error
}

func (p *pending) wait() (string, error) {
	<-p.done
	if p.resp.Error != nil {
		return string(p.resp.Error.Raw), p.err
	}
	return string(p.resp.Result), p.err
}

func call(s exchange.Session, method, params string, peer *exchangetest.Peer) *pending {
	p := &pending{peer: peer, done: make(chan struct{})}
	var ctx context.Context
	ctx, p.cancel = context.WithCancelCause(context.Background())
	req := exchange.Request{Method: method}
	if params != "" {
		req.Params = []byte(params)
	}
	go func() { // until the call is answered or cancelled
		defer close(p.done)
		p.resp, p.err = s.Call(ctx, req, peer)
	}()
	return p
}

func equal[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// reason returns the reason of a failure, or the error's text.
func reason(err error) string {
	if err == nil {
		return ""
	}
	if f, ok := errors.AsType[*exchange.Failure](err); ok {
		return f.Reason
	}
	return err.Error()
}

func since(start time.Time) time.Duration { return time.Since(start) }
