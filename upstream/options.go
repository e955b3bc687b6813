package upstream

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
)

// Options configure an Upstream. The zero value of each field is the default.
type Options struct {
	Era    string       // "legacy" or "modern": the operator knows; "auto" or "": probe
	Info   []byte       // raw Implementation object shown to the server where no client gave one; nil: the bridge's name
	Logger *slog.Logger // nil: silent

	MaxSessions     int // connections (children) at once, the shared, the probed and the closing ones included; 0: 64
	MaxMessageBytes int // one line from the server; 0: 64 MiB
	MaxQueueBytes   int // waiting to be written to one connection; a single larger message still passes; 0: 1 MiB
	MaxAnswerBytes  int // the same with answers to the server's own requests, which cannot wait; over it the connection ends; 0: 16 MiB
	MaxQuestions    int // requests of the server's that wait for a client, per connection; 0: 64

	ProbeTimeout time.Duration // for an answer to server/discover before the server counts as legacy; 0: 3 s
	OpenTimeout  time.Duration // for a connection and its handshake; 0: 30 s

	// SameEra refuses a client whose era the server does not speak, with era_unsupported. Otherwise Open answers it
	// with a session of the server's era, and something above translates (package translate; the bridge has it).
	SameEra bool

	// Sharing says how clients share a server of the handshake era (translation.md 12). "auto", "dedicated"
	// and "": handshake-era clients have a connection each, the others use the pool. "pool": all use the pool.
	// "shared": all use one connection and none can be asked anything; it needs Stateless.
	Sharing   string
	Stateless bool // the operator vouches that the server keeps nothing for a client between requests

	MaskCapabilities []string // client capabilities that the pool hides: elicitation, elicitation.url, sampling, roots, ids of extensions...
	MayAsk           []string // tools during which the pool lets the server ask the client; nil: every request may

	// StaticRoots is a raw array of Root objects with which a server is answered that asks a session of the pool for roots while no
	// call is in flight, as some do right after the handshake (translation.md 7.3.10). Nil: it is refused.
	StaticRoots []byte

	MaxLeases        int           // sessions of the pool per principal and set of client capabilities; 0: 32, as many as one principal may have suspended
	LeaseWait        time.Duration // for a session of the pool, then upstream_busy; 0: 5 s
	IdleLife         time.Duration // of a session of the pool that nobody uses; 0: 5 min
	MaxWaiting       int           // calls that wait for a session of the pool, and opens for room; more are refused at once; 0: 1024
	MaxWatchers      int           // sessions that hear changes through the pool; 0: 4096
	MaxSubscriptions int           // URIs subscribed to through the pool, per principal; 0: 4096

	// Bound is told the name of a bound when it is reached, one of the Bound constants. It must not block.
	// Nil: nobody is.
	Bound func(name string)

	// Dropped is told the method of a notification that some client may have wanted and that belongs to none for certain, a log
	// message on a session that many share above all. It must not block. Nil: nobody is.
	Dropped func(method string)

	HTTP *HTTPOptions // of a server behind a URL; nil: the defaults

	CloseGrace time.Duration // between end of input and SIGTERM, and for what is still to be written; 0: 2 s
	TermGrace  time.Duration // between SIGTERM and SIGKILL; 0: 2 s
}

// Names of bounds, for Options.Bound.
const (
	BoundSessions      = "sessions"           // MaxSessions
	BoundLeases        = "leases"             // MaxLeases
	BoundLeaseWait     = "lease_wait"         // LeaseWait: a call was refused
	BoundWaiting       = "lease_queue"        // MaxWaiting
	BoundWatchers      = "watchers"           // MaxWatchers
	BoundSubscriptions = "pool_subscriptions" // MaxSubscriptions
)

func (o *Options) reached(bound string) {
	if o.Bound != nil {
		o.Bound(bound)
	}
}

func (o *Options) dropped(method string) {
	if o.Dropped != nil {
		o.Dropped(method)
	}
}

// Validate reports every field that cannot be.
func (o *Options) Validate() error {
	var errs []error
	if !slices.Contains([]string{"", "auto", "legacy", "modern"}, o.Era) {
		errs = append(errs, fmt.Errorf("era %q is none of auto, legacy, modern", o.Era))
	}
	if !slices.Contains([]string{"", "auto", "dedicated", "pool", "shared"}, o.Sharing) {
		errs = append(errs, fmt.Errorf("sharing %q is none of auto, dedicated, pool, shared", o.Sharing))
	}
	if o.Sharing == "shared" && !o.Stateless {
		errs = append(errs, errors.New("sharing \"shared\" needs the server to be declared stateless"))
	}
	if o.Sharing == "shared" && o.HTTP != nil && o.HTTP.PassThrough {
		errs = append(errs, errors.New("sharing \"shared\" cannot be with pass-through: one client's credentials would serve all"))
	}
	if o.StaticRoots != nil && !jsonrpc.IsArray(o.StaticRoots) {
		errs = append(errs, errors.New("static roots are no JSON array"))
	}
	return errors.Join(errs...)
}

const defaultInfo = `{"name":"mcp-dualstack-bridge","version":"0"}`

func (o *Options) withDefaults() Options {
	var d Options
	if o != nil {
		d = *o
	}
	if d.Info == nil {
		d.Info = []byte(defaultInfo)
	}
	if d.Logger == nil {
		d.Logger = slog.New(slog.DiscardHandler)
	}
	def(&d.MaxSessions, 64)
	def(&d.MaxMessageBytes, 64<<20)
	def(&d.MaxQueueBytes, 1<<20)
	def(&d.MaxAnswerBytes, 16<<20)
	def(&d.MaxQuestions, 64)
	def(&d.ProbeTimeout, 3*time.Second)
	def(&d.OpenTimeout, 30*time.Second)
	def(&d.MaxLeases, 32)
	def(&d.LeaseWait, 5*time.Second)
	def(&d.IdleLife, 5*time.Minute)
	def(&d.MaxWaiting, 1024)
	def(&d.MaxWatchers, 4096)
	def(&d.MaxSubscriptions, 4096)
	d.HTTP = d.HTTP.withDefaults()
	def(&d.CloseGrace, 2*time.Second)
	def(&d.TermGrace, 2*time.Second)
	return d
}

func def[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}
