package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"

	"github.com/spf13/cobra"

	bridge "github.com/mcp-dualstack/bridge"
	"github.com/mcp-dualstack/bridge/cmd/bridge/demo"
	"github.com/mcp-dualstack/bridge/upstream"
)

func serveCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "serve [flags] [-- COMMAND ARGS...]",
		Short: "Serve clients of every age in front of one server",
		Long: `serve stands in front of the stdio server that COMMAND starts, of the server at --upstream, or of a
built-in demo server when there is neither, and serves clients on --listen until SIGTERM or SIGINT. A second signal ends it at once.

Every flag has an environment variable (--public-url is BRIDGE_PUBLIC_URL) and a key in the file of
--config (public_url). A flag counts before the environment, that before the file.

Metrics are on the admin listener. Traces and metrics go to a collector, too, where OTEL_EXPORTER_OTLP_ENDPOINT says so.

` + exitCodeHelp,
		Example: `  bridge serve
  bridge serve -- node server.js stdio
  bridge serve --upstream http://127.0.0.1:3001/mcp
  bridge serve --legacy off -- node server.js stdio
  bridge serve --config bridge.yaml`,
		Args: afterDash,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := load(cmd.Flags(), args)
			if err != nil {
				return problemList("the configuration", err)
			}
			signals := make(chan os.Signal, 2)
			signal.Notify(signals, syscall.SIGTERM, os.Interrupt)
			defer signal.Stop(signals)
			return serve(c, cmd.OutOrStdout(), newLogger(cmd.ErrOrStderr(), c.logFormat, c.logLevel), signals)
		},
	}
	addConfig(cmd.Flags())
	addSettings(cmd.Flags())
	cmd.Flags().SortFlags = false
	return cmd
}

// afterDash takes arguments only behind --, so that a forgotten dash is not taken for a program.
func afterDash(cmd *cobra.Command, args []string) error {
	n := cmd.ArgsLenAtDash()
	if n < 0 {
		n = len(args)
	}
	if n > 0 {
		return fmt.Errorf("%q is not understood; the command of the server stands after --", args[0])
	}
	return nil
}

// serve runs the bridge until a signal comes or a listener breaks.
func serve(c *config, stdout io.Writer, log *slog.Logger, signals <-chan os.Signal) error {
	paceHeap()
	for _, name := range c.unknown {
		log.Warn("environment variable is no setting", "name", name)
	}
	warnPlain(c, log)
	front, admin, err := listen(c, log)
	if err != nil {
		return err
	}
	var running atomic.Pointer[bridge.Bridge] // nil until there is one
	c.server.Dropped = func(method string) {
		if b := running.Load(); b != nil {
			b.Dropped(method)
		}
	}
	c.server.Bound = func(name string) {
		if b := running.Load(); b != nil {
			b.BoundReached(name)
		}
	}
	up, err := connect(c, log)
	if err != nil {
		return failed("%w", errors.Join(err, front.Close(), closeListener(admin)))
	}
	o := c.bridge
	o.Logger, o.Version = log, version()
	sent, end, err := export(o.Version, log)
	if err != nil {
		return misused("%w", errors.Join(err, up.Close(), front.Close(), closeListener(admin)))
	}
	defer end()
	o.Signals.Export = sent
	b, err := bridge.New(up, &o)
	if err != nil {
		return failed("%w", errors.Join(err, up.Close(), front.Close(), closeListener(admin)))
	}
	running.Store(b)

	ended := make(chan error, 2)
	entrance := &door{next: b}
	servers := []*http.Server{start(entrance, front, log, ended)}
	if admin != nil {
		servers = append(servers, start(b.Admin(), admin, log, ended))
	}
	verdict := probe(b, up, log)
	go announce(stdout, screen{c: c, listen: front.Addr(), admin: admin, stage: b.Retirement().State().Stage}, verdict)

	select {
	case err := <-ended:
		return failed("%w", errors.Join(err, b.Close(), closeAll(servers)))
	case sig := <-signals:
		log.Info("shutting down", "signal", sig.String(), "timeout", c.shutdownTimeout.String())
	}
	return shutdown(b, entrance, servers, ending{delay: c.drainDelay, timeout: c.shutdownTimeout}, log, signals)
}

// connect returns the server behind the bridge.
func connect(c *config, log *slog.Logger) (upstream.Connector, error) {
	o := &c.server
	o.Logger = log
	switch {
	case c.upstream != "":
		return upstream.URL(c.upstream, o)
	case len(c.command) == 0:
		return upstream.Pipe(demo.Dial, o), nil
	}
	return upstream.Stdio(c.child.command(c.command), o), nil
}

// listen opens the listeners; admin is nil when it is off.
func listen(c *config, log *slog.Logger) (front, admin net.Listener, err error) {
	front, err = net.Listen("tcp", c.listen)
	if err != nil {
		return nil, nil, failed("%w; choose another address with --listen", err)
	}
	if front, err = c.tls.secured(front, log); err != nil {
		return nil, nil, err
	}
	if c.admin == off {
		return front, nil, nil
	}
	admin, err = net.Listen("tcp", c.admin)
	if err != nil {
		return nil, nil, failed("%w; choose another address with --admin, or off", errors.Join(err, front.Close()))
	}
	if c.tls.admin {
		own := c.tls
		own.proxyProtocol, own.clientCA = nil, "" // operators are known by their token
		if admin, err = own.secured(admin, log); err != nil {
			return nil, nil, errors.Join(err, front.Close())
		}
	}
	return front, admin, nil
}

func closeListener(l net.Listener) error {
	if l == nil {
		return nil
	}
	return l.Close()
}
