package translate

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
)

// Options configure a Handler. The zero value works.
type Options struct {
	MaxSchemas int           // tools whose annotations are remembered; zero: 4096
	UnknownFor time.Duration // how long a tool that no list named is not looked for again; zero: 30 s
	Logger     *slog.Logger  // nil: silent

	// Info is the raw Implementation object of the bridge. It names what the bridge asks of a modern server itself, and stands in
	// for the name and version of a server that gives none to clients whose handshake demands them. nil: the bridge's name.
	Info []byte

	// UpstreamHTTP says that a modern server is reached over HTTP. Tools whose x-mcp-header annotations break the
	// rules cannot be called there, and are left out of lists (translation.md 11); and each listen has a stream of its own, where
	// on one connection for all they are shared (hub).
	UpstreamHTTP bool
	// Pooled says that handshake-era clients share the sessions of a handshake-era server. Core tasks belong to a session, so
	// they do not pass then (translation.md 10).
	Pooled bool

	// Subscriptions of handshake-era sessions with a modern server (translation.md 8.2): URIs of one session, and of all together.
	MaxSubscriptions int // zero: 256
	MaxListenURIs    int // zero: 4096

	// Cache says, by method, how long clients of 2026-07-28 may keep results of which the server itself does not say it
	// (translation.md 5, T8). Methods that are not in it: not at all.
	Cache    map[string]Cache
	MaxLists int // paged lists whose cacheScope is remembered for their further pages; zero: 4096

	// Roots is a raw array of Root objects with which a handshake-era server is answered that asks for roots although no request is
	// there to ask for, as some do right after the handshake (translation.md 7.3.10). Nil: it is refused.
	Roots []byte

	// Drive is about handshake-era clients of a modern server.
	Drive DriveOptions
	// Suspend is about modern clients of a handshake-era server, and about the requestState the bridge seals.
	Suspend SuspendOptions
	// Wrap seals the requestState of a modern server, which binds it to its own caller, the bridge: set it when clients are
	// authenticated or several routes exist (translation.md 7.5).
	Wrap bool

	// Observe is told what could not be given to a client (exchange.SeenDropped, Detail is the method). It must not block.
	// Nil: nobody is.
	Observe func(exchange.Observation)
}

// A Cache is a hint for clients of 2026-07-28 (2026-07-28 schema, CacheableResult).
type Cache struct {
	TTL    time.Duration // in whole milliseconds; 0: the result is stale at once
	Public bool          // anybody's may be given to anybody: cacheScope "public" instead of "private"
}

const defaultInfo = `{"name":"mcp-dualstack-bridge","version":"0"}`

// Check reports everything that is wrong with o, joined.
func (o *Options) Check() error {
	opts, err := o.withDefaults()
	return errors.Join(err, opts.Suspend.Check())
}

// withDefaults returns o with the defaults filled in, except for those of Suspend. Nil is the zero value. The error joins
// everything that is wrong with the rest.
func (o *Options) withDefaults() (Options, error) {
	var d Options
	if o != nil {
		d = *o
	}
	if d.Logger == nil {
		d.Logger = slog.New(slog.DiscardHandler)
	}
	if d.Info == nil {
		d.Info = []byte(defaultInfo)
	}
	errs := []error{
		fill("MaxSchemas", &d.MaxSchemas, 4096),
		fill("UnknownFor", &d.UnknownFor, 30*time.Second),
		fill("MaxSubscriptions", &d.MaxSubscriptions, 256),
		fill("MaxListenURIs", &d.MaxListenURIs, 4096),
		fill("MaxLists", &d.MaxLists, 4096),
		d.Drive.fill(),
	}
	if d.Roots != nil && !jsonrpc.IsArray(d.Roots) {
		errs = append(errs, errors.New("roots are no JSON array"))
	}
	for method, c := range d.Cache {
		if !cacheable(method) {
			errs = append(errs, fmt.Errorf("cache of %q: only results of server/discover, tools/list, prompts/list, resources/list, "+
				"resources/templates/list and resources/read say how long they may be kept", method))
		}
		if c.TTL < 0 || c.TTL%time.Millisecond != 0 {
			errs = append(errs, fmt.Errorf("cache of %q: %s is no number of whole milliseconds", method, c.TTL))
		}
	}
	return d, errors.Join(errs...)
}

// DriveOptions bound what a modern server may do with a handshake-era client during one call (translation.md 7.4). The zero value
// of each field is the default of translation.md 17.
type DriveOptions struct {
	MaxRounds    int           // in which the client is asked, or the server had nothing to ask yet; 0: 10
	MaxURLRounds int           // in which the server waits for a URL that the user has been given; 0: 30
	MaxQuestions int           // in one round; 0: 64
	AskTimeout   time.Duration // for the answer to one question; 0: 10 min

	// Bound is told the name of a bound when it is reached, BoundRounds, BoundURLAttempts or BoundQuestions. It must not block.
	// Nil: nobody is.
	Bound func(name string)
}

func (o *DriveOptions) fill() error {
	return errors.Join(
		fill("Drive.MaxRounds", &o.MaxRounds, 10),
		fill("Drive.MaxURLRounds", &o.MaxURLRounds, 30),
		fill("Drive.MaxQuestions", &o.MaxQuestions, 64),
		fill("Drive.AskTimeout", &o.AskTimeout, 10*time.Minute),
	)
}

func (o *DriveOptions) reached(bound string) {
	if o.Bound != nil {
		o.Bound(bound)
	}
}
