//go:build !nolegacy

package bridge_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	bridge "github.com/mcp-dualstack/bridge"
	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/internal/memhttp"
	"github.com/mcp-dualstack/bridge/retire"
)

// aborted returns why the first window was ended early.
func aborted(b *bridge.Bridge) string {
	synctest.Wait()
	return b.Retirement().State().Brownouts[0].Aborted
}

// Retirement.md 6: the guard ends a window that refuses more clients than expected; those that were refused are served again.
func TestGuardCountsTheRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBridge(t, &server{}, &bridge.Options{Retirement: bridge.RetirementOptions{Guard: retire.Guard{MaxRefused: 3}}})
		srv := memhttp.New(t, b)
		var clients []*old
		for i := range 4 {
			c := connectOld(t, srv)
			c.initialize(fmt.Sprint("client-", i))
			clients = append(clients, c)
		}
		setStage(t, b.Retirement(), retire.Brownout, "brownout calls 0s 1h")
		for range 3 { // one client is counted once
			for _, c := range clients[:3] {
				if got := c.list(); code(got) != "503" {
					t.Fatalf("in the window: got %s, want 503", got)
				}
			}
		}
		if got := aborted(b); got != "" {
			t.Errorf("three clients refused: the window was ended: %s", got)
		}
		clients[3].list()
		if got := aborted(b); !strings.Contains(got, "4 clients were refused") {
			t.Errorf("four clients refused: got %q, want that as the reason", got)
		}
		if got := clients[0].list(); code(got) != "" {
			t.Errorf("after the end: got %s, want a result", got)
		}
		records, err := b.Retirement().History()
		if err != nil || records[len(records)-1].Origin != retire.FromGuard {
			t.Errorf("got %+v with %v, want a last record of the guard's", records, err)
		}
	})
}

// An exempt client that was refused before it could say who it is ends the window.
func TestGuardSeesTheExemptRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBridge(t, &server{}, nil)
		srv := memhttp.New(t, b)
		vip := connectOld(t, srv)
		vip.initialize("vip")
		setStage(t, b.Retirement(), retire.Brownout, "brownout hard 0s 1h\nexempt vip@127.0.0.0/24")
		if got := vip.list(); code(got) != "" {
			t.Errorf("the session of an exempt client: got %s, want a result", got)
		}
		if got := aborted(b); got != "" {
			t.Errorf("nobody was refused: the window was ended: %s", got)
		}
		res, err := srv.Client().Get(srv.URL + "/sse") // a second one of the same
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		vip.list()
		if got := aborted(b); !strings.Contains(got, "exempt") {
			t.Errorf("got %q, want the exempt client as the reason", got)
		}
	})
}

// A window during which more Streamable calls fail than before is ended; failures that were there before are no reason.
func TestGuardComparesErrors(t *testing.T) {
	for _, c := range []struct {
		name          string
		before, after int // percent of the calls that fail
		want          bool
	}{
		{"no failures", 0, 0, false},
		{"as many as before", 20, 20, false},
		{"failures rise", 1, 30, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var share, n atomic.Int64
				s := &server{call: func(context.Context, exchange.Request) (exchange.Response, error) {
					if n.Add(1)%100 < share.Load() {
						return exchange.Response{}, exchange.Fail(exchange.ReasonUnavailable, errors.New("down"))
					}
					return exchange.Response{Result: []byte(`{}`)}, nil
				}}
				b := newBridge(t, s, nil)
				srv := memhttp.New(t, b)
				run := func(percent int) {
					share.Store(int64(percent))
					for range 200 {
						req := postTo(t, srv, srv.URL+"/mcp", initialize)
						session := req.Header.Get("Mcp-Session-Id")
						if session == "" {
							t.Fatal("no session")
						}
						callIn(t, srv, session)
					}
				}
				run(c.before)
				time.Sleep(2 * time.Minute)
				setStage(t, b.Retirement(), retire.Brownout, "brownout initialize 0s 1h")
				run(c.after)
				if got := aborted(b); (got != "") != c.want {
					t.Errorf("got %q, want the window ended: %v", got, c.want)
				}
			})
		})
	}
}

// callIn makes a call in a session of Streamable HTTP and ends the session.
func callIn(t *testing.T, srv *memhttp.Server, session string) {
	t.Helper()
	for _, m := range []struct{ method, body string }{{http.MethodPost, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`}, {http.MethodDelete, ""}} {
		req, _ := http.NewRequest(m.method, srv.URL+"/mcp", strings.NewReader(m.body))
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Accept", "application/json, text/event-stream")
		req.Header.Set("Mcp-Session-Id", session)
		res, err := srv.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
	}
}
