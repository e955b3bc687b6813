package bridge

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/gorilla/mux"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/internal/guard"
)

// Auth says how clients are known. The zero value lets everybody in. Several ways may be open at once, but for PassThrough,
// which is alone.
type Auth struct {
	// TokenFile has static bearer tokens, one a line: NAME sha256:HEX [scope:NAME]... [group:NAME]... [expires:TIME]. It is
	// read again within seconds of a change, and what a token that is gone had opened ends then. Empty: none.
	TokenFile string

	// Issuer is the URL of an OpenID Connect provider whose signed tokens (JWT) are good. Empty: none.
	Issuer string
	// Audience is what the aud claim of tokens may be (RFC 8707); empty: PublicURL with and without the paths of MCP.
	Audience []string
	// KeysURL is where the issuer's keys are; empty: as the issuer's discovery document says.
	KeysURL         string
	GroupsClaim     string            // whose strings are a caller's groups; empty: groups
	ClockSkew       time.Duration     // by how much the issuer's clock may be ahead; zero: 1 min
	IssuerTransport http.RoundTripper // to the issuer; nil: Go's default

	// ClientCertificates takes who sends no token for who the verified certificate of the connection names.
	ClientCertificates bool

	// PassThrough leaves authentication to the server behind: whatever Authorization a client sends is sent there, and its
	// challenges come back (translation.md 13). It needs upstream.HTTPOptions.PassThrough too.
	PassThrough bool

	Scopes []string // that every caller must have; empty: none
	// Servers are the authorization servers that the metadata document names (RFC 9728); empty: Issuer. With PassThrough the
	// document is served only if they are given.
	Servers []string
}

// check reports everything that is wrong with s.Auth and makes what checks credentials.
func (s *settings) checkAuth() error {
	a := &s.Auth
	var errs []error
	report := func(what string, err error) {
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", what, err))
		}
	}
	if a.PassThrough && (a.TokenFile != "" || a.Issuer != "" || a.ClientCertificates || len(a.Scopes) > 0) {
		errs = append(errs, errors.New("auth: pass-through leaves every check to the server behind; leave out the token file, the issuer, client certificates and scopes"))
	}
	if a.Issuer == "" && (len(a.Audience) > 0 || a.KeysURL != "") {
		errs = append(errs, errors.New("auth: an audience or keys without an issuer"))
	}
	if len(a.Scopes) > 0 && a.TokenFile == "" && a.Issuer == "" {
		errs = append(errs, errors.New("auth: scopes are asked for and nothing gives any; name an issuer or a token file"))
	}
	report("auth", guard.CheckScopes(a.Scopes))
	if a.PassThrough && len(a.Servers) > 0 && s.publicURL == nil {
		errs = append(errs, errors.New("auth: authorization servers beside pass-through need the public URL, to name the metadata document in challenges"))
	}
	if a.TokenFile != "" {
		var err error
		s.tokens, err = guard.ReadTokens(a.TokenFile, s.Logger)
		report("token file", err)
	}
	if a.Issuer != "" {
		var err error
		s.oidc, err = guard.NewOIDC(guard.OIDCOptions{
			Issuer: a.Issuer, Audience: s.audience(), KeysURL: a.KeysURL, GroupsClaim: a.GroupsClaim, ClockSkew: a.ClockSkew,
			RoundTripper: a.IssuerTransport, Logger: s.Logger,
		})
		report("auth", err)
	}
	if s.AdminTokenFile != "" {
		var err error
		s.operator, err = guard.ReadSecret(s.AdminTokenFile, s.Logger)
		report("admin token file", err)
	}
	return errors.Join(errs...)
}

// audience returns what tokens may be for.
func (s *settings) audience() []string {
	if len(s.Auth.Audience) > 0 || s.publicURL == nil {
		return s.Auth.Audience
	}
	root := s.publicURL.String()
	return []string{root, root + "/", root + s.MCPPath, root + s.SSEPath}
}

// enabled reports whether clients are known by anything.
func (a *Auth) enabled() bool {
	return a.TokenFile != "" || a.Issuer != "" || a.ClientCertificates || a.PassThrough
}

// newAuthenticator returns what finds out who sends a request, and counts who cannot say.
func (b *Bridge) newAuthenticator() *guard.Authenticator {
	s := b.s
	return guard.NewAuthenticator(guard.AuthOptions{
		Tokens: s.tokens, OIDC: s.oidc, Certificates: s.Auth.ClientCertificates,
		PassThrough: s.Auth.PassThrough, Challenged: b.challenges.recent,
		Scopes: s.Auth.Scopes, Metadata: s.metadataURL,
		Failed: b.failed,
		Logger: s.Logger,
	})
}

// failed counts a request that could not be authenticated, and returns how long its sender is to wait if there have been too many. One
// without a credential guesses at nothing: every client that signs in begins with it.
func (b *Bridge) failed(r *http.Request, reason string) time.Duration {
	if len(r.Header["Authorization"]) > 0 {
		if wait := b.limiter.Failed(r); wait > 0 {
			return wait // which says enough: whoever floods does not fill the log as well
		}
	}
	b.refused(r, reason)
	return 0
}

// watchTokens keeps the static tokens as their file is, until Close.
func (b *Bridge) watchTokens() {
	if b.s.tokens == nil {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { // until unwatch
		defer close(done)
		b.s.tokens.Watch(ctx)
	}()
	b.unwatch = func() { cancel(); <-done }
}

// admitted returns next for those whom the authentication and the limits let through. It stands around the transports and not
// around the router: what the bridge itself says about its routes is for everybody (report R51).
func (b *Bridge) admitted(next http.Handler) http.Handler {
	return b.auth.Demand(b.limiter.Handler(b.bodies(next)))
}

// principal names the caller as the transports know it: sessions and streams are for one principal only. Where rules about tools
// tell callers apart, what they give is part of the name, so that nobody uses a session opened with more rights than theirs.
func (s *settings) principal(r *http.Request) string {
	id := guard.IdentityOf(r)
	return s.rules.name(id.Principal, id.Grants)
}

// authorization returns what is to be passed on to the server behind.
func (s *settings) authorization(r *http.Request) string { return r.Header.Get("Authorization") }

// passed returns f with pass-through, nil without.
func (s *settings) passed(f func(*http.Request) string) func(*http.Request) string {
	if s.Auth.PassThrough {
		return f
	}
	return nil
}

// servers returns the authorization servers that clients are told of.
func (s *settings) servers() []string {
	if len(s.Auth.Servers) == 0 && s.Auth.Issuer != "" {
		return []string{s.Auth.Issuer}
	}
	return s.Auth.Servers
}

// metadataURL returns the URL of the document about the resource that r is for, empty if there is none. It lies under the public
// prefix, where a proxy surely passes it on.
func (s *settings) metadataURL(r *http.Request) string {
	if len(s.servers()) == 0 {
		return ""
	}
	return s.published(r, guard.WellKnown+s.resourcePath(r.URL.Path))
}

// resourcePath returns the path that stands for a route as a resource: messages belong to their stream.
func (s *settings) resourcePath(route string) string {
	if route == s.MessagePath {
		return s.SSEPath
	}
	return route
}

// routeMetadata serves the metadata documents: of each path of MCP and of all of them together, with the public prefix inside the path,
// as RFC 9728, section 3.1 has it, and without.
func (b *Bridge) routeMetadata(r *mux.Router) {
	s := b.s
	if len(s.servers()) == 0 {
		return
	}
	for _, resource := range []string{"", s.MCPPath, s.SSEPath} {
		h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			guard.ServeMetadata(w, guard.Metadata{
				Resource: strings.TrimSuffix(s.published(r, resource), "/"), Servers: s.servers(), Scopes: s.scopes(), Name: "MCP server",
			})
		})
		for _, path := range slices.Compact([]string{guard.WellKnown + resource, guard.WellKnown + s.prefix + resource}) {
			r.Handle(path, byMethod{http.MethodGet: h, http.MethodHead: h})
		}
	}
}

// scopes returns the scopes that mean something here: those every caller needs, and those that rules about tools name.
func (s *settings) scopes() []string {
	scopes := slices.Clone(s.Auth.Scopes)
	for _, rule := range s.ToolRules {
		if scope, ok := strings.CutPrefix(rule.Grant, "scope:"); ok && !slices.Contains(scopes, scope) {
			scopes = append(scopes, scope)
		}
	}
	return scopes
}

// unknown reports whether r names a session that is none of its sender's.
func (b *Bridge) unknown(r *http.Request) bool {
	principal := b.s.principal(r)
	if b.transport(r) == exchange.HTTPSSE {
		id := r.URL.Query().Get(sessionParam)
		return id != "" && r.Method == http.MethodPost && !b.legacy.knows(id, principal)
	}
	id := r.Header.Get(headerSession)
	return id != "" && !b.mcp.Knows(id, principal)
}

// operators returns next for those who may ask and change what the bridge does: on a host of ours, and with the admin token
// if there is one.
func (b *Bridge) operators(next http.Handler) http.Handler {
	if b.s.operator != nil {
		next = b.s.operator.Handler(next)
	}
	return b.guard.Handler(next)
}
