package retire

import "fmt"

// Defaults of a Guard.
const (
	DefaultMaxRefused = 25
	DefaultMinCalls   = 50
	DefaultErrorRise  = 0.02
)

// A Guard says when a brownout window does more harm than it was meant to. The zero value has the defaults.
type Guard struct {
	MaxRefused int     // different identities that a window may refuse; zero: 25, negative: any number
	ErrorRise  float64 // by how much the share of failed Streamable calls may rise above twice its baseline, 0 to 1; zero: 0.02, negative: any
	MinCalls   int64   // Streamable calls in the window, and before it, without which their errors say nothing; zero: 50
}

// Counters are what a window has done so far, and the time before it.
type Counters struct {
	Refused       int   // different identities that were refused in the window
	ExemptRefused int64 // refusals of clients that turned out to be exempt
	Calls, Errors int64 // Streamable HTTP, in the window
	BaseCalls     int64 // the same, in a time like it before the window
	BaseErrors    int64
}

// Check returns why the window must end, empty if it may go on. It is pure; who calls it passes the answer to Keeper.Abort and tells an
// operator (retirement.md 6, brownout guard).
func (g Guard) Check(c Counters) string {
	limit, rise, enough := g.MaxRefused, g.ErrorRise, g.MinCalls
	if limit == 0 {
		limit = DefaultMaxRefused
	}
	if rise == 0 {
		rise = DefaultErrorRise
	}
	if enough == 0 {
		enough = DefaultMinCalls
	}
	switch {
	case c.ExemptRefused > 0:
		return fmt.Sprintf("%d requests of exempt clients were refused", c.ExemptRefused)
	case limit > 0 && c.Refused > limit:
		return fmt.Sprintf("%d clients were refused, more than the %d expected", c.Refused, limit)
	case rise > 0 && c.Calls >= enough && c.BaseCalls >= enough:
		share, base := ratio(c.Errors, c.Calls), ratio(c.BaseErrors, c.BaseCalls)
		if share > 2*base+rise {
			return fmt.Sprintf("%.1f %% of the Streamable HTTP calls fail, %.1f %% did before", 100*share, 100*base)
		}
	}
	return ""
}

func ratio(part, whole int64) float64 {
	if whole <= 0 {
		return 0
	}
	return float64(part) / float64(whole)
}
