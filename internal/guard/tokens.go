package guard

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
)

// tokenPoll is how often the file of tokens is looked at. One that has changed is read the time after, unless it has changed again:
// somebody may be in the middle of writing it. So a token that was taken out is good for twice as long.
const tokenPoll = time.Second

// maxTokenFile bounds the file of tokens, in bytes.
const maxTokenFile = 4 << 20

// Tokens are the static bearer tokens of a file, of which it has hashes only. A line is
//
//	NAME sha256:HEX [scope:NAME]... [group:NAME]... [expires:2026-12-31T00:00:00Z]
//
// where HEX is the SHA-256 of the token; empty lines and those that begin with # are none. NAME is the principal; it may have several
// tokens, so that one can be replaced while both are good. The hash has no salt: tokens must be random, not chosen.
type Tokens struct {
	path string
	log  *slog.Logger

	mu    sync.Mutex
	stamp stamp
	by    map[[sha256.Size]byte]*token
}

// A token is one line of the file.
type token struct {
	id     Identity
	revoke context.CancelFunc // of what ends when the line is not in the file any more
}

// A stamp is how a file is known to have changed.
type stamp struct {
	mtime time.Time
	size  int64
}

// ReadTokens reads a file of tokens. The error joins what is wrong in it, each with its line; none of it quotes a hash.
func ReadTokens(path string, log *slog.Logger) (*Tokens, error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	t := &Tokens{path: path, log: log}
	if _, err := t.read(); err != nil {
		return nil, err
	}
	return t, nil
}

// Identify returns who has that token. ok is false for one that is unknown or has expired.
func (t *Tokens) Identify(text string) (id Identity, ok bool) {
	hash := sha256.Sum256([]byte(text)) // of all of it, so that the time taken tells nothing about the known ones
	t.mu.Lock()
	known := t.by[hash]
	t.mu.Unlock()
	if known == nil || !known.id.Expires.IsZero() && !time.Now().Before(known.id.Expires) {
		return Identity{}, false
	}
	return known.id, true
}

// Watch reads the file again whenever it changes, until ctx ends. A file that cannot be read leaves what was known.
func (t *Tokens) Watch(ctx context.Context) {
	tick := time.NewTicker(tokenPoll)
	defer tick.Stop()
	bad := false
	var seen stamp
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		now, err := t.stat()
		if err == nil && now != seen {
			seen = now
			continue
		}
		changed := false
		if err == nil {
			changed, err = t.read()
		}
		switch {
		case err != nil && !bad:
			t.log.Error("file of tokens cannot be used; the tokens known so far stay good", "file", t.path, "err", err)
		case err == nil && changed:
			t.log.Info("file of tokens read", "file", t.path, "tokens", t.count())
		}
		bad = err != nil
	}
}

func (t *Tokens) count() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.by)
}

func (t *Tokens) stat() (stamp, error) {
	info, err := os.Stat(t.path)
	if err != nil {
		return stamp{}, err
	}
	return stamp{info.ModTime(), info.Size()}, nil
}

// read reads the file if it has changed.
func (t *Tokens) read() (changed bool, err error) {
	now, err := t.stat()
	if err != nil {
		return false, err
	}
	t.mu.Lock()
	same := t.by != nil && now == t.stamp
	t.mu.Unlock()
	if same {
		return false, nil
	}
	if now.size > maxTokenFile {
		return false, fmt.Errorf("%s: larger than %d bytes", t.path, maxTokenFile)
	}
	text, err := os.ReadFile(t.path)
	if err != nil {
		return false, err
	}
	by, err := parseTokens(bytes.NewReader(text))
	if err != nil {
		return false, fmt.Errorf("%s: %w", t.path, err)
	}
	t.take(now, by)
	return true, nil
}

// take puts by in the place of what was known. A line that is there as it was keeps its identity, the others are revoked.
func (t *Tokens) take(now stamp, by map[[sha256.Size]byte]*token) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for hash, old := range t.by {
		if fresh := by[hash]; fresh != nil && fresh.equal(old) {
			by[hash] = old
			continue
		}
		old.revoke()
	}
	t.stamp, t.by = now, by
}

func (k *token) equal(o *token) bool {
	return k.id.Principal == o.id.Principal && k.id.Expires.Equal(o.id.Expires) && slices.Equal(k.id.Grants, o.id.Grants)
}

func parseTokens(r io.Reader) (map[[sha256.Size]byte]*token, error) {
	by := map[[sha256.Size]byte]*token{}
	var errs []error
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		hash, k, err := parseToken(line)
		if err == nil && by[hash] != nil {
			err = errors.New("this token stands in an earlier line too")
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("line %d: %w", n, err))
			continue
		}
		by[hash] = k
	}
	return by, errors.Join(append(errs, lines.Err())...)
}

// parseToken reads one line.
func parseToken(line string) (hash [sha256.Size]byte, k *token, err error) {
	words := strings.Fields(line)
	if len(words) < 2 || strings.Contains(words[0], ":") {
		return hash, nil, errors.New("write NAME sha256:HEX, and after it scope:NAME, group:NAME or expires:TIME")
	}
	text, ok := strings.CutPrefix(words[1], "sha256:")
	sum, hexErr := hex.DecodeString(text)
	if !ok || hexErr != nil || len(sum) != sha256.Size {
		return hash, nil, errors.New("the second word must be sha256: and 64 hexadecimal digits, as `printf %s TOKEN | sha256sum` prints them")
	}
	k = &token{id: Identity{Principal: words[0]}}
	k.id.revoked, k.revoke = context.WithCancel(context.Background())
	for _, word := range words[2:] {
		kind, value, _ := strings.Cut(word, ":")
		switch {
		case (kind == "scope" || kind == "group") && value != "":
			k.id.Grants = append(k.id.Grants, word)
		case kind == "expires":
			if k.id.Expires, err = time.Parse(time.RFC3339, value); err != nil {
				return hash, nil, fmt.Errorf("%s is not a time such as expires:2026-12-31T00:00:00Z", quote(word))
			}
		default:
			return hash, nil, fmt.Errorf("%s is none of scope:NAME, group:NAME, expires:TIME", quote(word))
		}
	}
	return [sha256.Size]byte(sum), k, nil
}
