package main

import (
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	bridge "github.com/mcp-dualstack/bridge"
	"github.com/mcp-dualstack/bridge/upstream"
)

// leastWatchers is how many sessions may hear of changes on a shared server session at least.
const leastWatchers = 4096

// off switches a listener or the state folder off.
const off = "off"

// A config is everything serve needs to know, checked.
type config struct {
	listen, admin   string
	server          upstream.Options // without Logger
	upstream        string           // URL of the server; empty: command
	command         []string         // empty: the demo server
	child           surroundings     // of command
	state           string           // "": in memory
	insecure        bool
	drainDelay      time.Duration
	shutdownTimeout time.Duration
	tls             transportSecurity
	logFormat       string
	logLevel        slog.Level
	bridge          bridge.Options // without Logger

	settings []resolved // every setting with where it comes from, for bridge check
	unknown  []string   // environment variables that look like settings and are none
}

// load reads the settings of a command line: flag before environment before file before default. command is
// what stands after --. The error joins every problem, each with the place it comes from.
func load(fs *pflag.FlagSet, command []string) (*config, error) {
	src, err := read(fs)
	if err != nil {
		return nil, err
	}
	c := &config{
		listen:          src.text("listen"),
		admin:           src.text("admin"),
		server:          src.server(),
		command:         src.command(command),
		child:           src.surroundings(),
		upstream:        src.text("upstream"),
		insecure:        src.bool("insecure"),
		drainDelay:      src.optional("drain_delay"),
		shutdownTimeout: src.duration("shutdown_timeout"),
		logFormat:       src.oneOf("log_format", "auto", "text", "json"),
		unknown:         src.unknown,
	}
	if err := c.logLevel.UnmarshalText([]byte(src.text("log_level"))); err != nil {
		src.problem("log_level", "%q is none of debug, info, warn, error", src.text("log_level"))
	}
	src.checkChild(c)
	c.state = src.state()
	c.bridge = src.options()
	c.bridge.State = c.state
	c.server.MaxWatchers = max(leastWatchers, 2*c.bridge.MaxSessions) // of both transports
	if src.bool("pprof") {
		c.bridge.Profiles = profiles()
		if c.admin == off {
			src.problem("pprof", "it is served on the admin listener, which is off; say where with --admin")
		}
	}
	c.server.StaticRoots = c.bridge.Roots
	src.security(c)
	src.checkReach(c)
	src.checkUpstream(c)
	if err := c.bridge.Check(); err != nil {
		src.problems = append(src.problems, err)
	}
	c.settings = src.resolved(c)
	return c, errors.Join(src.problems...)
}

func (s *source) options() bridge.Options {
	o := bridge.Options{
		LegacyOff:      s.legacyOff(),
		Retirement:     s.retirement(),
		PublicURL:      s.text("public_url"),
		SSEPath:        s.text("sse_path"),
		MessagePath:    s.text("message_path"),
		MCPPath:        s.text("mcp_path"),
		EndpointURL:    s.text("endpoint_url"),
		AllowedHosts:   s.list("allowed_host"),
		AllowedOrigins: s.list("allowed_origin"),
		TrustedProxies: s.list("trusted_proxy"),
		KeepAlive:      s.duration("keep_alive"),
		Hijack:         s.bool("hijack"),
		Grace:          s.optional("grace"),
		PollAfter:      s.optional("poll_after"),
		MaxStreamAge:   s.optional("max_stream_age"),
		Reattach:       s.oneOf("reattach", "authenticated", "all", off),
	}
	o.Signals = s.signals()
	o.Ledger = s.ledger()
	o.Retirement.Readiness = s.readiness()
	s.bounds(&o)
	s.translation(&o)
	return o
}

func (s *source) legacyOff() bool {
	value := s.oneOf("legacy", "on", off)
	if value == "on" && !bridge.LegacyBuilt {
		s.problem("legacy", "the HTTP+SSE transport is not in this build (tag nolegacy); say off")
	}
	return value == off
}

// server returns the options of the server behind the bridge.
func (s *source) server() upstream.Options {
	o := upstream.Options{
		Era:              s.oneOf("era", "auto", "legacy", "modern"),
		SameEra:          !s.bool("translate"),
		Sharing:          s.oneOf("sharing", "auto", "dedicated", "pool", "shared"),
		Stateless:        s.bool("stateless"),
		MayAsk:           s.list("may_ask"),
		MaskCapabilities: s.list("mask_capability"),
		MaxSessions:      s.number("max_children"),
		HTTP: &upstream.HTTPOptions{
			Headers:     s.headers("upstream_header"),
			BearerFile:  s.text("upstream_bearer_file"),
			CAFile:      s.text("upstream_ca_file"),
			CallTimeout: s.optional("upstream_timeout"),
		},
	}
	if o.Sharing == "shared" && !o.Stateless {
		s.problem("sharing", "shared needs a server that keeps nothing for a client between requests; say --stateless if yours does not")
	}
	return o
}

// headers returns lines such as "Name: value" as a header. The values may be secrets and are in no message.
func (s *source) headers(key string) http.Header {
	h, err := parseHeaders(s.words(key))
	if err != nil {
		s.problem(key, "%w", err)
	}
	return h
}

// checkUpstream refuses a URL that leads nowhere, and one beside a command.
func (s *source) checkUpstream(c *config) {
	if c.upstream == "" {
		return
	}
	if len(c.command) > 0 {
		s.problem("upstream", "there is a command too; the bridge stands in front of one server")
	}
	if r, err := upstream.URL(c.upstream, &c.server); err != nil {
		s.problem("upstream", "%w", err)
	} else {
		_ = r.Close() // nothing has been sent
	}
}

// command returns the server's command line: what stood after --, else the file's.
func (s *source) command(args []string) []string {
	if len(args) == 0 {
		args = s.words(commandKey)
	} else if err := s.values.Set(commandKey, args); err != nil {
		panic("bridge: a list of words cannot be set: " + err.Error())
	} else {
		s.origins[commandKey] = "after --"
	}
	if len(args) == 0 {
		return nil
	}
	if err := startable(args[0], s.text(keyOf(childDirFlag))); err != nil {
		s.problem(commandKey, "cannot be started: %w", err)
	}
	return args
}

// state returns the state folder, "" for none.
func (s *source) state() string {
	switch dir := s.text("state"); dir {
	case off:
		return ""
	case "":
		dir, err := userState()
		if err != nil {
			s.problem("state", "no folder of the user's to keep the ledger in; name one or say off: %w", err)
		}
		return dir
	default:
		return dir
	}
}

// userState returns the default state folder (XDG Base Directory Specification).
func userState() (string, error) {
	if dir := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "bridge"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(home, ".local", "state", "bridge"), nil
}

// checkAddress refuses what cannot be listened on, and what others could reach without anybody asking
// who they are.
func (s *source) checkAddress(key, addr string, open bool, advice string) {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		s.problem(key, "%q is not an address such as 127.0.0.1:8420", addr)
		return
	}
	if !isLoopback(host) && !open {
		s.problem(key, "%s can be reached from other machines and nobody would be asked who they are; %s", addr, advice)
	}
}

func isLoopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	a, err := netip.ParseAddr(host)
	return err == nil && a.Unmap().IsLoopback()
}

// A resolved is one setting as it counts, and where it comes from.
type resolved struct{ key, value, origin string }

func (s *source) resolved(c *config) []resolved {
	var list []resolved
	for _, key := range slices.Sorted(slices.Values(s.keys)) {
		value := s.show(key)
		if key == "state" && value == "" {
			value = c.state
		}
		list = append(list, resolved{key, value, s.origin(key)})
	}
	return list
}

// problemList joins problems for the user, one a line.
func problemList(what string, err error) error {
	lines := strings.Split(err.Error(), "\n")
	if len(lines) == 1 {
		return misused("%s: %s", what, lines[0])
	}
	return misused("%s has %d problems:\n  %s", what, len(lines), strings.Join(lines, "\n  "))
}
