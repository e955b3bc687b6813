package main

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"time"

	bridge "github.com/mcp-dualstack/bridge"
)

// An ending is how long the end may take.
type ending struct {
	delay   time.Duration // while readyz fails and everything is still served
	timeout time.Duration // for calls in flight and streams after that
}

// closeGrace is what closing may take after the time for calls in flight is over: children get time to end.
const closeGrace = 5 * time.Second

// shutdown fails readyz, waits for load balancers to see it, lets calls finish, then ends streams and children. The second
// signal ends the program at once.
func shutdown(b *bridge.Bridge, entrance *door, servers []*http.Server, e ending, log *slog.Logger, signals <-chan os.Signal) error {
	waiting, stop := context.WithCancel(context.Background())
	defer stop()
	second := repeated(waiting, signals)
	b.Unready()
	select {
	case <-time.After(e.delay):
	case <-second:
		return endedAtOnce()
	}
	ctx, cancel := context.WithTimeout(context.Background(), e.timeout)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- wind(ctx, b, entrance, servers) }()
	select {
	case err := <-done:
		if errors.Is(err, context.DeadlineExceeded) {
			log.Warn("calls in flight were cut", "timeout", e.timeout.String())
			return nil
		}
		if err != nil {
			return failed("shut down: %w", err)
		}
		log.Info("ended")
		return nil
	case <-second:
		return endedAtOnce()
	case <-time.After(e.timeout + closeGrace):
		return failed("the server behind the bridge does not end")
	}
}

func endedAtOnce() error {
	return failed("ended at once by a second signal; calls in flight were cut")
}

// wind lets calls finish, during which clients must still be able to answer what they are asked, and then ends the
// rest. The listener of the clients stays open to the end: what is new is refused with 503 and Retry-After, but for streams (door).
func wind(ctx context.Context, b *bridge.Bridge, entrance *door, servers []*http.Server) error {
	err := b.Drain(ctx)
	entrance.ending.Store(true)
	return errors.Join(err, b.Shutdown(ctx), closeAll(servers))
}

// A door stands before the handler of the clients' listener. While streams are being ended, who asks for one gets a connection that
// ends without an answer: an EventSource tries that again, as it would if nobody listened, and gives up for good at a status
// such as 503 (WHATWG HTML, server-sent events, "reestablish the connection" and "fail the connection").
type door struct {
	next   http.Handler
	ending atomic.Bool
}

func (d *door) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if d.ending.Load() && r.Method == http.MethodGet && strings.Contains(strings.ToLower(strings.Join(r.Header.Values("Accept"), ",")), "text/event-stream") {
		panic(http.ErrAbortHandler) // net/http cuts the connection, in HTTP/2 the stream, and logs nothing
	}
	d.next.ServeHTTP(w, r)
}

// sameSignal is how long after a signal another one counts as the same: a terminal and the program that
// started this one often both send it.
const sameSignal = 300 * time.Millisecond

// repeated returns a channel that is closed when a further signal comes, until ctx ends.
func repeated(ctx context.Context, signals <-chan os.Signal) <-chan struct{} {
	again := make(chan struct{})
	began := time.Now()
	go func() {
		for {
			select {
			case <-signals:
				if time.Since(began) > sameSignal {
					close(again)
					return
				}
			case <-ctx.Done():
				return
			}
		}
	}()
	return again
}

func closeAll(servers []*http.Server) error {
	var errs []error
	for _, srv := range servers {
		errs = append(errs, srv.Close())
	}
	return errors.Join(errs...)
}
