package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/mcp-dualstack/bridge/upstream"
)

const (
	defaultProbeTimeout = 20 * time.Second
	probeGrace          = 500 * time.Millisecond // for a child to end, twice
)

func probeCommand() *cobra.Command {
	var output, era string
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "probe [flags] URL | -- COMMAND ARGS...",
		Short: "Find out what a server speaks",
		Long: `probe asks a server which eras, transport and revisions of MCP it speaks, and says how serve would
front it. It shakes hands and calls nothing. A command is started a few times, once for each revision.

Exit codes: 0 found, 1 nothing that speaks MCP, 2 usage.`,
		Example: `  bridge probe http://127.0.0.1:3001/mcp
  bridge probe -- node server.js stdio
  bridge probe --bearer-file token.txt https://mcp.example.com/mcp
  bridge probe --child-env API_KEY --child-dir /srv/notes -- ./server
  bridge probe --output json --timeout 5s http://127.0.0.1:3001/sse`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkOutput(output); err != nil {
				return err
			}
			if timeout <= 0 {
				return misused("--timeout: must be more than nothing")
			}
			o := &upstream.Options{
				Era: era, ProbeTimeout: min(3*time.Second, timeout/4), OpenTimeout: timeout,
				CloseGrace: probeGrace, TermGrace: probeGrace, Logger: slog.New(slog.DiscardHandler),
			}
			if err := o.Validate(); err != nil {
				return misused("--era: %w", err)
			}
			up, name, err := probed(cmd, args, o)
			if err != nil {
				return err
			}
			ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
			defer stop()
			found, err := survey(ctx, up, timeout)
			if err != nil {
				return failed("%s: %w", name, err)
			}
			return found.write(cmd.OutOrStdout(), output)
		},
	}
	cmd.Flags().DurationVar(&timeout, "timeout", defaultProbeTimeout, "time for all of it")
	cmd.Flags().StringVar(&era, "era", "auto", "what the server speaks: auto (ask it), legacy or modern")
	addReach(cmd)
	addOutput(cmd, &output)
	cmd.Flags().SortFlags = false
	return cmd
}

// survey examines a server within a time and lets go of it.
func survey(ctx context.Context, up upstream.Connector, timeout time.Duration) (*sighting, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("no answer within %s; --timeout gives it longer", timeout))
	defer cancel()
	s, err := upstream.Examine(ctx, up)
	if err = errors.Join(err, up.Close()); err != nil {
		return nil, err
	}
	return sight(s), nil
}

// A sighting is what probe prints. Its JSON is for programs: members are added, not changed.
type sighting struct {
	Transport    string          `json:"transport"` // stdio, streamable_http or http_sse
	Eras         []string        `json:"eras"`      // session, stateless
	Revisions    []string        `json:"revisions"` // newest first
	Server       json.RawMessage `json:"server"`    // Implementation, or null
	Capabilities json.RawMessage `json:"capabilities"`
	Serve        fronting        `json:"serve"`
	name         string
}

// A fronting is how serve would front the server, for each kind of client: passed or translated.
type fronting struct {
	Sessions  string `json:"session_clients"`   // 2024-11-05 to 2025-11-25
	Stateless string `json:"stateless_clients"` // 2026-07-28
}

func sight(s upstream.Survey) *sighting {
	f := &sighting{
		Transport: s.Transport, Eras: []string{}, Revisions: s.Revisions.Strings(),
		Server: json.RawMessage(s.Server.Info), Capabilities: json.RawMessage(s.Server.Capabilities),
		Serve: fronting{"translated", "translated"}, name: serverName(s.Verdict),
	}
	if s.Legacy {
		f.Eras, f.Serve.Sessions = append(f.Eras, "session"), "passed"
	}
	if s.Modern {
		f.Eras, f.Serve.Stateless = append(f.Eras, "stateless"), "passed"
	}
	if f.Server == nil {
		f.Server = json.RawMessage("null")
	}
	if f.Capabilities == nil {
		f.Capabilities = json.RawMessage("{}")
	}
	return f
}

func (f *sighting) write(w io.Writer, output string) error {
	if output == "json" {
		return json.NewEncoder(w).Encode(f)
	}
	table := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	row := func(name, value string) { fmt.Fprintf(table, "%s\t%s\n", name, value) }
	row("server", orNone(f.name))
	row("transport", transportName(f.Transport))
	row("eras", strings.Join(f.Eras, ", "))
	row("revisions", strings.Join(f.Revisions, ", "))
	row("capabilities", orNone(f.capabilities()))
	fmt.Fprintf(table, "\nbridge serve in front of it:\n")
	row("session clients (2024-11-05 to 2025-11-25)", f.how(f.Serve.Sessions, "session"))
	row("stateless clients (2026-07-28)", f.how(f.Serve.Stateless, "stateless"))
	return table.Flush()
}

// capabilities returns the names of the server's capabilities.
func (f *sighting) capabilities() string {
	var all map[string]json.RawMessage
	if json.Unmarshal(f.Capabilities, &all) != nil {
		return ""
	}
	var names []string
	for name := range all {
		names = append(names, printable(name))
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// how says in words what becomes of clients of a kind.
func (f *sighting) how(fate, kind string) string {
	child := f.Transport == "stdio"
	switch {
	case fate == "passed" && kind == "session" && child:
		return "passed through, a child process each"
	case fate == "passed" && kind == "session":
		return "passed through, a session each"
	case fate == "translated" && kind == "stateless":
		return "translated, on sessions of a pool"
	case child:
		return fate + ", all on one child process"
	}
	return fate
}

func transportName(t string) string {
	switch t {
	case "streamable_http":
		return "Streamable HTTP"
	case "http_sse":
		return "HTTP+SSE (2024-11-05)"
	}
	return t
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}
