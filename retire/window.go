package retire

import "time"

// Active returns the brownout window that is open at now, or nil. The stage must be brownout.
func (s *State) Active(now time.Time) *Window {
	if s.Stage != Brownout {
		return nil
	}
	for i := range s.Brownouts {
		if w := &s.Brownouts[i]; w.Aborted == "" && !now.Before(w.From) && now.Before(w.Until) {
			return w
		}
	}
	return nil
}

// boundary returns when the next window opens or closes after now, the zero time if none will.
func (s *State) boundary(now time.Time) time.Time {
	var next time.Time
	for _, w := range s.Brownouts {
		for _, t := range []time.Time{w.From, w.Until} {
			if w.Aborted == "" && t.After(now) && (next.IsZero() || t.Before(next)) {
				next = t
			}
		}
	}
	return next
}

// meets reports whether the window refuses the client with these identities, the surest first. While a window lasts one client is
// in or out of it, and a higher percentage leaves in who was in at a lower one.
func (w *Window) meets(ids []string) bool {
	switch {
	case w.Percent <= 0 || w.Percent >= 100:
		return true
	case len(ids) == 0:
		return false // whoever it is may be out later
	}
	id := ids[0]
	if w.Mode == ModeHard {
		// It refuses GET, where less is known of a client than later: what is known at both is the least sure.
		id = ids[len(ids)-1]
	}
	return spread(w.ID, id)%100 < uint64(w.Percent)
}

// Spread returns a delay of at least zero and less than over, the same for the same key: for what must not happen to all streams
// at once, such as their end in a drain.
func Spread(key string, over time.Duration) time.Duration {
	if over <= 0 {
		return 0
	}
	return time.Duration(spread("drain", key) % uint64(over)) // #nosec G115 -- less than over, which is positive
}

// RetryAfter returns how long a client that was refused until d.RetryAt should wait, in whole seconds, rounded up and at least one. It is
// up to a tenth of the time and at most a minute later than RetryAt, by key, so that clients do not come back all at once.
func (d Decision) RetryAfter(now time.Time, key string) time.Duration {
	left := max(d.RetryAt.Sub(now), 0)
	left += Spread(key, min(left/10, time.Minute))
	return max((left + time.Second - 1).Truncate(time.Second), time.Second)
}

// spread hashes two strings so that every bit of the sum depends on every bit of them: FNV-1a 64, then the finaliser of
// MurmurHash3. Replicas must agree on it, and it guards nothing, so it is neither seeded nor cryptographic.
func spread(a, b string) uint64 {
	const prime = 1099511628211
	h := uint64(14695981039346656037)
	for i := range len(a) {
		h = (h ^ uint64(a[i])) * prime
	}
	h = (h ^ 0xff) * prime // no byte of UTF-8: "ab","c" is not "a","bc"
	for i := range len(b) {
		h = (h ^ uint64(b[i])) * prime
	}
	h = (h ^ h>>33) * 0xff51afd7ed558ccd
	h = (h ^ h>>33) * 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}
