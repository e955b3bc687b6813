package upstream_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/exchange/exchangetest"
	"github.com/mcp-dualstack/bridge/negotiate"
	"github.com/mcp-dualstack/bridge/upstream"
)

// R38: whether the server behind a URL answers costs nothing while calls show it, one request otherwise, and one at a time.
func TestHealthOfAURL(t *testing.T) {
	var down atomic.Bool
	inWeb(t, nil, func(w http.ResponseWriter, h *hit) {
		if down.Load() {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		modernStub(func(w http.ResponseWriter, h *hit) { say(w, h, `{}`) })(w, h)
	}, func(ctx context.Context, s *webStub, r *upstream.Remote) {
		equal(t, "before anything", reason(r.Health(ctx)), "")
		asked := len(s.seen())
		for range 5 {
			equal(t, "at once again", reason(r.Health(ctx)), "")
		}
		equal(t, "requests for that", len(s.seen())-asked, 0)
		sess, _ := openWeb(ctx, t, r, negotiate.Rev20260728)
		time.Sleep(time.Minute)
		if _, err := sess.Call(ctx, exchange.Request{Method: "prompts/get"}, nil); err != nil {
			t.Fatal(err)
		}
		asked = len(s.seen())
		equal(t, "after a call", reason(r.Health(ctx)), "")
		equal(t, "requests for that", len(s.seen())-asked, 0)

		down.Store(true)
		time.Sleep(time.Minute)
		equal(t, "after a silent minute", reason(r.Health(ctx)), exchange.ReasonUnavailable)
		equal(t, "requests for that", len(s.seen())-asked, 1)
		equal(t, "at once again", reason(r.Health(ctx)), exchange.ReasonUnavailable)
		equal(t, "requests for that", len(s.seen())-asked, 1)
		down.Store(false)
		if _, err := sess.Call(ctx, exchange.Request{Method: "prompts/get"}, nil); err != nil {
			t.Fatal(err)
		}
		equal(t, "a call is enough to know better", reason(r.Health(ctx)), "")
	})
}

// TestHealthInTime: a server that keeps everybody waiting is not waited for, and nobody asks beside the one who does.
func TestHealthInTime(t *testing.T) {
	inWeb(t, nil, func(_ http.ResponseWriter, h *hit) { <-h.Context().Done() }, func(ctx context.Context, s *webStub, r *upstream.Remote) {
		soon := errors.New("soon")
		for range 3 { // within the 3 s that a probe has for its first question
			ctx, cancel := context.WithTimeoutCause(ctx, 900*time.Millisecond, soon)
			if err := r.Health(ctx); !errors.Is(err, soon) {
				t.Errorf("got %v, want the cause of ctx", err)
			}
			cancel()
		}
		equal(t, "requests", len(s.seen()), 1)
		_ = r.Close()
		equal(t, "closed", reason(r.Health(ctx)), exchange.ReasonClosed)
	})
}

// TestHealthGuarded: a server that wants credentials of its clients answers, so it is up; where the bridge's own are refused, no client
// is served.
func TestHealthGuarded(t *testing.T) {
	for through, want := range map[bool]string{true: "", false: exchange.ReasonAuth} {
		o := &upstream.Options{HTTP: &upstream.HTTPOptions{PassThrough: through}}
		inWeb(t, o, status(http.StatusUnauthorized, "", ""), func(ctx context.Context, _ *webStub, r *upstream.Remote) {
			equal(t, "health", reason(r.Health(ctx)), want)
		})
	}
}

// TestHealthOfSSE: over real sockets, a server of HTTP+SSE that nobody calls, there and gone.
func TestHealthOfSSE(t *testing.T) {
	srv := httptest.NewServer(newSSEServer(negotiate.Legacy))
	up, err := upstream.SSE(srv.URL+"/sse", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer up.Close()
	equal(t, "there", reason(up.Health(t.Context())), "")
	srv.CloseClientConnections()
	srv.Close()
	gone, err := upstream.SSE(srv.URL+"/sse", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer gone.Close()
	equal(t, "gone", reason(gone.Health(t.Context())), exchange.ReasonUnavailable)
}

// R38: a server that cannot start is down, and is up when it has started; then nothing is started to know it.
func TestHealthOfAChild(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var broken atomic.Bool
		var dials atomic.Int32
		serve, wait := dialer(func(rw io.ReadWriter) error { return exchangetest.Serve(rw, negotiate.Legacy) })
		up := upstream.Pipe(func(ctx context.Context) (io.ReadWriteCloser, error) {
			dials.Add(1)
			if broken.Load() {
				return nil, errors.New("no such program")
			}
			return serve(ctx)
		}, nil)
		defer wait()
		defer up.Close()
		broken.Store(true)
		equal(t, "cannot start", reason(up.Health(t.Context())), exchange.ReasonUnavailable)
		broken.Store(false)
		time.Sleep(11 * time.Second)
		equal(t, "can start", reason(up.Health(t.Context())), "")
		n := dials.Load()
		time.Sleep(time.Hour)
		equal(t, "an hour later", reason(up.Health(t.Context())), "")
		equal(t, "started for that", dials.Load()-n, 0)
		broken.Store(true)
		if _, err := up.Open(t.Context(), legacyClient(negotiate.Rev20251125, nil)); err == nil {
			t.Error("opened")
		}
		equal(t, "a start failed", reason(up.Health(t.Context())), exchange.ReasonUnavailable)
	})
}
