package bridge_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	bridge "github.com/mcp-dualstack/bridge"
	"github.com/mcp-dualstack/bridge/exchange"
)

// A patient is a server whose health is given.
type patient struct {
	server
	health func(ctx context.Context) error
}

func (p *patient) Health(ctx context.Context) error { return p.health(ctx) }

// R38: what is wrong with the server shows in the health checks, in a word and in time. The process is well all the same.
func TestHealthShowsTheServer(t *testing.T) {
	const secret = "s3cret"
	for name, test := range map[string]struct {
		health          func(ctx context.Context) error
		healthz, readyz string // status and body
	}{
		"up": {func(context.Context) error { return nil },
			`200 {"status":"ok","upstream":"up"}`, `200 {"status":"ready","upstream":"up"}`},
		"down": {func(context.Context) error { return exchange.Fail(exchange.ReasonUnavailable, errors.New(secret)) },
			`200 {"status":"ok","upstream":"down","reason":"upstream_unavailable"}`, `503 {"status":"not ready","upstream":"down","reason":"upstream_unavailable"}`},
		"silent": {func(ctx context.Context) error { <-ctx.Done(); return context.Cause(ctx) },
			`200 {"status":"ok","upstream":"unknown"}`, `503 {"status":"not ready","upstream":"unknown"}`},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, err := bridge.New(&patient{health: test.health}, nil)
				if err != nil {
					t.Fatal(err)
				}
				for path, want := range map[string]string{"/healthz": test.healthz, "/readyz": test.readyz} {
					start := time.Now()
					got := send(t, b.Admin(), "GET "+path+" HTTP/1.1\nHost: x")
					head, body, _ := strings.Cut(got, "\n\n")
					code, _, _ := strings.Cut(head, "\n")
					if got := code + " " + strings.TrimSpace(body); got != want {
						t.Errorf("%s: got %s, want %s", path, got, want)
					}
					if took := time.Since(start); took >= time.Second {
						t.Errorf("%s took %v", path, took)
					}
				}
				if err := b.Close(); err != nil {
					t.Error(err)
				}
				if got := send(t, b.Admin(), "GET /readyz HTTP/1.1\nHost: x"); !strings.HasPrefix(got, "503\n") {
					t.Errorf("after Close: got %s", got)
				}
			})
		})
	}
}
