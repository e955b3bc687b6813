package translate

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"time"
)

// SuspendOptions configure how clients of 2026-07-28 are served by a server of the handshake era, and the sealing of
// requestState. The zero value of each field is the default of translation.md 17.
type SuspendOptions struct {
	// Secrets are the keys of requestState, at least 32 bytes each: the first seals, all open. None: a random one,
	// and what clients hold ends with the process. Replicas need the same ones.
	Secrets  [][]byte
	Upstream string // name of the server behind the bridge, so that the states of two routes do not mix
	Owner    string // name of this replica; empty: random

	MaxPerPrincipal int           // suspended calls of one principal; 0: 32
	MaxTotal        int           // suspended calls; 0: 256
	MaxRounds       int           // input_required results per call; 0: 16
	MaxQuestions    int           // that wait at a time, per call; 0: 64
	Lifetime        time.Duration // of a call that suspends, from its first request; 0: 30 min
	TTL             time.Duration // of a round; 0: 10 min
	EvictAfter      time.Duration // age from which a suspended call may be ended for another's sake; 0: 30 s
	GatherQuiet     time.Duration // without a further question before the client is asked; 0: 25 ms
	GatherMax       time.Duration // from the first question until the client is asked; 0: 100 ms

	MaxURLAttempts int           // of a call that the server refuses until URLs have been visited; 0: 30
	URLWait        time.Duration // for the server to report that the URLs have been visited; 0: 20 s

	// Journal names the tools that are run again from the start in each round instead of being held
	// (translation.md 7.3.11). Every side effect before a question is repeated; nothing else makes a tool fit.
	Journal []string

	MaxListens    int           // subscriptions/listen at a time; 0: 1024
	MaxListenURIs int           // honoured per listen; 0: 256
	Merge         time.Duration // copies of a list change within it are one; 0: 50 ms
	RetryWatch    time.Duration // before the server is tried again after it has gone, doubling to 30 s; 0: 1 s

	// Bound is told the name of a bound when it is reached, one of the Bound constants. It must not block.
	// Nil: nobody is.
	Bound func(name string)
}

// Names of bounds, for SuspendOptions.Bound.
const (
	BoundSuspended   = "suspended_calls"     // MaxPerPrincipal or MaxTotal
	BoundRounds      = "rounds"              // MaxRounds or Lifetime: a call was cancelled
	BoundQuestions   = "questions"           // MaxQuestions
	BoundURLAttempts = "url_attempts"        // MaxURLAttempts
	BoundState       = "request_state"       // 64 KiB of state between two rounds
	BoundLargeState  = "large_request_state" // 8 KiB of a requestState: it is used all the same (translation.md 7.2)
	BoundListens     = "listens"             // MaxListens
	BoundListenURIs  = "listen_uris"         // MaxListenURIs
)

func (s *suspender) reached(bound string) {
	if s.o.Bound != nil && bound != "" {
		s.o.Bound(bound)
	}
}

// withDefaults returns o with the defaults filled in. The error joins everything that is wrong with it.
func (o SuspendOptions) withDefaults() (SuspendOptions, error) {
	var errs []error
	if o.Owner == "" {
		var b [8]byte
		rand.Read(b[:]) // never fails
		o.Owner = hex.EncodeToString(b[:])
	}
	for _, f := range []struct {
		name  string
		value *int
		def   int
	}{
		{"MaxPerPrincipal", &o.MaxPerPrincipal, 32},
		{"MaxTotal", &o.MaxTotal, 256},
		{"MaxRounds", &o.MaxRounds, 16},
		{"MaxQuestions", &o.MaxQuestions, 64},
		{"MaxURLAttempts", &o.MaxURLAttempts, 30},
		{"MaxListens", &o.MaxListens, 1024},
		{"MaxListenURIs", &o.MaxListenURIs, 256},
	} {
		errs = append(errs, fill(f.name, f.value, f.def))
	}
	for _, f := range []struct {
		name  string
		value *time.Duration
		def   time.Duration
	}{
		{"Lifetime", &o.Lifetime, 30 * time.Minute},
		{"TTL", &o.TTL, 10 * time.Minute},
		{"EvictAfter", &o.EvictAfter, 30 * time.Second},
		{"GatherQuiet", &o.GatherQuiet, 25 * time.Millisecond},
		{"GatherMax", &o.GatherMax, 100 * time.Millisecond},
		{"URLWait", &o.URLWait, 20 * time.Second},
		{"Merge", &o.Merge, 50 * time.Millisecond},
		{"RetryWatch", &o.RetryWatch, time.Second},
	} {
		errs = append(errs, fill(f.name, f.value, f.def))
	}
	return o, errors.Join(errs...)
}

func fill[T int | time.Duration](name string, field *T, def T) error {
	if *field < 0 {
		return fmt.Errorf("%s is negative", name)
	}
	if *field == 0 {
		*field = def
	}
	return nil
}
