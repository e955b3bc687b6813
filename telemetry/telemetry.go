// Package telemetry records which clients speak what, and reports it.
//
// A [Ledger] decorates the handler behind the fronts and counts, per client, transport and revision,
// what comes through, and per identity who it is, as well as that can be told (retirement.md 4). The counters are gathered in memory
// and added to a SQLite file, so that they survive a restart and a kill. From them a [Report] says whether the legacy routes can go,
// under a [Policy]. Nothing but what a report has is kept: of addresses the network, of principals a keyed hash, no tokens, no arguments,
// no results.
package telemetry

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// Defaults of Options.
const (
	DefaultMaxClients      = 10_000
	DefaultMaxIdentities   = 10_000
	DefaultMaxNewPerPrefix = 64
	DefaultMaxEvidence     = 1_000
	DefaultMaxInfos        = 4_096
	DefaultFlushEvery      = 5 * time.Second
	DefaultFlushSoon       = 250 * time.Millisecond
	DefaultHeartbeat       = time.Minute
	DefaultBusyTimeout     = 5 * time.Second
	DefaultRetention       = retentionDays * Day
)

const (
	leastRetention = 30 * Day // less would forget what every policy asks for
)

// Options change how a ledger is kept. The zero value of each field is its default.
type Options struct {
	// MaxClients is how many client rows are kept; zero: 10 000. What comes beyond is counted per transport in an overflow
	// record. Two servers on one file share the room.
	MaxClients int
	// MaxEvidence is how many evidence rows are kept; zero: 1 000. What comes beyond is counted under the version "_OTHER".
	MaxEvidence int
	// MaxIdentities is how many identities are kept; zero: 10 000. MaxAnonymous is how many of these are of clients that nobody has
	// verified; zero: half of them. When a quota is full the identity is evicted that has been silent for the longest time, those that
	// use HTTP+SSE last; what it did is kept without saying who.
	MaxIdentities, MaxAnonymous int
	// MaxNewPerPrefix is how many anonymous identities of one network may be new on a day; zero: 64. Further ones are counted together.
	MaxNewPerPrefix int
	// MaxInfos is how many client descriptions are remembered as read, so that a stateless client costs no parsing per request; zero: 4 096.
	MaxInfos int

	FlushEvery  time.Duration // from the first change until it is written; zero: 5 s
	FlushSoon   time.Duration // the same for a new client and the first legacy use of a day; zero: 250 ms
	Heartbeat   time.Duration // at most this long between writes to a file, so that last_flush shows that the server was watching; zero: 1 min
	BusyTimeout time.Duration // how long to wait for another process that writes to the file; zero: 5 s

	// Retention is for how long what was last seen is kept; zero: 400 days, which is the most. An identity that comes more seldom than
	// this is a new one each time, so that it must be longer than what a policy looks at.
	Retention Period

	// Privacy says how much of a client's address is kept; empty: PrivacyPrefix.
	Privacy Privacy

	Logger *slog.Logger // nil is silent

	clock func() time.Time // nil: time.Now; for tests of a clock that is set
}

func (o *Options) withDefaults() Options {
	var out Options
	if o != nil {
		out = *o
	}
	orInt := func(n *int, d int) {
		if *n == 0 {
			*n = d
		}
	}
	orTime := func(t *time.Duration, d time.Duration) {
		if *t == 0 {
			*t = d
		}
	}
	orInt(&out.MaxClients, DefaultMaxClients)
	orInt(&out.MaxEvidence, DefaultMaxEvidence)
	orInt(&out.MaxInfos, DefaultMaxInfos)
	orInt(&out.MaxIdentities, DefaultMaxIdentities)
	orInt(&out.MaxAnonymous, (out.MaxIdentities+1)/2)
	orInt(&out.MaxNewPerPrefix, DefaultMaxNewPerPrefix)
	if out.Retention == 0 {
		out.Retention = DefaultRetention
	}
	if out.Privacy == "" {
		out.Privacy = PrivacyPrefix
	}
	if out.clock == nil {
		out.clock = time.Now
	}
	orTime(&out.FlushEvery, DefaultFlushEvery)
	orTime(&out.FlushSoon, DefaultFlushSoon)
	orTime(&out.Heartbeat, DefaultHeartbeat)
	orTime(&out.BusyTimeout, DefaultBusyTimeout)
	if out.Logger == nil {
		out.Logger = slog.New(slog.DiscardHandler)
	}
	return out
}

// Check reports everything that is wrong with o, joined.
func (o *Options) Check() error {
	d := o.withDefaults()
	return d.check()
}

// check reports every option that makes no sense.
func (o *Options) check() error {
	var errs []error
	for name, n := range map[string]int64{
		"MaxClients": int64(o.MaxClients), "MaxEvidence": int64(o.MaxEvidence), "MaxInfos": int64(o.MaxInfos),
		"MaxIdentities": int64(o.MaxIdentities), "MaxAnonymous": int64(o.MaxAnonymous), "MaxNewPerPrefix": int64(o.MaxNewPerPrefix),
		"FlushEvery": int64(o.FlushEvery), "FlushSoon": int64(o.FlushSoon), "Heartbeat": int64(o.Heartbeat), "BusyTimeout": int64(o.BusyTimeout),
	} {
		if n < 0 {
			errs = append(errs, errors.New("telemetry option "+name+" is negative"))
		}
	}
	if o.MaxAnonymous > o.MaxIdentities && o.MaxIdentities >= 0 {
		errs = append(errs, errors.New("telemetry option MaxAnonymous is larger than MaxIdentities, which it is a part of"))
	}
	if o.Retention < leastRetention || o.Retention > DefaultRetention {
		errs = append(errs, fmt.Errorf("telemetry option Retention is %v, which is not between %v and %v", o.Retention, leastRetention, DefaultRetention))
	}
	if !o.Privacy.known() {
		errs = append(errs, fmt.Errorf("telemetry option Privacy is %q, which is none of full, prefix, hash and off", o.Privacy))
	}
	return errors.Join(errs...)
}

func (o *Options) limits() limits {
	return limits{clients: o.MaxClients, evidence: o.MaxEvidence, identities: o.MaxIdentities, anonymous: o.MaxAnonymous}
}

// ErrClosed is returned by methods of a Ledger after Close.
var ErrClosed = errors.New("the ledger is closed")

// A Ledger counts who speaks what. Methods may be called concurrently.
type Ledger struct {
	o        Options
	clients  *clients
	evidence *evidence
	users    *users
	talks    *talks
	naming   *namer
	counters counters

	dirty   atomic.Bool   // something has been counted since the last flush
	changed chan struct{} // holds one token when dirty has become true
	urgent  chan struct{} // holds one token when something must be written soon
	asks    chan chan answer
	forgets chan oblivion
	stop    chan struct{}
	done    chan struct{} // closed when run has returned; err is set before
	once    sync.Once
	err     error // of the last flush and of closing the file

	started int64 // Unix milliseconds
	written int64 // when the file was last written before it was opened, Unix milliseconds; 0: never, or it is not sure
}

// Open opens the ledger in a SQLite file, which it creates with its folder if there is none; an empty name keeps
// the ledger in memory only. A file that is damaged is moved aside with the time in its name, which
// is logged as an error, and a fresh one is started. The errors are those of the options, of the file
// system, ErrNewer and ErrForeign.
func Open(file string, o *Options) (*Ledger, error) {
	opts := o.withDefaults()
	if err := opts.check(); err != nil {
		return nil, err
	}
	l := newLedger(opts)
	s, err := l.openStore(file)
	if err != nil {
		return nil, err
	}
	go l.run(file, s) // ends by Close
	return l, nil
}

func newLedger(o Options) *Ledger {
	l := &Ledger{
		o:       o,
		changed: make(chan struct{}, 1),
		urgent:  make(chan struct{}, 1),
		asks:    make(chan chan answer),
		forgets: make(chan oblivion),
		stop:    make(chan struct{}),
		done:    make(chan struct{}),
		started: o.clock().UnixMilli(),
	}
	l.clients = newClients(l)
	l.evidence = newEvidence(l)
	l.naming = &namer{privacy: o.Privacy}
	l.counters.evictions = make(evictions)
	l.users = newUsers(l)
	l.talks = newTalks(l)
	return l
}

// now is the time in Unix milliseconds.
func (l *Ledger) now() int64 { return l.o.clock().UnixMilli() }

// openStore opens the place where the counts are kept and learns which clients it knows already.
func (l *Ledger) openStore(file string) (store, error) {
	var err error
	if file == "" {
		l.naming.key = newKey()
		return newMemory(l.o.limits(), l.started), nil
	}
	s, err := openFile(file, &l.o, l.started)
	if err != nil {
		return nil, err
	}
	known, err := s.read()
	if err != nil {
		return nil, errors.Join(err, s.close())
	}
	if l.naming.key, err = loadKey(file); err != nil {
		return nil, errors.Join(err, s.close())
	}
	l.written = known.lastSure()
	l.clients.preload(known)
	l.users.preload(known, l.started)
	return s, nil
}

// Close writes what is outstanding and closes the file. What is counted afterwards is lost. Later
// calls return what the first one did.
func (l *Ledger) Close() error {
	l.once.Do(func() { close(l.stop) })
	<-l.done
	return l.err
}

// mark notes that something has been counted.
func (l *Ledger) mark() {
	if !l.dirty.Load() && l.dirty.CompareAndSwap(false, true) {
		signal(l.changed)
	}
}

// hurry asks for a flush within FlushSoon.
func (l *Ledger) hurry() { signal(l.urgent) }

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default: // the token is there already
	}
}
