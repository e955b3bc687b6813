package session_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
	"github.com/mcp-dualstack/bridge/internal/session"
	"github.com/mcp-dualstack/bridge/negotiate"
)

func TestInitialize(t *testing.T) {
	const ownResult = `{"protocolVersion":"2024-11-05","capabilities":{"tools":{}},"x":1e2}`
	for _, c := range []struct {
		name   string
		server exchange.Server
		want   string
	}{
		{"the server's own result but for the revision", exchange.Server{Initialize: []byte(ownResult)},
			`{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"x":1e2}}`},
		{"made from what is known", exchange.Server{Info: []byte(`{"name":"s"}`), Instructions: []byte(`"do"`)},
			`{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-06-18","capabilities":{},"serverInfo":{"name":"s"},"instructions":"do"}}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := &script{server: c.server}
			s, _ := start(t, h, nil)
			got, opened := s.Initialize(t.Context(), message(t, initialize))
			if string(got) != c.want || !opened {
				t.Errorf("got %s and %v, want %s and true", got, opened, c.want)
			}
			client := h.client(t, 1)
			if client.Revision != negotiate.Rev20250618 || client.Requested != "2025-06-18" || string(client.Info) != `{"name":"c","version":"1"}` || client.Reopened {
				t.Errorf("opened for %+v", client)
			}
			if got := s.Revision(); got != negotiate.Rev20250618 {
				t.Errorf("revision is %v, want 2025-06-18", got)
			}
		})
	}
}

func TestSecondInitializeIsRefused(t *testing.T) {
	h := &script{}
	s, _ := begun(t, h, nil)
	got, opened := s.Initialize(t.Context(), message(t, initialize))
	if code := string(jsonrpc.Get(got, "error", "code")); code != "-32600" || opened {
		t.Errorf("got %s, %v, want -32600 and false", got, opened)
	}
	var out outlet
	s.Handle(message(t, initialize), &out)
	if got := reasonOf(t, out.take()[0]); got != negotiate.ReasonSessionExists {
		t.Errorf("got %s, want %s", got, negotiate.ReasonSessionExists)
	}
	h.client(t, 1)
}

func TestBeforeTheHandshake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &script{notify: func(exchange.Request) error { t.Error("a notification reached the server"); return nil }}
		s, _ := start(t, h, nil)
		var out outlet
		s.Handle(message(t, `{"jsonrpc":"2.0","method":"notifications/initialized"}`), nil)
		s.Handle(message(t, `{"jsonrpc":"2.0","id":1,"result":{}}`), nil)
		s.Handle(message(t, `{"jsonrpc":"2.0","id":"p","method":"ping"}`), &out)
		out.want(t, `{"jsonrpc":"2.0","id":"p","result":{}}`)
		s.Handle(message(t, `{"jsonrpc":"2.0","id":2,"method":"tools/list"}`), &out)
		if got := reasonOf(t, out.take()[0]); got != "not_initialized" {
			t.Errorf("got %s, want not_initialized", got)
		}
		synctest.Wait()
		if !s.Fresh() || len(h.opened) != 0 {
			t.Errorf("fresh is %v and the server was opened %d times, want true and 0", s.Fresh(), len(h.opened))
		}
		s.Handle(message(t, initialize), &out)
		synctest.Wait()
		if got := out.take(); len(got) != 1 || jsonrpc.Get([]byte(got[0]), "result") == nil {
			t.Errorf("got %s, want a result", got)
		}
	})
}

// A client need not wait for the answer to its initialize: what it sends next is after it.
func TestPipelinedRequestWaitsForTheHandshake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &script{open: func(context.Context, exchange.Client) error { time.Sleep(time.Second); return nil }}
		s, _ := start(t, h, nil)
		var out outlet
		s.Handle(message(t, initialize), &out)
		s.Handle(message(t, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`), &out)
		if got := s.Busy(); got != 2 {
			t.Errorf("busy with %d, want 2", got)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		got := out.take()
		if len(got) != 2 || got[1] != `{"jsonrpc":"2.0","id":1,"result":{"method":"tools/list"}}` {
			t.Errorf("got %s, want the handshake and a result", got)
		}
	})
}

func TestReopen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &script{}
		s, _ := start(t, h, nil)
		var out outlet
		s.Reopen(negotiate.Rev20250326, message(t, `{"jsonrpc":"2.0","id":7,"method":"tools/list"}`), &out)
		s.Reopen(negotiate.Rev20241105, message(t, `{"jsonrpc":"2.0","id":8,"method":"ping"}`), &out) // the first one counts
		synctest.Wait()
		out.want(t, `{"jsonrpc":"2.0","id":8,"result":{}}`, `{"jsonrpc":"2.0","id":7,"result":{"method":"tools/list"}}`)
		c := h.client(t, 1)
		if c.Revision != negotiate.Rev20250326 || !c.Reopened || string(c.Capabilities) != "{}" || string(c.Info) != `{"name":"bridge"}` {
			t.Errorf("opened for %+v", c)
		}
	})
}

func TestReopenFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		down := true
		h := &script{open: func(context.Context, exchange.Client) error {
			if down {
				return unavailable
			}
			return nil
		}}
		var failed error
		s, _ := start(t, h, func(o *session.Options) { o.Failed = func(err error) { failed = err } })
		var out outlet
		request := message(t, `{"jsonrpc":"2.0","id":7,"method":"tools/list"}`)
		s.Reopen(negotiate.Rev20241105, request, &out)
		synctest.Wait()
		if got := reasonOf(t, out.take()[0]); got != exchange.ReasonUnavailable {
			t.Errorf("got %s, want %s", got, exchange.ReasonUnavailable)
		}
		if failed != unavailable || !s.Fresh() || s.Revision() != negotiate.None {
			t.Errorf("got %v, fresh %v, revision %v, want %v, true, none", failed, s.Fresh(), s.Revision(), unavailable)
		}
		down = false
		s.Reopen(negotiate.Rev20241105, request, &out)
		synctest.Wait()
		out.want(t, `{"jsonrpc":"2.0","id":7,"result":{"method":"tools/list"}}`)
	})
}

func TestHandshakeFails(t *testing.T) {
	for _, c := range []struct {
		name       string
		err        error
		wantFailed bool
		want       string
	}{
		{"no server", unavailable, true, `{"jsonrpc":"2.0","id":0,"error":{"code":-32603,"message":"the server behind the bridge could not be started or reached","data":{"bridge":{"reason":"upstream_unavailable"}}}}`},
		{"the server refuses", jsonrpc.Errorf(-32602, "no"), false, `{"jsonrpc":"2.0","id":0,"error":{"code":-32602,"message":"no"}}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := &script{open: func(context.Context, exchange.Client) error { return c.err }}
				failed := false
				s, _ := start(t, h, func(o *session.Options) { o.Failed = func(error) { failed = true } })
				var out outlet
				s.Handle(message(t, initialize), &out)
				synctest.Wait()
				out.want(t, c.want)
				if failed != c.wantFailed {
					t.Errorf("failed is %v, want %v", failed, c.wantFailed)
				}
				h.open = nil
				if _, opened := s.Initialize(t.Context(), message(t, initialize)); !opened {
					t.Error("a second try is refused")
				}
			})
		})
	}
}

func TestClose(t *testing.T) {
	for _, c := range []struct {
		name  string
		cause error
		want  string
	}{
		{"by the client", nil, ""},
		{"by the server", exchange.Fail(exchange.ReasonLost, errCrash), exchange.ReasonLost},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := &script{call: func(ctx context.Context, req exchange.Request, _ exchange.Peer) (exchange.Response, error) {
					req.Sent()
					<-ctx.Done()
					return exchange.Response{}, ctx.Err()
				}}
				s, _ := begun(t, h, nil)
				var out outlet
				s.Handle(message(t, `{"jsonrpc":"2.0","id":1,"method":"tools/call"}`), &out)
				synctest.Wait()
				s.Close(c.cause)
				got := out.take()
				if len(got) != 1 || reasonOf(t, got[0]) != c.want {
					t.Errorf("got %s, want reason %q", got, c.want)
				}
				if h.closed != 1 {
					t.Errorf("server closed %d times, want 1", h.closed)
				}
				s.Handle(message(t, `{"jsonrpc":"2.0","id":2,"method":"tools/call"}`), &out)
				if got := reasonOf(t, out.take()[0]); got != exchange.ReasonClosed {
					t.Errorf("after Close: got %s, want %s", got, exchange.ReasonClosed)
				}
			})
		})
	}
}

func TestCloseDuringTheHandshake(t *testing.T) {
	for _, c := range []struct {
		name       string
		open       func(context.Context, exchange.Client) error
		wantClosed int
	}{
		{"the server comes late", func(ctx context.Context, _ exchange.Client) error {
			<-ctx.Done()
			time.Sleep(time.Second)
			return nil
		}, 1},
		{"the server gives up", func(ctx context.Context, _ exchange.Client) error {
			<-ctx.Done()
			return ctx.Err()
		}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := &script{open: c.open}
				s, _ := start(t, h, nil)
				var out outlet
				s.Handle(message(t, initialize), &out)
				synctest.Wait()
				s.Close(nil)
				out.want(t, "-")
				if h.closed != c.wantClosed {
					t.Errorf("server closed %d times, want %d", h.closed, c.wantClosed)
				}
			})
		})
	}
}

func TestServerEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &script{done: make(chan struct{})}
		ended := 0
		var s *session.Session
		s, _ = begun(t, h, func(o *session.Options) {
			o.Ended = func() { ended++; s.Close(exchange.Fail(exchange.ReasonLost, nil)) }
		})
		close(h.done)
		synctest.Wait()
		if ended != 1 {
			t.Errorf("ended %d times, want 1", ended)
		}
		<-s.Done()
	})
}
