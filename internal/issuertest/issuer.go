// Package issuertest is an issuer of tokens for tests.
package issuertest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/mcp-dualstack/bridge/internal/memhttp"
)

// An Issuer is a small OpenID Connect provider in memory: a discovery document, keys, and tokens signed with them.
type Issuer struct {
	*memhttp.Server

	Key      *ecdsa.PrivateKey // that Token signs with
	KeyID    string            // that Token names
	Document string            // in the place of the discovery document, with ISSUER for the URL; empty: the right one

	mu    sync.Mutex
	keys  []jose.JSONWebKey
	asked map[string]int // requests by path
	down  bool
}

// New starts an issuer that ends with the test. It must be called in the bubble that uses it.
func New(t testing.TB) *Issuer {
	t.Helper()
	i := &Issuer{asked: map[string]int{}}
	i.Rotate(t, "k1")
	i.Server = memhttp.New(t, i)
	return i
}

// Rotate signs with a new key from now on, and has no other.
func (i *Issuer) Rotate(t testing.TB, kid string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.Key, i.KeyID = key, kid
	i.keys = []jose.JSONWebKey{{Key: key.Public(), KeyID: kid, Algorithm: "ES256", Use: "sig"}}
}

// ServeHTTP answers with the documents.
func (i *Issuer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.asked[r.URL.Path]++
	if i.down {
		http.Error(w, "down", http.StatusBadGateway)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	switch r.URL.Path {
	case "/.well-known/openid-configuration":
		if i.Document != "" {
			_, _ = w.Write([]byte(strings.ReplaceAll(i.Document, "ISSUER", i.URL)))
			return
		}
		_ = json.NewEncoder(w).Encode(map[string]any{
			"issuer": i.URL, "jwks_uri": i.URL + "/keys", "id_token_signing_alg_values_supported": []string{"ES256"},
		})
	case "/keys":
		_ = json.NewEncoder(w).Encode(jose.JSONWebKeySet{Keys: i.keys})
	default:
		http.NotFound(w, r)
	}
}

// Count returns how often a path was asked for.
func (i *Issuer) Count(path string) int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.asked[path]
}

// SetDown makes it answer with 502 only, or no more.
func (i *Issuer) SetDown(down bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.down = down
}

// Token returns a token that is good for the audience test for an hour, with claims in the place of these or beside them; a nil
// one is left out.
func (i *Issuer) Token(t testing.TB, claims map[string]any) string {
	t.Helper()
	all := map[string]any{"iss": i.URL, "aud": "test", "sub": "alice", "iat": time.Now().Unix(), "exp": time.Now().Add(time.Hour).Unix()}
	for name, value := range claims {
		all[name] = value
		if value == nil {
			delete(all, name)
		}
	}
	return Sign(t, jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: i.Key, KeyID: i.KeyID}}, all)
}

// Sign returns claims signed with any key.
func Sign(t testing.TB, key jose.SigningKey, claims map[string]any) string {
	t.Helper()
	signer, err := jose.NewSigner(key, (&jose.SignerOptions{}).WithType("JWT"))
	if err != nil {
		t.Fatal(err)
	}
	text, err := jwt.Signed(signer).Claims(claims).Serialize()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// PublicKeys are the keys that it names, as JSON.
func (i *Issuer) PublicKeys(t testing.TB) []byte {
	t.Helper()
	i.mu.Lock()
	defer i.mu.Unlock()
	text, err := json.Marshal(i.keys)
	if err != nil {
		t.Fatal(err)
	}
	return text
}
