package guard

import (
	"crypto/sha256"
	"sync"
	"time"
)

// How long a token that has been found good is not checked again, and of how many that is remembered. Checking a signature takes
// longer than all else the bridge does for a request. A key that is taken back counts for as much longer.
const (
	verifiedFor = 30 * time.Second
	maxVerified = 8192
)

// verified are tokens that have been found good a moment ago. The zero value is ready.
type verified struct {
	mu sync.Mutex
	by map[[sha256.Size]byte]verdict
}

type verdict struct {
	id    Identity
	until time.Time
}

// get returns who has a token that was found good a moment ago and has not expired since.
func (v *verified) get(text string) (Identity, bool) {
	key := sha256.Sum256([]byte(text))
	v.mu.Lock()
	defer v.mu.Unlock()
	found, ok := v.by[key]
	if ok && !time.Now().Before(found.until) {
		delete(v.by, key)
		ok = false
	}
	return found.id, ok
}

// put remembers a good token. Where there is no room another one goes, any: it is checked again.
func (v *verified) put(text string, id Identity) {
	until := time.Now().Add(verifiedFor)
	if id.Expires.Before(until) {
		until = id.Expires
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.by == nil {
		v.by = make(map[[sha256.Size]byte]verdict)
	}
	if len(v.by) >= maxVerified {
		for key := range v.by {
			delete(v.by, key)
			break
		}
	}
	v.by[sha256.Sum256([]byte(text))] = verdict{id, until}
}
