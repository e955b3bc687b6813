package guard

import (
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode"
)

// AuthOptions say how callers are known. The zero value knows nobody and lets everybody in.
type AuthOptions struct {
	Tokens       *Tokens // static bearer tokens; nil: none
	OIDC         *OIDC   // tokens of an issuer; nil: none
	Certificates bool    // client certificates that the listener has verified, where no token is sent

	// PassThrough lets every request in: the server behind checks the credentials. The caller is known by the hash of what the
	// Authorization header says, so that nobody has what somebody else's credentials opened.
	PassThrough bool
	// Challenged returns a challenge that the server behind answered to that principal a moment ago, which then is the answer
	// to whatever else it sends; pass-through only. nil: none.
	Challenged func(principal string) (challenge string, ok bool)

	Scopes   []string                     // all of which a token must have
	Metadata func(r *http.Request) string // URL of the metadata document of the resource r is for (RFC 9728); nil or empty: none

	// Failed is told of each request that is refused, with its reason. It returns how long the caller is to wait if it has been
	// refused too often, zero if not. It may be called concurrently. nil: nobody counts.
	Failed func(r *http.Request, reason string) time.Duration
	Logger *slog.Logger // nil: silent
}

// An Authenticator finds out who sends a request.
type Authenticator struct {
	o AuthOptions
}

// callGrace is how much longer than its credential a call may last: it was good when the call began. Streams that would go on
// for ever end when it does.
const callGrace = 5 * time.Minute

// NewAuthenticator returns an Authenticator.
func NewAuthenticator(o AuthOptions) *Authenticator {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Metadata == nil {
		o.Metadata = func(*http.Request) string { return "" }
	}
	if o.Failed == nil {
		o.Failed = func(*http.Request, string) time.Duration { return 0 }
	}
	return &Authenticator{o}
}

// Enabled reports whether anybody has to say who they are.
func (a *Authenticator) Enabled() bool {
	return a.o.Tokens != nil || a.o.OIDC != nil || a.o.Certificates || a.o.PassThrough
}

// Identify returns next for everybody; IdentityOf tells it who calls, as far as that is known.
func (a *Authenticator) Identify(next http.Handler) http.Handler {
	if !a.Enabled() {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id, x := a.identify(r)
		if x == nil && strings.ContainsFunc(id.Principal, unicode.IsControl) {
			x = a.unauthorized(r, "invalid_token", "the name in the credential has control characters")
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), callerKey{}, &caller{id, x})))
	})
}

// Demand returns next for those whom Identify has found. Others are refused with 401 and a challenge (RFC 6750, section 3; RFC 9728,
// section 5.1), 403 for want of a scope, or 503 when nobody can say. A request that lasts ends when its credential does.
func (a *Authenticator) Demand(next http.Handler) http.Handler {
	if !a.Enabled() {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := callerOf(r)
		if c == nil {
			panic("guard: Demand without Identify")
		}
		if c.refused != nil {
			a.refuse(w, r, c.refused)
			return
		}
		ctx, stop := bounded(r, c.id)
		defer stop()
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

func (a *Authenticator) refuse(w http.ResponseWriter, r *http.Request, x *refusal) {
	if wait := a.o.Failed(r, x.reason); wait > 0 {
		x = &refusal{status: http.StatusTooManyRequests, reason: ReasonRateLimited, retryAfter: wait,
			message: "too many requests from your address could not be authenticated; try again later"}
	}
	x.write(w)
}

// bounded returns the context of a request by id: it ends with the credential, a while later for a call.
func bounded(r *http.Request, id Identity) (context.Context, context.CancelFunc) {
	ctx := r.Context()
	if id.Expires.IsZero() && id.revoked == nil {
		return ctx, func() {}
	}
	grace := callGrace
	if lasts(r) {
		grace = 0
	}
	ctx, cancel := context.WithCancel(ctx)
	never := func() bool { return true }
	timer, revoked := never, never
	if !id.Expires.IsZero() {
		timer = time.AfterFunc(time.Until(id.Expires)+grace, cancel).Stop
	}
	if id.revoked != nil {
		revoked = context.AfterFunc(id.revoked, cancel)
	}
	return ctx, func() {
		timer()
		revoked()
		cancel()
	}
}

// lasts reports whether the response to r goes on until somebody ends it.
func lasts(r *http.Request) bool {
	return r.Method == http.MethodGet || r.Header.Get("Mcp-Method") == "subscriptions/listen"
}

// identify returns who sent r, or why that is not known.
func (a *Authenticator) identify(r *http.Request) (Identity, *refusal) {
	values := r.Header["Authorization"]
	if a.o.PassThrough {
		return a.passThrough(r, values)
	}
	if len(values) == 0 {
		if id, ok := a.certificate(r); ok {
			return id, a.scopes(r, id)
		}
		return Identity{}, a.unauthorized(r, "", "say who you are: send Authorization: Bearer TOKEN")
	}
	if a.o.Tokens == nil && a.o.OIDC == nil {
		return Identity{}, a.unauthorized(r, "", "callers are known by their client certificate here; send no Authorization header")
	}
	text, ok := bearer(values)
	if !ok {
		return Identity{}, a.unauthorized(r, "invalid_request", "send one Authorization header, with Bearer and a token")
	}
	id, x := a.token(r, text)
	if x != nil {
		return Identity{}, x
	}
	return id, a.scopes(r, id)
}

// maxTokenBytes bounds a token; a listener's bound on headers may be larger.
const maxTokenBytes = 16 << 10

// bearer returns the token of the header's only value (RFC 6750, section 2.1).
func bearer(values []string) (string, bool) {
	if len(values) != 1 {
		return "", false
	}
	scheme, token, _ := strings.Cut(values[0], " ")
	token = strings.Trim(token, " ")
	return token, strings.EqualFold(scheme, "Bearer") && token != "" && len(token) <= maxTokenBytes && !strings.ContainsFunc(token, notInToken)
}

func notInToken(r rune) bool {
	letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
	return !letter && !strings.ContainsRune("-._~+/=", r)
}

func (a *Authenticator) token(r *http.Request, text string) (Identity, *refusal) {
	if a.o.Tokens != nil {
		if id, ok := a.o.Tokens.Identify(text); ok {
			return id, nil
		}
	}
	const bad = "the token is not good here: it has expired, was taken back, or is for somebody else; get another"
	if a.o.OIDC == nil || strings.Count(text, ".") != 2 {
		return Identity{}, a.unauthorized(r, "invalid_token", bad)
	}
	id, err := a.o.OIDC.Identify(r.Context(), text)
	switch {
	case err == nil:
		return id, nil
	case errors.Is(err, errIssuer):
		a.o.Logger.Warn("token cannot be checked", "err", err)
		return Identity{}, &refusal{status: http.StatusServiceUnavailable, code: codeInternal, reason: ReasonIssuerDown, retryAfter: 5 * time.Second,
			message: "the token cannot be checked at the moment; try again later"}
	}
	a.o.Logger.Debug("token refused", "err", err)
	return Identity{}, a.unauthorized(r, "invalid_token", bad)
}

// passThrough names the caller by the hash of the credentials.
func (a *Authenticator) passThrough(r *http.Request, values []string) (Identity, *refusal) {
	switch {
	case len(values) == 0:
		return Identity{}, nil // the server behind says what it thinks of that
	case len(values) > 1 || values[0] == "":
		return Identity{}, a.unauthorized(r, "invalid_request", "send one Authorization header")
	}
	sum := sha256.Sum256([]byte(values[0]))
	id := Identity{Principal: "token:" + base64.RawURLEncoding.EncodeToString(sum[:])}
	if a.o.Challenged != nil {
		if challenge, ok := a.o.Challenged(id.Principal); ok {
			return Identity{}, &refusal{status: http.StatusUnauthorized, reason: ReasonNoToken, challenge: challenge,
				message: "the server behind the bridge does not accept this token any more; get another"}
		}
	}
	return id, nil
}

// certificate returns the caller that a verified client certificate names: by its first URI (SPIFFE), else its first DNS name or
// mail address, else its subject. Organizational units are groups.
func (a *Authenticator) certificate(r *http.Request) (Identity, bool) {
	if !a.o.Certificates || r.TLS == nil || len(r.TLS.VerifiedChains) == 0 {
		return Identity{}, false
	}
	c := r.TLS.VerifiedChains[0][0]
	id := Identity{Principal: "cert:" + certificateName(c), Expires: c.NotAfter}
	for _, unit := range c.Subject.OrganizationalUnit {
		id.Grants = append(id.Grants, grantGroup+unit)
	}
	return id, true
}

func certificateName(c *x509.Certificate) string {
	switch {
	case len(c.URIs) > 0:
		return c.URIs[0].String()
	case len(c.DNSNames) > 0:
		return c.DNSNames[0]
	case len(c.EmailAddresses) > 0:
		return c.EmailAddresses[0]
	}
	return c.Subject.String()
}

// scopes returns the refusal of a caller without a scope that all need.
func (a *Authenticator) scopes(r *http.Request, id Identity) *refusal {
	for _, s := range a.o.Scopes {
		if !id.Has(s) {
			return &refusal{status: http.StatusForbidden, reason: ReasonNoScope, challenge: a.challenge(r, "insufficient_scope"),
				message: fmt.Sprintf("the token lacks the scope %s; get one with %s", quote(s), strings.Join(a.o.Scopes, " "))}
		}
	}
	return nil
}

func (a *Authenticator) unauthorized(r *http.Request, code, message string) *refusal {
	return &refusal{status: http.StatusUnauthorized, reason: ReasonNoToken, message: message, challenge: a.challenge(r, code)}
}

// challenge returns a WWW-Authenticate header. A request without credentials gets no error code (RFC 6750, section 3).
func (a *Authenticator) challenge(r *http.Request, code string) string {
	params := []string{`realm="mcp"`}
	if code != "" {
		params = append(params, `error="`+code+`"`)
	}
	if len(a.o.Scopes) > 0 {
		params = append(params, `scope="`+strings.Join(a.o.Scopes, " ")+`"`)
	}
	if u := a.o.Metadata(r); u != "" {
		params = append(params, `resource_metadata="`+quotable(u)+`"`)
	}
	return "Bearer " + strings.Join(params, ", ")
}

// quotable returns a URL without what could end a quoted string; a URL has no use for it.
func quotable(u string) string {
	if strings.ContainsAny(u, "\"\\\r\n") {
		return url.PathEscape(u)
	}
	return u
}

// CheckScopes reports which of them cannot be scopes (RFC 6749, section 3.3).
func CheckScopes(scopes []string) error {
	for _, s := range scopes {
		if s == "" || strings.ContainsFunc(s, func(r rune) bool { return r < 0x21 || r > 0x7e || r == '"' || r == '\\' }) {
			return fmt.Errorf("%q is not a scope: they are printable ASCII without blanks, quotes and backslashes", s)
		}
	}
	return nil
}
