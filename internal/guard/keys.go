package guard

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
)

// How often an issuer is asked for its keys.
const (
	keysMinAge = 10 * time.Second // a token with an unknown key makes nobody ask sooner
	keysMaxAge = 15 * time.Minute // a key that the issuer took back is trusted no longer than this
	keysEnd    = 24 * time.Hour   // nor longer than this while the issuer cannot be asked
	keysRetry  = time.Second      // after the first failure; twice as long after each further one
	keysMaxTry = time.Minute
)

// maxIssuerBody bounds what an issuer may answer, in bytes.
const maxIssuerBody = 1 << 20

// A pacer fetches one document at most every keysMinAge, and after failures less and less often. In between it answers
// with what it had last: whoever sends tokens with made-up key ids cannot turn the bridge against the issuer.
type pacer struct {
	next http.RoundTripper
	turn chan struct{} // capacity 1: whoever has put something in may use the fields below

	body     []byte
	header   http.Header
	err      error
	due      time.Time
	failures int
}

var errIssuerStatus = errors.New("the issuer did not answer with status 200")

// RoundTrip answers with the document or with why it could not be had.
func (p *pacer) RoundTrip(r *http.Request) (*http.Response, error) {
	select {
	case p.turn <- struct{}{}:
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
	defer func() { <-p.turn }()
	if now := time.Now(); !now.Before(p.due) {
		p.fetch(r)
		wait := keysMinAge
		if p.err != nil {
			wait = min(keysRetry<<min(p.failures, 6), keysMaxTry)
			p.failures++
		} else {
			p.failures = 0
		}
		p.due = now.Add(wait)
	}
	if p.err != nil {
		return nil, p.err
	}
	return &http.Response{
		Status: "200 OK", StatusCode: http.StatusOK, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: p.header, Body: io.NopCloser(bytes.NewReader(p.body)), ContentLength: int64(len(p.body)), Request: r,
	}, nil
}

func (p *pacer) fetch(r *http.Request) {
	resp, err := p.next.RoundTrip(r)
	if err != nil {
		p.err = err
		return
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		p.err = fmt.Errorf("%w but %d", errIssuerStatus, resp.StatusCode)
		return
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxIssuerBody))
	if err != nil {
		p.err = err
		return
	}
	p.body, p.header, p.err = body, resp.Header, nil
}

func (p *pacer) failed() bool {
	p.turn <- struct{}{}
	defer func() { <-p.turn }()
	return p.err != nil
}

// A keySet checks signatures with the keys of an issuer. It differs from the one it uses in forgetting keys: that one keeps what it
// has until it meets a key it does not know.
type keySet struct {
	url    string
	client *http.Client
	pacer  *pacer

	mu   sync.Mutex
	keys *oidc.RemoteKeySet
	born time.Time // of keys
}

func newKeySet(url string, timeout time.Duration, rt http.RoundTripper) *keySet {
	p := &pacer{next: rt, turn: make(chan struct{}, 1)}
	return &keySet{url: url, pacer: p, client: &http.Client{Transport: p, Timeout: timeout}}
}

// VerifySignature implements oidc.KeySet. When the keys cannot be had it marks the verdict in ctx as not known.
func (k *keySet) VerifySignature(ctx context.Context, jwt string) ([]byte, error) {
	keys, old := k.current()
	payload, err := keys.VerifySignature(ctx, jwt)
	switch {
	case old == nil:
	case err == nil:
		k.renewed(keys)
	case k.pacer.failed(): // better the keys of a while ago than nobody
		payload, err = old.VerifySignature(ctx, jwt)
	}
	if err != nil && k.pacer.failed() {
		markUnknown(ctx)
	}
	return payload, err
}

// current returns the keys to use and, when these are to take the place of others that are too old, the others.
func (k *keySet) current() (keys, old *oidc.RemoteKeySet) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.keys == nil {
		k.keys, k.born = k.fresh(), time.Now()
	}
	switch age := time.Since(k.born); {
	case age < keysMaxAge:
		return k.keys, nil
	case age < keysEnd:
		return k.fresh(), k.keys
	}
	k.keys, k.born = k.fresh(), time.Now()
	return k.keys, nil
}

func (k *keySet) renewed(keys *oidc.RemoteKeySet) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.keys, k.born = keys, time.Now()
}

func (k *keySet) fresh() *oidc.RemoteKeySet {
	return oidc.NewRemoteKeySet(oidc.ClientContext(context.Background(), k.client), k.url)
}

type unknownKey struct{}

// withUnknown returns a ctx in which markUnknown sets what isUnknown points to.
func withUnknown(ctx context.Context, isUnknown *bool) context.Context {
	return context.WithValue(ctx, unknownKey{}, isUnknown)
}

func markUnknown(ctx context.Context) {
	if p, ok := ctx.Value(unknownKey{}).(*bool); ok {
		*p = true
	}
}
