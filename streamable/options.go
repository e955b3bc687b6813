package streamable

import (
	"errors"
	"log/slog"
	"net/http"
	"net/netip"
	"time"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/negotiate"
)

// Options configure a Front. The zero value of each field is its default.
type Options struct {
	// Enabled has the handshake-era revisions that may be negotiated; zero: all. 2026-07-28 is always
	// served, as far as the server behind the handler allows it.
	Enabled negotiate.Set
	// Principal names the authenticated caller of a request; nil: nobody is authenticated.
	Principal func(*http.Request) string
	// Authorization returns what is passed on as Client.Authorization, in pass-through mode (translation.md 13); nil: nothing is.
	Authorization func(*http.Request) string
	// Addr is the client's address, after trusted proxies; nil: the connection's.
	Addr    func(*http.Request) netip.Addr
	Observe func(exchange.Observation) // nil: nobody listens
	Logger  *slog.Logger               // nil: silent

	// JSONResponses answers session-era requests with application/json wherever the client accepts it
	// (json_responses: auto of translation.md 9). What else belongs to the exchange then goes to the GET stream.
	JSONResponses bool
	// AcceptRawName also accepts an Mcp-Name that is the raw text of the body (translation.md 11).
	AcceptRawName bool

	KeepAlive    time.Duration // longest silence on a stream before a comment; zero: 15 s
	WriteTimeout time.Duration // for one write to a client; zero: 30 s
	AskTimeout   time.Duration // for a question to a client; zero: 10 minutes
	IdleTimeout  time.Duration // a session without any stream or call ends after it; zero: 30 minutes
	HoldTimeout  time.Duration // how long what goes to no open stream waits for one; zero: 30 s

	BodyTimeout time.Duration // for the whole of a request's body to arrive; zero: 30 s

	// Grace is how long the head of the stream that answers a POST waits for the answer itself, so that quick ones take one write
	// and not two; zero: the head goes out at once.
	Grace time.Duration
	// PollAfter releases the connection of a POST stream whose call has taken so long: the client comes back with
	// Last-Event-ID (2025-11-25 basic/transports, Sending Messages to the Server, point 6). Only sessions of that
	// revision know how. Zero: never.
	PollAfter time.Duration
	// Retry is what a client is told to wait before it comes back to a stream that was closed on purpose; zero: 1 s.
	Retry time.Duration
	// MaxStreamAge ends a GET stream that is older, less up to a tenth, so that its client opens another; in sessions of
	// 2025-11-25 only, as PollAfter. Zero: never.
	MaxStreamAge time.Duration

	// Bounds. Over one that is a client's own the answer is 429, over one that all share 503, both with Retry-After.
	MaxBodyBytes            int64 // of a POST; zero: 8 MiB
	MaxSessions             int   // in total; zero: 1024
	MaxSessionsPerPrincipal int   // of one authenticated caller; zero: 256
	MaxStreams              int   // open streams of all sessions, those that answer a POST included; zero: 8192
	MaxStreamsPerSession    int   // zero: 320
	MaxCalls                int   // in flight in one session; zero: 256
	MaxCallsInTotal         int   // in flight in all sessions; zero: 4096
	MaxStateless            int   // 2026-07-28 requests in flight in total, listens included; zero: 4096

	// StreamBytes bounds what waits for a slow reader of one stream; a reader over it is cut off. One
	// message always passes. Zero: 1 MiB.
	StreamBytes int

	// Replay: what a stream keeps for a client that lost the connection (translation.md 14.4). A
	// session's finished exchanges have ReplayBytes together, beside what is in flight.
	ReplayEvents  int           // per stream; zero: 256
	ReplayBytes   int           // per stream; zero: 1 MiB
	ReplayAge     time.Duration // zero: 5 minutes
	ReplayStreams int           // finished exchanges kept per session; zero: 64
}

// maxCoalesced bounds the URIs remembered while no GET stream is open (translation.md 8.2).
const maxCoalesced = 256

// defaults returns o with every default filled in.
func (o Options) defaults() Options {
	o.Enabled &= negotiate.Legacy
	orDefault(&o.Enabled, negotiate.Legacy)
	orDefault(&o.KeepAlive, 15*time.Second)
	orDefault(&o.WriteTimeout, 30*time.Second)
	orDefault(&o.AskTimeout, 10*time.Minute)
	orDefault(&o.IdleTimeout, 30*time.Minute)
	orDefault(&o.HoldTimeout, 30*time.Second)
	orDefault(&o.BodyTimeout, 30*time.Second)
	orDefault(&o.Retry, time.Second)
	orDefault(&o.MaxBodyBytes, 8<<20)
	orDefault(&o.MaxSessions, 1024)
	orDefault(&o.MaxSessionsPerPrincipal, 256)
	orDefault(&o.MaxStreams, 8192)
	orDefault(&o.MaxStreamsPerSession, 320)
	orDefault(&o.MaxCalls, 256)
	orDefault(&o.MaxCallsInTotal, 4096)
	orDefault(&o.MaxStateless, 4096)
	orDefault(&o.StreamBytes, 1<<20)
	orDefault(&o.ReplayEvents, 256)
	orDefault(&o.ReplayBytes, 1<<20)
	orDefault(&o.ReplayAge, 5*time.Minute)
	orDefault(&o.ReplayStreams, 64)
	if o.Principal == nil {
		o.Principal = func(*http.Request) string { return "" }
	}
	if o.Authorization == nil {
		o.Authorization = func(*http.Request) string { return "" }
	}
	if o.Addr == nil {
		o.Addr = remoteAddr
	}
	if o.Observe == nil {
		o.Observe = func(exchange.Observation) {}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// check reports every option that makes no sense, at once.
func (o Options) check() error {
	var errs []error
	for _, f := range []struct {
		name     string
		negative bool
	}{
		{"KeepAlive", o.KeepAlive < 0}, {"WriteTimeout", o.WriteTimeout < 0}, {"AskTimeout", o.AskTimeout < 0},
		{"IdleTimeout", o.IdleTimeout < 0}, {"HoldTimeout", o.HoldTimeout < 0}, {"MaxBodyBytes", o.MaxBodyBytes < 0},
		{"MaxSessions", o.MaxSessions < 0}, {"MaxCalls", o.MaxCalls < 0}, {"MaxStateless", o.MaxStateless < 0},
		{"BodyTimeout", o.BodyTimeout < 0}, {"Grace", o.Grace < 0}, {"PollAfter", o.PollAfter < 0}, {"Retry", o.Retry < 0}, {"MaxStreamAge", o.MaxStreamAge < 0},
		{"MaxSessionsPerPrincipal", o.MaxSessionsPerPrincipal < 0}, {"MaxStreams", o.MaxStreams < 0},
		{"MaxStreamsPerSession", o.MaxStreamsPerSession < 0}, {"MaxCallsInTotal", o.MaxCallsInTotal < 0},
		{"StreamBytes", o.StreamBytes < 0}, {"ReplayEvents", o.ReplayEvents < 0}, {"ReplayBytes", o.ReplayBytes < 0},
		{"ReplayAge", o.ReplayAge < 0}, {"ReplayStreams", o.ReplayStreams < 0},
	} {
		if f.negative {
			errs = append(errs, errors.New(f.name+" is negative"))
		}
	}
	return errors.Join(errs...)
}

func orDefault[T comparable](v *T, def T) {
	var zero T
	if *v == zero {
		*v = def
	}
}

func remoteAddr(r *http.Request) netip.Addr {
	ap, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	return ap.Addr().Unmap()
}
