package guard

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
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

	mu    sync.Mutex
	stamp stamp
	hash  [sha256.Size]byte
}

// ReadSecret reads the token of a file.
func ReadSecret(path string) (*Secret, error) {
	s := &Secret{path: path}
	return s, s.read()
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
		_ = s.read() // the old one stays good: who broke the file can mend it
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
