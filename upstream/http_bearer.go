package upstream

import (
	"bytes"
	"errors"
	"os"
	"sync"
	"time"
)

// A bearer is a token in a file that somebody else keeps fresh.
type bearer struct {
	path string

	mu    sync.Mutex
	mtime time.Time
	size  int64
	read  string
}

var errNoToken = errors.New("bearer file holds no token")

// token returns the token, read again if the file's time or size has changed. While the file cannot be
// read, as in the middle of its replacement, it is the last one.
func (b *bearer) token() (string, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	info, err := os.Stat(b.path)
	if err == nil && b.read != "" && info.ModTime().Equal(b.mtime) && info.Size() == b.size {
		return b.read, nil
	}
	var text []byte
	if err == nil {
		text, err = os.ReadFile(b.path)
	}
	if text = bytes.TrimSpace(text); err == nil && len(text) == 0 {
		err = errNoToken
	}
	if err != nil {
		if b.read != "" {
			return b.read, nil
		}
		return "", err
	}
	b.read, b.mtime, b.size = string(text), info.ModTime(), info.Size()
	return b.read, nil
}
