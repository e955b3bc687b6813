//go:build !(linux || darwin || freebsd || netbsd || openbsd || dragonfly)

package retire

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

const (
	lockRetry = 10 * time.Millisecond
	lockStale = time.Minute // after which a lock is taken for one that a crash left; it is held for a few writes
)

// lock takes the lock of the folder by creating its file, since there is no flock here.
func lock(ctx context.Context, dir string) (unlock func(), err error) {
	name := filepath.Join(dir, lockFile)
	for {
		f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if err == nil {
			return func() { _ = os.Remove(name) }, f.Close() // one that stays is stale after a minute
		}
		if !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
		if st, err := os.Stat(name); err == nil && time.Since(st.ModTime()) > lockStale {
			_ = os.Remove(name) // whoever comes first creates it again
		}
		select {
		case <-time.After(lockRetry):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}
