package bridge

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/mcp-dualstack/bridge/internal/guard"
	"github.com/mcp-dualstack/bridge/telemetry"
)

// Default paths.
const (
	DefaultSSEPath     = "/sse"
	DefaultMessagePath = "/messages"
	DefaultMCPPath     = "/mcp"
)

// statusPath is the public status of the retirement (retirement.md 6), read-only.
const statusPath = "/retirement"

// Options configure a Bridge. The zero value works: every route on its default path, loopback names as the only
// hosts, nothing written to disk.
type Options struct {
	// LegacyOff switches the routes of HTTP+SSE (2024-11-05) off: they answer as gone (retirement.md 6) and
	// name the successor. A build without the transport (LegacyBuilt) answers so whatever is said here.
	LegacyOff bool

	// PublicURL is the absolute URL under which clients see the root of the bridge, such as
	// https://mcp.example.com/tools. Its host may be used in Host and Origin, and its path may stand before
	// every route. Empty: taken from each request.
	PublicURL string

	SSEPath     string // legacy stream (GET) and Streamable HTTP (POST); empty: /sse
	MessagePath string // legacy messages (POST); may equal SSEPath; empty: /messages
	MCPPath     string // Streamable HTTP; empty: /mcp

	// EndpointURL says how the legacy endpoint event names the message route (translation.md 9.1): auto,
	// absolute or relative; empty: auto.
	EndpointURL string

	// AllowedHosts are further names that a Host header may carry, with or without a port. Loopback names
	// and the host of PublicURL always may.
	AllowedHosts []string
	// AllowedOrigins are further origins, such as https://app.example.com, that browsers may call from.
	AllowedOrigins []string
	// TrustedProxies are addresses or prefixes (10.0.0.0/8) whose X-Forwarded-For, -Proto, -Host and
	// -Prefix are believed. Empty: nobody's.
	TrustedProxies []string

	// Auth says how clients are authenticated; the zero value lets everybody in.
	Auth Auth
	// ToolRules say who may see and call which tools. Empty: everybody every tool.
	ToolRules []ToolRule
	// AdminTokenFile has the token that the routes of Admin ask for, but for those of health; at least 16 characters. It is read
	// again when it changes. Empty: none is asked for.
	AdminTokenFile string

	// Profiles is served below /debug/pprof/ by Admin, to whom its other routes are served; nil: nothing is. It gets the whole
	// path, as the handlers of net/http/pprof expect.
	Profiles http.Handler
	// HSTS tells browsers for how long to use https only (RFC 6797), in answers over TLS. Zero: nothing is said.
	HSTS time.Duration

	// PrincipalLimit and AddressLimit are what one authenticated caller, and one address, may do; over it the answer is 429. An
	// IPv6 address stands for its /64. The zero values are no limits.
	PrincipalLimit, AddressLimit Limit
	// FailureLimit is how many requests of one address may fail to authenticate; zero: 5 per second, 100 at once. A negative
	// Rate is no limit.
	FailureLimit Limit

	// State is the folder of ledger.db, retirement.json and audit.jsonl; it is made when missing. Empty: they live in
	// memory, and the stage of the retirement is open at first.
	State string

	Retirement RetirementOptions // of the routes of HTTP+SSE

	KeepAlive    time.Duration // between comments on an idle stream; zero: 15 s
	IdleTimeout  time.Duration // after which a session of Streamable HTTP without a stream or call ends; zero: 30 min
	WriteTimeout time.Duration // of one write to a stream; zero: 30 s
	AskTimeout   time.Duration // of a question to a client; zero: 10 min
	BodyTimeout  time.Duration // for the whole of a request's body to arrive; zero: 30 s

	// Hijack takes the connections of HTTP/1.1 streams that may be silent for long over from net/http (http.Hijacker), which halves
	// what an idle stream takes of memory. Handlers of yours around the Bridge see such a request end when its stream begins, and
	// http.Server.Shutdown does not wait for it; Bridge.Shutdown does. A ResponseWriter without Hijack is used as it is.
	Hijack bool

	// Grace is how long the head of the stream that answers a session's POST waits for the answer, so that quick ones take one
	// write and not two. Zero: the head goes out at once.
	Grace time.Duration
	// PollAfter releases the connection of a call of a 2025-11-25 session that takes longer; the client comes back for the
	// result with Last-Event-ID. Zero: never.
	PollAfter time.Duration
	// MaxStreamAge ends streams that no call belongs to and that are older, less up to a tenth, so that clients open others: those
	// of 2025-11-25 sessions, and legacy ones whose clients are re-attached. Zero: never.
	MaxStreamAge time.Duration
	// Reattach says which legacy clients have their session again when they lost the stream and come back within a
	// minute (retirement.md R8): authenticated, all or off; empty: authenticated.
	Reattach string

	// Bounds. Over one that is a client's own the answer is 429, over one that all share 503, both with Retry-After; over one of
	// calls on the legacy stream an error. Each is for each transport.
	MaxSessions             int   // open sessions per transport, a legacy stream being one; zero: 1024
	MaxStateless            int   // 2026-07-28 requests in flight, listens included; zero: 4096
	MaxCalls                int   // calls in flight per session; zero: 256
	MaxSessionsPerPrincipal int   // of one authenticated caller; zero: 256
	MaxCallsInTotal         int   // calls in flight in all sessions; zero: 4096
	MaxStreams              int   // streams open in sessions of Streamable HTTP; zero: 8192
	MaxStreamsPerSession    int   // of them in one session; zero: 320
	MaxBodyBytes            int64 // of one request body; zero: 8 MiB
	MaxBodyBytesInTotal     int64 // of all requests being read or answered; over it 503; zero: 128 MiB
	StreamBytes             int   // queued bytes per stream before a slow reader is cut; zero: 1 MiB

	// What a stream of a session keeps for a client that lost the connection (translation.md 14.4).
	ReplayEvents int           // per stream; zero: 256
	ReplayBytes  int           // per stream, and of all finished calls of a session together; zero: 1 MiB
	ReplayAge    time.Duration // zero: 5 min

	JSONResponses bool // answer session-era POSTs with JSON where nothing but the response is to be said
	AcceptRawName bool // accept Mcp-Name that should have been encoded (translation.md 11)

	Version string // of the program, named where the bridge speaks for itself; empty: unknown
	// Translation configures how calls of 2026-07-28 clients wait for their user in front of a handshake-era server:
	// bounds, the keys of requestState (several replicas need the same), tools that may be run again. The zero value
	// has the defaults of translation.md 17 and a random key.
	Translation SuspendOptions
	// Drive bounds what a server of 2026-07-28 may do with an older client during one call. The zero value has the defaults of
	// translation.md 17; AskTimeout is that of the bridge.
	Drive DriveOptions
	// Cache says, by method, how long clients of 2026-07-28 may keep results of which the server itself does not say it.
	Cache map[string]Cache
	// Roots is a raw array of Root objects for a server that asks for roots although no request is there to ask for.
	// upstream.Options.StaticRoots wants the same. Nil: it is refused.
	Roots []byte

	// Ledger says what is kept of clients: bounds, privacy, for how long. The bridge sets Logger itself, and State says where.
	Ledger telemetry.Options

	// Signals are about metrics, traces and the events of the log: bounds, names, and where they are sent beside /metrics. The bridge
	// sets Report, Counters, Retirement, UpstreamTransport, IDs, Version and Logger itself.
	Signals telemetry.SignalOptions

	Logger *slog.Logger // nil: silent
}

// settings are Options after validation, with defaults filled in.
type settings struct {
	Options
	publicURL *url.URL      // nil when not set; without a trailing slash
	proxies   guard.Proxies // trusted
	prefix    string        // path of publicURL, "" or /tools
	rules     toolRules
	tokens    *guard.Tokens // nil: none
	oidc      *guard.OIDC   // nil: none
	operator  *guard.Secret // nil: operators are not asked who they are
}

// check fills in the defaults and reports every problem at once. The guard tells refused of every refusal.
func (o Options) check(refused func(*http.Request, string)) (*settings, *guard.Guard, error) {
	s := &settings{Options: o}
	if s.Logger == nil {
		s.Logger = slog.New(slog.DiscardHandler)
	}
	urlErr := s.checkPublicURL()
	if urlErr != nil {
		s.PublicURL = "" // one report of it is enough
	}
	g, guardErr := guard.New(guard.Options{AllowedHosts: s.AllowedHosts, AllowedOrigins: s.AllowedOrigins, PublicURL: s.PublicURL, Refused: refused})
	return s, g, errors.Join(urlErr, guardErr, s.checkPaths(), s.checkChoices(), s.checkProxies(), s.checkNumbers(), s.translation(nil, nil).Check(), s.checkAuth(), s.checkRules(), s.checkLimits(), s.Retirement.check(), s.Signals.Check(), s.checkLedger())
}

func (s *settings) checkPublicURL() error {
	if s.PublicURL == "" {
		return nil
	}
	u, err := url.Parse(s.PublicURL)
	switch {
	case err != nil:
		return fmt.Errorf("public URL: %w", err)
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return fmt.Errorf("public URL: %q is not an absolute http or https URL such as https://mcp.example.com/tools", s.PublicURL)
	case u.RawQuery != "" || u.Fragment != "" || u.User != nil:
		return fmt.Errorf("public URL: %q must have no query, fragment or user", u.Redacted())
	}
	s.prefix = strings.TrimSuffix(cleanPath(u.Path), "/")
	s.publicURL = &url.URL{Scheme: u.Scheme, Host: u.Host, Path: s.prefix}
	return nil
}

func (s *settings) checkPaths() error {
	var errs []error
	for _, p := range []struct {
		name, fallback string
		path           *string
	}{
		{"SSE path", DefaultSSEPath, &s.SSEPath},
		{"message path", DefaultMessagePath, &s.MessagePath},
		{"MCP path", DefaultMCPPath, &s.MCPPath},
	} {
		if *p.path == "" {
			*p.path = p.fallback
		}
		if !isRoutePath(*p.path) {
			errs = append(errs, fmt.Errorf("%s: %q must be a plain path such as %s", p.name, *p.path, p.fallback))
			continue
		}
		*p.path = cleanPath(*p.path)
		if *p.path == statusPath {
			errs = append(errs, fmt.Errorf("%s: %s is taken by the public status of the retirement", p.name, statusPath))
		}
	}
	if s.MCPPath == s.SSEPath || s.MCPPath == s.MessagePath {
		errs = append(errs, fmt.Errorf("MCP path: %q is a legacy route too; Streamable HTTP is served on the SSE path anyway, so choose another", s.MCPPath))
	}
	return errors.Join(errs...)
}

// isRoutePath reports whether p can be a route: absolute, and nothing in it that a router, a URL or path.Clean reads in its own way.
func isRoutePath(p string) bool {
	return strings.HasPrefix(p, "/") && !strings.ContainsAny(p, "{}?#%\\ ") && cleanPath(p) == path.Clean(p)
}

func (s *settings) checkChoices() error {
	var errs []error
	for _, c := range []struct {
		name    string
		value   *string
		choices []string // the first is the default
	}{
		{"endpoint URL", &s.EndpointURL, []string{"auto", "absolute", "relative"}},
		{"reattach", &s.Reattach, []string{"authenticated", "all", "off"}},
	} {
		if *c.value == "" {
			*c.value = c.choices[0]
		}
		if !slices.Contains(c.choices, *c.value) {
			errs = append(errs, fmt.Errorf("%s: %q is none of %s", c.name, *c.value, strings.Join(c.choices, ", ")))
		}
	}
	return errors.Join(errs...)
}

func (s *settings) checkProxies() (err error) {
	s.proxies, err = guard.NewProxies(s.TrustedProxies)
	return err
}

func (s *settings) checkNumbers() error {
	var errs []error
	for _, n := range []struct {
		name  string
		value int64
	}{
		{"keep-alive", int64(s.KeepAlive)}, {"idle timeout", int64(s.IdleTimeout)}, {"write timeout", int64(s.WriteTimeout)},
		{"ask timeout", int64(s.AskTimeout)}, {"max sessions", int64(s.MaxSessions)}, {"max stateless", int64(s.MaxStateless)}, {"max calls", int64(s.MaxCalls)},
		{"body timeout", int64(s.BodyTimeout)}, {"grace", int64(s.Grace)}, {"poll after", int64(s.PollAfter)}, {"max stream age", int64(s.MaxStreamAge)},
		{"max sessions per principal", int64(s.MaxSessionsPerPrincipal)}, {"max calls in total", int64(s.MaxCallsInTotal)},
		{"max streams", int64(s.MaxStreams)}, {"max streams per session", int64(s.MaxStreamsPerSession)},
		{"max body bytes", s.MaxBodyBytes}, {"max body bytes in total", s.MaxBodyBytesInTotal}, {"hsts", int64(s.HSTS)}, {"stream bytes", int64(s.StreamBytes)},
		{"replay events", int64(s.ReplayEvents)}, {"replay bytes", int64(s.ReplayBytes)}, {"replay age", int64(s.ReplayAge)},
	} {
		if n.value < 0 {
			errs = append(errs, fmt.Errorf("%s: must not be negative", n.name))
		}
	}
	return errors.Join(errs...)
}
