package bridge

import (
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/mcp-dualstack/bridge/internal/guard"
)

// A Limit is what one caller may do. The zero value of each field is no limit.
type Limit struct {
	Rate    float64 // requests per second
	Burst   int     // requests at once on top of it; zero: twice the rate, at least 1
	Calls   int     // calls being answered
	Streams int     // streams that no call belongs to, listens included
}

// checkLimits reports limits that cannot be.
func (s *settings) checkLimits() error {
	var errs []error
	for _, l := range []struct {
		name string
		Limit
		least float64
	}{{"principal limit", s.PrincipalLimit, 0}, {"address limit", s.AddressLimit, 0}, {"failure limit", s.FailureLimit, math.Inf(-1)}} {
		if l.Rate < l.least || math.IsNaN(l.Rate) || math.IsInf(l.Rate, 1) || l.Burst < 0 || l.Calls < 0 || l.Streams < 0 {
			errs = append(errs, fmt.Errorf("%s: must not be negative", l.name))
		}
		if l.Burst > 0 && l.Rate == 0 {
			errs = append(errs, fmt.Errorf("%s: a burst without a rate means nothing", l.name))
		}
	}
	if s.MaxBodyBytesInTotal == 0 {
		s.MaxBodyBytesInTotal = defaultAllBodies
	}
	if s.MaxBodyBytesInTotal > 0 && s.MaxBodyBytesInTotal < s.maxBody() {
		errs = append(errs, errors.New("max body bytes in total: less than one body may have"))
	}
	return errors.Join(errs...)
}

// newLimiter returns what refuses too much of one caller.
func (b *Bridge) newLimiter() *guard.Limiter {
	s := b.s
	return guard.NewLimiter(guard.LimitOptions{
		Principal: guard.Limit(s.PrincipalLimit), Address: guard.Limit(s.AddressLimit), Failures: guard.Limit(s.FailureLimit),
		Addr: s.addr, Unknown: b.unknown, Reached: b.reached,
	})
}

// strict returns next with Strict-Transport-Security on answers that go over TLS, as far as is known (RFC 6797, section 7.2).
func (s *settings) strict(next http.Handler) http.Handler {
	if s.HSTS == 0 {
		return next
	}
	value := "max-age=" + strconv.FormatInt(int64(s.HSTS/time.Second), 10)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		scheme, _, _, _ := s.forwarded(r)
		if r.TLS != nil || scheme == "https" {
			w.Header().Set("Strict-Transport-Security", value)
		}
		next.ServeHTTP(w, r)
	})
}
