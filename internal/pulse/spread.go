package pulse

import (
	"context"
	"time"
)

// How Spread spreads.
const (
	few       = 16                    // so many may end at once
	each      = 2 * time.Millisecond  // for each, as long as that is not too long altogether
	atMost    = 10 * time.Second      // altogether
	spreading = 10 * time.Millisecond // between two batches
)

// Spread calls ends one after another, spread over a time that depends on how many there are: none for a few, 2 ms for each
// of more, at most 10 s and half of what is left until the deadline of ctx. Who is called back when a stream ends comes
// back at once, and all at the same time are a load of their own. When ctx ends the rest are called at once.
func Spread(ctx context.Context, ends []func()) {
	n := len(ends)
	if n <= few {
		for _, end := range ends {
			end()
		}
		return
	}
	whole := min(time.Duration(n)*each, atMost)
	if deadline, ok := ctx.Deadline(); ok {
		whole = min(whole, time.Until(deadline)/2)
	}
	begun := time.Now()
	t := time.NewTicker(spreading)
	defer t.Stop()
	for done := 0; ; {
		due := n
		if passed := time.Since(begun); passed < whole && ctx.Err() == nil {
			due = int(int64(n) * int64(passed) / int64(whole))
		}
		for ; done < due; done++ {
			ends[done]()
		}
		if done == n {
			return
		}
		select {
		case <-t.C:
		case <-ctx.Done():
		}
	}
}
