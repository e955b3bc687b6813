package translate

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"time"
)

// A tokenKind says what a sealed requestState stands for (translation.md 7.2).
type tokenKind byte

const (
	kindSuspend tokenKind = iota + 1 // a call that waits in memory
	kindWrap                         // the state of a modern server
	kindURL                          // a call that the server refused until URLs have been visited
	kindJournal                      // a call that is run again with the answers so far
)

// A principalHash is how a token names the caller: the first half of SHA-256.
type principalHash [16]byte

func hashPrincipal(principal string) principalHash {
	sum := sha256.Sum256([]byte(principal))
	return principalHash(sum[:16])
}

// A callID names a suspended call.
type callID [16]byte

// A token is the plaintext of a sealed requestState. What a client brings back is only worth something together
// with the request it came with: see token.check.
type token struct {
	kind      tokenKind
	exp       time.Time // in whole seconds
	principal principalHash
	method    string // one that may suspend
	digest    [sha256.Size]byte
	upstream  string
	owner     string // replica that holds the call
	call      callID
	round     uint64
	inner     []byte // by kind: nothing, a raw JSON string, a urlState, a journal
}

const (
	tokenPrefix = "b1."
	tokenAAD    = "bridge-rs/1"
	tokenInfo   = "bridge-rs/1 requestState" // #nosec G101 -- a label of key derivation, public
	keyIDInfo   = "bridge-rs/1 key id"

	minSecret  = 32 // bytes
	nonceBytes = 12
	tagBytes   = 16

	maxInner   = 64 << 10 // bytes of inner state
	largeToken = 8 << 10  // bytes of a token from which on it is reported
)

var tokenEncoding = base64.RawURLEncoding.Strict()

// A keyring seals tokens with its first key and opens those of all. Methods may be called concurrently.
type keyring struct{ keys []key }

type key struct {
	id   byte // derived from the secret, so that replicas agree whatever the order of theirs
	aead cipher.AEAD
}

// newKeyring expands each secret with HKDF-SHA256. Without secrets the only key is random, and tokens end with
// the process. The error names every secret shorter than 32 bytes.
func newKeyring(secrets [][]byte) (*keyring, error) {
	if len(secrets) == 0 {
		random := make([]byte, minSecret)
		rand.Read(random) // never fails
		secrets = [][]byte{random}
	}
	r := &keyring{}
	var errs []error
	for i, secret := range secrets {
		k, err := newKey(secret)
		if err != nil {
			errs = append(errs, fmt.Errorf("secret %d: %w", i+1, err))
			continue
		}
		r.keys = append(r.keys, k)
	}
	return r, errors.Join(errs...)
}

func newKey(secret []byte) (key, error) {
	if len(secret) < minSecret {
		return key{}, fmt.Errorf("%d bytes, at least %d are needed", len(secret), minSecret)
	}
	raw, err := hkdf.Key(sha256.New, secret, nil, tokenInfo, 32)
	if err != nil {
		return key{}, err
	}
	id, err := hkdf.Key(sha256.New, secret, nil, keyIDInfo, 1)
	if err != nil {
		return key{}, err
	}
	block, err := aes.NewCipher(raw)
	if err != nil {
		return key{}, err
	}
	aead, err := cipher.NewGCM(block)
	return key{id[0], aead}, err
}

// seal returns the text of a requestState: b1. and base64url of key id, nonce and AES-256-GCM.
func (r *keyring) seal(t *token) string {
	k := r.keys[0]
	var header [1 + nonceBytes]byte
	header[0] = k.id
	rand.Read(header[1:]) // never fails
	plain := t.append(make([]byte, 0, t.room()))
	sealed := make([]byte, len(header), len(header)+len(plain)+tagBytes)
	copy(sealed, header[:])
	sealed = k.aead.Seal(sealed, header[1:], plain, additional(k.id))
	text := make([]byte, len(tokenPrefix), len(tokenPrefix)+tokenEncoding.EncodedLen(len(sealed)))
	copy(text, tokenPrefix)
	return string(tokenEncoding.AppendEncode(text, sealed))
}

// errForged says that a text is not a token that any of the keys sealed.
var errForged = errors.New("not sealed by any of the keys")

// open returns the token of a requestState. It looks at nothing but the seal.
func (r *keyring) open(text string) (*token, error) {
	encoded, ok := strings.CutPrefix(text, tokenPrefix)
	if !ok || strings.ContainsAny(encoded, "\r\n") { // which encoding/base64 passes over
		return nil, errForged
	}
	sealed, err := tokenEncoding.DecodeString(encoded)
	if err != nil || len(sealed) < 1+nonceBytes+tagBytes {
		return nil, errForged
	}
	id, nonce, body := sealed[0], sealed[1:1+nonceBytes], sealed[1+nonceBytes:]
	for _, k := range r.keys {
		if k.id != id {
			continue
		}
		plain, err := k.aead.Open(nil, nonce, body, additional(id))
		if err != nil {
			continue // two secrets may share an id
		}
		t, ok := readToken(plain)
		if !ok {
			return nil, errForged
		}
		return t, nil
	}
	return nil, errForged
}

func additional(id byte) []byte { return append([]byte(tokenAAD), id) }
