package guard

import (
	"net/http"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// A Limit is what one caller may do. The zero value is no limit.
type Limit struct {
	Rate    float64 // requests per second; zero: any
	Burst   int     // requests at once on top of it; zero: twice the rate, at least 1
	Calls   int     // POSTs being answered, listens aside; zero: any
	Streams int     // GETs and listens being answered; zero: any
}

func (l Limit) burst() int {
	if l.Burst > 0 {
		return l.Burst
	}
	return max(int(2*l.Rate), 1)
}

// LimitOptions configure a Limiter. The zero value of each is the default.
type LimitOptions struct {
	Principal Limit // of one authenticated caller
	Address   Limit // of one address, an IPv6 one standing for its /64; of authenticated callers too
	// Failures bounds the requests of one address that could not be authenticated; zero: 5 per second, 100 at once.
	// A negative Rate is no limit.
	Failures Limit

	Addr func(*http.Request) netip.Addr // of the client; nil: the connection's
	// Unknown reports whether r names a session that is none of the caller's. Such a request is let through at any rate: nothing
	// may hide that the session is gone (report R05). nil: none does.
	Unknown func(r *http.Request) bool
	// Reached is told of each refusal with the name of the bound. It may be called concurrently. nil: nobody is.
	Reached func(r *http.Request, bound string)
}

// Names of the bounds, for LimitOptions.Reached.
const (
	BoundRate     = "rate"
	BoundCalls    = "calls_at_once"
	BoundStreams  = "streams_at_once"
	BoundFailures = "failed_authentications"
)

var defaultFailures = Limit{Rate: 5, Burst: 100}

// maxMeters bounds the callers that are remembered. When it is reached, those that do nothing at the moment and have their whole
// burst left are forgotten, which changes nothing for them; if there are none, who comes new shares one meter.
const maxMeters = 1 << 16

// A Limiter refuses what is too much of one caller's with 429 and Retry-After.
type Limiter struct {
	o LimitOptions

	mu     sync.Mutex
	meters map[string]*meter
	common map[string]*meter // by kind of caller, for those that have no room
}

// A meter counts what one caller does. The counts are guarded by the Limiter's mu.
type meter struct {
	rate           *rate.Limiter // nil: any rate
	calls, streams int
}

// NewLimiter returns a Limiter.
func NewLimiter(o LimitOptions) *Limiter {
	if o.Failures == (Limit{}) {
		o.Failures = defaultFailures
	}
	if o.Addr == nil {
		o.Addr = remoteAddr
	}
	if o.Unknown == nil {
		o.Unknown = func(*http.Request) bool { return false }
	}
	if o.Reached == nil {
		o.Reached = func(*http.Request, string) {}
	}
	return &Limiter{o: o, meters: map[string]*meter{}, common: map[string]*meter{}}
}

func remoteAddr(r *http.Request) netip.Addr {
	ap, _ := netip.ParseAddrPort(r.RemoteAddr)
	return ap.Addr().Unmap()
}

// Handler returns next behind the limits.
func (l *Limiter) Handler(next http.Handler) http.Handler {
	if l.o.Principal == (Limit{}) && l.o.Address == (Limit{}) {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		leave, x := l.enter(r)
		if x != nil && !l.o.Unknown(r) {
			x.write(w)
			return
		}
		defer leave()
		next.ServeHTTP(w, r)
	})
}

// A kind of caller is what its meters' names begin with.
const (
	kindPrincipal = "p "
	kindAddress   = "a "
	kindFailure   = "f "
)

// enter counts r in, to be counted out by leave, or says what is too much.
func (l *Limiter) enter(r *http.Request) (leave func(), x *refusal) {
	own, x := func() {}, (*refusal)(nil)
	if p := IdentityOf(r).Principal; p != "" {
		if own, x = l.count(r, l.o.Principal, kindPrincipal, p); x != nil {
			return own, x
		}
	}
	network, x := l.count(r, l.o.Address, kindAddress, l.network(r))
	if x != nil {
		own()
		return network, x
	}
	return func() { own(); network() }, nil
}

// network names where r comes from.
func (l *Limiter) network(r *http.Request) string {
	a := l.o.Addr(r)
	if a.Is6() {
		p, _ := a.WithZone("").Prefix(64)
		return p.String()
	}
	return a.String()
}

func (l *Limiter) count(r *http.Request, limit Limit, kind, name string) (leave func(), x *refusal) {
	none := func() {}
	if limit == (Limit{}) {
		return none, nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	m := l.meter(limit, kind, name)
	if wait := m.wait(); wait > 0 {
		return none, l.refuse(r, BoundRate, wait, "too many requests in a short time; slow down")
	}
	switch {
	case lasts(r):
		if limit.Streams > 0 && m.streams >= limit.Streams {
			return none, l.refuse(r, BoundStreams, time.Second, "too many streams of yours are open; close some")
		}
		m.streams++
		return func() { l.mu.Lock(); m.streams--; l.mu.Unlock() }, nil
	case r.Method == http.MethodPost:
		if limit.Calls > 0 && m.calls >= limit.Calls {
			return none, l.refuse(r, BoundCalls, time.Second, "too many requests of yours are being answered; wait for some to end")
		}
		m.calls++
		return func() { l.mu.Lock(); m.calls--; l.mu.Unlock() }, nil
	}
	return none, nil
}

func (l *Limiter) refuse(r *http.Request, bound string, wait time.Duration, message string) *refusal {
	l.o.Reached(r, bound)
	reason := ReasonTooMuch
	if bound == BoundRate {
		reason = ReasonRateLimited
	}
	return &refusal{status: http.StatusTooManyRequests, code: codeInternal, reason: reason, retryAfter: wait, message: message}
}

// Failed counts a request that could not be authenticated, and returns how long its address is to wait when there have been too
// many, else zero.
func (l *Limiter) Failed(r *http.Request) time.Duration {
	if l.o.Failures.Rate < 0 {
		return 0
	}
	l.mu.Lock()
	wait := l.meter(l.o.Failures, kindFailure, l.network(r)).wait()
	l.mu.Unlock()
	if wait > 0 {
		l.o.Reached(r, BoundFailures)
	}
	return wait
}

// meter returns the meter of a caller. The caller of meter holds mu.
func (l *Limiter) meter(limit Limit, kind, name string) *meter {
	if m := l.meters[kind+name]; m != nil {
		return m
	}
	if len(l.meters) >= maxMeters {
		l.forget()
	}
	table, key := l.meters, kind+name
	if len(l.meters) >= maxMeters {
		table, key = l.common, kind
	}
	m := table[key]
	if m == nil {
		m = &meter{}
		if limit.Rate > 0 {
			m.rate = rate.NewLimiter(rate.Limit(limit.Rate), limit.burst())
		}
		table[key] = m
	}
	return m
}

// forget lets go of meters of which nobody would miss anything. The caller holds mu.
func (l *Limiter) forget() {
	for key, m := range l.meters {
		if m.calls == 0 && m.streams == 0 && (m.rate == nil || m.rate.Tokens() >= float64(m.rate.Burst())) {
			delete(l.meters, key)
		}
	}
}

// wait counts one request, and returns how long its sender is to wait if that is one too many, else zero.
func (m *meter) wait() time.Duration {
	if m.rate == nil || m.rate.Allow() {
		return 0
	}
	missing := 1 - m.rate.Tokens()
	return max(time.Duration(missing/float64(m.rate.Limit())*float64(time.Second)), time.Millisecond)
}
