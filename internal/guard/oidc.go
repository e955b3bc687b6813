package guard

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
)

// OIDCOptions say whose signed tokens are good (RFC 9068, OpenID Connect Core).
type OIDCOptions struct {
	Issuer   string   // URL, exactly as the iss claim has it
	Audience []string // one of which the aud claim must have (RFC 8707): the URLs of this server, unless the issuer says otherwise

	// KeysURL is where the issuer's keys are (a JWK set). Empty: as the issuer's discovery document says, which is read when the first
	// token comes, so that an issuer that is down does not keep the server from starting.
	KeysURL string

	GroupsClaim string        // whose strings are the caller's groups; empty: groups
	ClockSkew   time.Duration // by how much the issuer's clock may be ahead; zero: 1 min

	RoundTripper http.RoundTripper // to the issuer; nil: Go's default, with proxies as the environment says
	Timeout      time.Duration     // of one request to the issuer; zero: 10 s
	Logger       *slog.Logger      // nil: silent
}

const (
	defaultGroupsClaim   = "groups"
	defaultClockSkew     = time.Minute
	defaultIssuerTimeout = 10 * time.Second
)

// algorithms are those of signatures with a key pair. A secret shared with the issuer is none, nor is no signature.
var algorithms = []string{
	oidc.RS256, oidc.RS384, oidc.RS512, oidc.ES256, oidc.ES384, oidc.ES512, oidc.PS256, oidc.PS384, oidc.PS512, oidc.EdDSA,
}

// An OIDC checks tokens of one issuer. Its methods may be called concurrently.
type OIDC struct {
	o      OIDCOptions
	client *http.Client
	good   verified

	mu       sync.Mutex
	verifier *oidc.IDTokenVerifier // nil until the issuer has been found
	finding  chan struct{}         // closed when the attempt that is going on has ended; nil: none is
	due      time.Time             // of the next attempt
	failures int
}

// Errors of OIDC.Identify.
var (
	errToken  = errors.New("the token is not good")
	errIssuer = errors.New("the issuer cannot be asked")
)

// NewOIDC returns an OIDC, or everything that is wrong with its options. It asks nobody anything.
func NewOIDC(o OIDCOptions) (*OIDC, error) {
	var errs []error
	if err := issuerURL(o.Issuer); err != nil {
		errs = append(errs, fmt.Errorf("issuer: %q: %w", o.Issuer, err))
	}
	if o.KeysURL != "" {
		if err := issuerURL(o.KeysURL); err != nil {
			errs = append(errs, fmt.Errorf("keys URL: %q: %w", o.KeysURL, err))
		}
	}
	if len(o.Audience) == 0 || slices.Contains(o.Audience, "") {
		errs = append(errs, errors.New("audience: name what the aud claim of tokens for this server has; without it tokens for any other server would do"))
	}
	if o.ClockSkew < 0 || o.ClockSkew > time.Hour {
		errs = append(errs, errors.New("clock skew: must be between nothing and an hour"))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	orDefault(&o.GroupsClaim, defaultGroupsClaim)
	orDefault(&o.ClockSkew, defaultClockSkew)
	orDefault(&o.Timeout, defaultIssuerTimeout)
	if o.RoundTripper == nil {
		o.RoundTripper = http.DefaultTransport
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	v := &OIDC{o: o, client: &http.Client{Transport: limited{o.RoundTripper}, Timeout: o.Timeout}}
	if o.KeysURL != "" {
		v.verifier = v.withKeys(o.KeysURL, algorithms)
	}
	return v, nil
}

func orDefault[T comparable](v *T, def T) {
	var zero T
	if *v == zero {
		*v = def
	}
}

// issuerURL admits https, and http to this machine: who can change the keys on the way can be anybody.
func issuerURL(s string) error {
	u, err := url.Parse(s)
	if err != nil {
		return errors.New("this is not a URL")
	}
	a, ok := parseAuthority(u.Host)
	switch {
	case !ok || u.User != nil || u.Fragment != "":
		return errors.New("write https://, a host, and at most a path after it")
	case u.Scheme == "https", u.Scheme == "http" && a.loopback():
		return nil
	}
	return errors.New("it must be https; http is for this machine only")
}

func (v *OIDC) withKeys(keysURL string, algs []string) *oidc.IDTokenVerifier {
	return oidc.NewVerifier(v.o.Issuer, newKeySet(keysURL, v.o.Timeout, v.o.RoundTripper), &oidc.Config{
		SkipClientIDCheck:    true, // Identify looks at the audience: it may be one of several
		SupportedSigningAlgs: algs,
		Now:                  func() time.Time { return time.Now().Add(-v.o.ClockSkew) },
	})
}

// Identify returns who has that token. The error is errToken or errIssuer with the reason, which is for the log.
func (v *OIDC) Identify(ctx context.Context, text string) (Identity, error) {
	if id, ok := v.good.get(text); ok {
		return id, nil
	}
	id, err := v.check(ctx, text)
	if err == nil {
		v.good.put(text, id)
	}
	return id, err
}

func (v *OIDC) check(ctx context.Context, text string) (Identity, error) {
	verifier, err := v.find(ctx)
	if err != nil {
		return Identity{}, fmt.Errorf("%w: %w", errIssuer, err)
	}
	unknown := false
	t, err := verifier.Verify(withUnknown(ctx, &unknown), text)
	switch {
	case err != nil && (unknown || ctx.Err() != nil):
		return Identity{}, fmt.Errorf("%w: %w", errIssuer, err)
	case err != nil:
		return Identity{}, fmt.Errorf("%w: %w", errToken, err)
	case !slices.ContainsFunc(t.Audience, func(a string) bool { return slices.Contains(v.o.Audience, a) }):
		return Identity{}, fmt.Errorf("%w: it is for %q", errToken, t.Audience)
	case t.Subject == "":
		return Identity{}, fmt.Errorf("%w: it has no subject", errToken)
	}
	grants, err := v.grants(t)
	if err != nil {
		return Identity{}, fmt.Errorf("%w: %w", errToken, err)
	}
	return Identity{Principal: t.Issuer + " " + t.Subject, Grants: grants, Expires: t.Expiry.Add(v.o.ClockSkew)}, nil
}

// grants reads the claims scope (RFC 8693, section 4.2: words in a string) or scp (a list or words, as some issuers have it), and the groups.
func (v *OIDC) grants(t *oidc.IDToken) ([]string, error) {
	var claims map[string]json.RawMessage
	if err := t.Claims(&claims); err != nil {
		return nil, err
	}
	var grants []string
	for _, name := range []string{"scope", "scp"} {
		for _, scope := range words(claims[name]) {
			grants = append(grants, grantScope+scope)
		}
	}
	for _, group := range list(claims[v.o.GroupsClaim]) {
		grants = append(grants, grantGroup+group)
	}
	return grants, nil
}

// words returns the words of a string or of a list of strings.
func words(raw json.RawMessage) []string {
	var out []string
	for _, s := range list(raw) {
		out = append(out, strings.Fields(s)...)
	}
	return out
}

// list returns a list of strings; one string is a list of one, anything else of none.
func list(raw json.RawMessage) []string {
	var many []string
	if json.Unmarshal(raw, &many) == nil {
		return many
	}
	var one string
	if json.Unmarshal(raw, &one) == nil && one != "" {
		return []string{one}
	}
	return nil
}

// find returns the verifier of the issuer, after reading its discovery document if that has not been done. After a failure
// nobody asks again for a while.
func (v *OIDC) find(ctx context.Context) (*oidc.IDTokenVerifier, error) {
	for {
		v.mu.Lock()
		switch {
		case v.verifier != nil:
			defer v.mu.Unlock()
			return v.verifier, nil
		case v.finding == nil && time.Now().Before(v.due):
			v.mu.Unlock()
			return nil, errors.New("its discovery document could not be read a moment ago")
		case v.finding == nil:
			v.finding = make(chan struct{})
			go v.discover(v.finding) // #nosec G118 -- ends within Timeout, whoever waits for it
		}
		finding := v.finding
		v.mu.Unlock()
		select {
		case <-finding:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (v *OIDC) discover(done chan struct{}) {
	ctx, cancel := context.WithTimeout(oidc.ClientContext(context.Background(), v.client), v.o.Timeout)
	defer cancel()
	p, err := oidc.NewProvider(ctx, v.o.Issuer)
	var found struct {
		KeysURL    string   `json:"jwks_uri"`
		Algorithms []string `json:"id_token_signing_alg_values_supported"`
	}
	if err == nil {
		err = p.Claims(&found)
	}
	if err == nil {
		err = issuerURL(found.KeysURL)
	}
	if err != nil {
		v.o.Logger.Error("discovery document of the token issuer cannot be used", "issuer", v.o.Issuer, "err", err)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if err == nil {
		v.verifier = v.withKeys(found.KeysURL, usable(found.Algorithms))
	} else {
		v.due = time.Now().Add(min(keysRetry<<min(v.failures, 6), keysMaxTry))
		v.failures++
	}
	v.finding = nil
	close(done)
}

// usable returns what of an issuer's algorithms is one of ours, all of ours if it names none.
func usable(named []string) []string {
	out := slices.DeleteFunc(slices.Clone(algorithms), func(a string) bool { return !slices.Contains(named, a) })
	if len(out) == 0 {
		return algorithms
	}
	return out
}

// limited bounds the bodies of responses.
type limited struct{ next http.RoundTripper }

func (l limited) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := l.next.RoundTrip(r)
	if err == nil {
		resp.Body = http.MaxBytesReader(nil, resp.Body, maxIssuerBody)
	}
	return resp, err
}
