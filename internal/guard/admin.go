package guard

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"sync"
)

// minSecret is the least length of an admin token, in bytes.
const minSecret = 16

// A Secret is the one token of a file, which is read again when it changes.
type Secret struct {
	path string
	log  *slog.Logger

	mu    sync.Mutex
	stamp stamp
	hash  [sha256.Size]byte
	bad   bool // the file could not be read the last time
}

// ReadSecret reads the token of a file.
func ReadSecret(path string, log *slog.Logger) (*Secret, error) {
	s := &Secret{path: path, log: log}
	return s, s.read()
}

// look reads the file again if it has changed. What broke it is said once: the old token stays good, and whoever took the file away to
// shut somebody out must know.
func (s *Secret) look() {
	err := s.read()
	s.mu.Lock()
	news := (err != nil) != s.bad
	s.bad = err != nil
	s.mu.Unlock()
	switch {
	case news && err != nil:
		s.log.Error("file of the admin token cannot be used; the token known so far stays good: write another into the file to revoke it", "file", s.path, "err", err)
	case news:
		s.log.Info("file of the admin token read", "file", s.path)
	}
}

func (s *Secret) read() error {
	info, err := os.Stat(s.path)
	if err != nil {
		return err
	}
	now := stamp{info.ModTime(), info.Size()}
	s.mu.Lock()
	defer s.mu.Unlock()
	if now == s.stamp {
		return nil
	}
	if now.size > maxTokenBytes {
		return fmt.Errorf("%s: a token of more than %d bytes", s.path, maxTokenBytes)
	}
	text, err := os.ReadFile(s.path)
	if err != nil {
		return err
	}
	token := strings.TrimSpace(string(text))
	switch {
	case len(token) < minSecret:
		return fmt.Errorf("%s: a token of at least %d characters is needed; `openssl rand -hex 32` makes one", s.path, minSecret)
	case strings.ContainsFunc(token, notInToken):
		return errors.New(s.path + ": a token has letters, digits and -._~+/= only")
	}
	s.hash, s.stamp = sha256.Sum256([]byte(token)), now
	return nil
}

// Handler returns next for those who send the token, as a bearer token or as the password of any user (RFC 7617). Others are refused with 401. A file that cannot be read any more
// leaves the token as it was.
func (s *Secret) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.look()
		text, ok := bearer(r.Header["Authorization"])
		if !ok {
			_, text, ok = r.BasicAuth() // what browsers can send
		}
		if !ok || !s.is(text) {
			(&refusal{status: http.StatusUnauthorized, reason: ReasonAdmin, challenge: `Basic realm="admin", charset="UTF-8", Bearer realm="admin"`,
				message: "send Authorization: Bearer TOKEN with the token of the operators (--admin-token-file), or that as the password of any user"}).write(w)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func (s *Secret) is(text string) bool {
	hash := sha256.Sum256([]byte(text))
	s.mu.Lock()
	defer s.mu.Unlock()
	return subtle.ConstantTimeCompare(hash[:], s.hash[:]) == 1
}
