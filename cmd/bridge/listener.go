package main

import (
	"errors"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// Limits of the listeners. There is no read or write timeout: it would cut every stream; the transports set a deadline for
// each body and each write instead.
const (
	readHeaderTimeout    = 10 * time.Second
	idleTimeout          = 2 * time.Minute
	maxHeaderBytes       = 64 << 10
	maxConcurrentStreams = 1000 // of one HTTP/2 connection: a proxy has all its clients on a few
)

// start serves h on l, over HTTP/1 and HTTP/2, the latter without TLS too (RFC 9113, section 3.3), in a goroutine that ends when the server is
// closed, and sends to ended if it ends by itself.
func start(h http.Handler, l net.Listener, log *slog.Logger, ended chan<- error) *http.Server {
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(true)
	srv := &http.Server{
		Handler:           h,
		Protocols:         &protocols,
		HTTP2:             &http.HTTP2Config{MaxConcurrentStreams: maxConcurrentStreams},
		ReadHeaderTimeout: readHeaderTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	go func() {
		if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			ended <- err
		}
	}()
	return srv
}
