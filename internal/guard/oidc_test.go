package guard_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/base64"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/mcp-dualstack/bridge/internal/guard"
	"github.com/mcp-dualstack/bridge/internal/issuertest"
)

// A gate is an Authenticator and what it says to a request.
type gate struct {
	t *testing.T
	h http.Handler

	who guard.Identity // of the last request that was let in
}

func newGate(t *testing.T, o guard.AuthOptions) *gate {
	g := &gate{t: t}
	a := guard.NewAuthenticator(o)
	g.h = a.Identify(a.Demand(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { g.who = guard.IdentityOf(r) })))
	return g
}

// ask sends a request with these Authorization headers and returns what came back.
func (g *gate) ask(authorization ...string) *httptest.ResponseRecorder {
	g.t.Helper()
	g.who = guard.Identity{}
	r := httptest.NewRequest(http.MethodPost, "/mcp", nil)
	r.Header["Authorization"] = authorization
	w := httptest.NewRecorder()
	g.h.ServeHTTP(w, r)
	return w
}

func newOIDC(t *testing.T, i *issuertest.Issuer, o guard.OIDCOptions) *guard.OIDC {
	t.Helper()
	o.Issuer, o.RoundTripper = i.URL, i.Client().Transport
	if o.Audience == nil {
		o.Audience = []string{"test", "other"}
	}
	v, err := guard.NewOIDC(o)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// Which tokens are good, and what is said of the others.
func TestOIDC(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := issuertest.New(t)
		g := newGate(t, guard.AuthOptions{OIDC: newOIDC(t, i, guard.OIDCOptions{})})
		stranger, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		claims := map[string]any{"iss": i.URL, "aud": "test", "sub": "alice", "exp": time.Now().Add(time.Hour).Unix()}
		at := func(d time.Duration) int64 { return time.Now().Add(d).Unix() }
		secret := i.PublicKeys(t)
		good := i.Token(t, nil)
		parts := strings.Split(good, ".")
		none := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none"}`)) + "." + parts[1] + "."
		tests := []struct {
			name   string
			token  string
			status int
		}{
			{"good", good, 200},
			{"one audience of several", i.Token(t, map[string]any{"aud": []string{"x", "other"}}), 200},
			{"expired within the skew", i.Token(t, map[string]any{"exp": at(-50 * time.Second)}), 200},
			{"expired", i.Token(t, map[string]any{"exp": at(-2 * time.Minute)}), 401},
			{"without an expiry", i.Token(t, map[string]any{"exp": nil}), 401},
			{"not valid yet", i.Token(t, map[string]any{"nbf": at(10 * time.Minute)}), 401},
			{"for somebody else", i.Token(t, map[string]any{"aud": "elsewhere"}), 401},
			{"for nobody", i.Token(t, map[string]any{"aud": nil}), 401},
			{"an audience that only begins alike", i.Token(t, map[string]any{"aud": "tester"}), 401},
			{"of another issuer", i.Token(t, map[string]any{"iss": "https://evil.test"}), 401},
			{"of the issuer with a slash", i.Token(t, map[string]any{"iss": i.URL + "/"}), 401},
			{"without a subject", i.Token(t, map[string]any{"sub": ""}), 401},
			{"a subject that could pass for another", i.Token(t, map[string]any{"sub": "alice\x000,"}), 401},
			{"signed by somebody else with our key's name", issuertest.Sign(t, jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: stranger, KeyID: "k1"}}, claims), 401},
			{"signed with the public key as a secret", issuertest.Sign(t, jose.SigningKey{Algorithm: jose.HS256, Key: jose.JSONWebKey{Key: secret, KeyID: "k1"}}, claims), 401},
			{"not signed", none, 401},
			{"signature cut off", parts[0] + "." + parts[1] + ".", 401},
			{"another body under the signature", parts[0] + "." + base64.RawURLEncoding.EncodeToString([]byte(`{"sub":"root"}`)) + "." + parts[2], 401},
			{"no token at all", "abc", 401},
			{"dots", "..", 401},
		}
		for _, tt := range tests {
			w := g.ask("Bearer " + tt.token)
			if w.Code != tt.status {
				t.Errorf("%s: got %d %s, want %d", tt.name, w.Code, w.Body, tt.status)
			}
			if refused := strings.Contains(w.Header().Get("Www-Authenticate"), `error="invalid_token"`); refused != (tt.status == 401) {
				t.Errorf("%s: got challenge %q", tt.name, w.Header().Get("Www-Authenticate"))
			}
			if tt.status == 200 && g.who.Principal != i.URL+" alice" {
				t.Errorf("%s: got principal %q", tt.name, g.who.Principal)
			}
		}
		if n := i.Count("/.well-known/openid-configuration"); n != 1 {
			t.Errorf("the discovery document was read %d times, want once", n)
		}
		time.Sleep(time.Minute) // for connections that are idle
	})
}

func TestOIDCGrants(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := issuertest.New(t)
		g := newGate(t, guard.AuthOptions{OIDC: newOIDC(t, i, guard.OIDCOptions{GroupsClaim: "roles"})})
		tests := []struct {
			claims map[string]any
			want   string
		}{
			{nil, ""},
			{map[string]any{"scope": "read write"}, "scope:read scope:write"},
			{map[string]any{"scp": []string{"read", "write all"}}, "scope:read scope:write scope:all"},
			{map[string]any{"scp": "read"}, "scope:read"},
			{map[string]any{"roles": []string{"Site Admins"}, "groups": []string{"x"}}, "group:Site Admins"},
			{map[string]any{"roles": "ops"}, "group:ops"},
			{map[string]any{"scope": 7, "roles": map[string]any{"a": 1}}, ""},
		}
		for _, tt := range tests {
			if w := g.ask("bearer " + i.Token(t, tt.claims)); w.Code != 200 {
				t.Fatalf("%v: %d %s", tt.claims, w.Code, w.Body)
			}
			if got := strings.Join(g.who.Grants, " "); got != tt.want {
				t.Errorf("%v: got %q, want %q", tt.claims, got, tt.want)
			}
		}
		if left := time.Until(g.who.Expires); left < time.Hour || left > time.Hour+time.Minute {
			t.Errorf("expires in %v, want an hour and the skew", left)
		}
	})
}

// A new key is taken at once, an old one is not trusted for long after the issuer has taken it back.
func TestRotatedKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := issuertest.New(t)
		g := newGate(t, guard.AuthOptions{OIDC: newOIDC(t, i, guard.OIDCOptions{})})
		want := func(what, token string, status int) {
			t.Helper()
			if w := g.ask("Bearer " + token); w.Code != status {
				t.Errorf("%s: got %d, want %d", what, w.Code, status)
			}
		}
		old := i.Token(t, nil)
		want("the first key", old, 200)
		time.Sleep(time.Minute)
		i.Rotate(t, "k2")
		want("a new key", i.Token(t, nil), 200)
		want("the old key", old, 401)

		i.Rotate(t, "k3")
		current := i.Token(t, nil)
		want("a key nobody has heard of yet, right after the issuer was asked", current, 401)
		time.Sleep(11 * time.Second)
		want("the same a moment later", current, 200)

		i.Rotate(t, "k4") // and nobody sends anything signed with it
		time.Sleep(16 * time.Minute)
		want("a key that was taken back", current, 401)
	})
}

// Tokens with keys that do not exist do not make the bridge a burden for the issuer.
func TestIssuerIsNotHammered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := issuertest.New(t)
		g := newGate(t, guard.AuthOptions{OIDC: newOIDC(t, i, guard.OIDCOptions{})})
		g.ask("Bearer " + i.Token(t, nil))
		before := i.Count("/keys")
		i.KeyID = "made-up"
		for range 100 {
			if w := g.ask("Bearer " + i.Token(t, nil)); w.Code != 401 {
				t.Fatalf("got %d, want 401", w.Code)
			}
			time.Sleep(100 * time.Millisecond)
		}
		if n := i.Count("/keys") - before; n > 2 {
			t.Errorf("the issuer was asked %d times in 10 s, want 2 at most", n)
		}
	})
}

// An issuer that cannot be asked is nobody's fault: 503, not 401, and the bridge asks less and less often.
func TestIssuerDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := issuertest.New(t)
		i.SetDown(true)
		g := newGate(t, guard.AuthOptions{OIDC: newOIDC(t, i, guard.OIDCOptions{})})
		token := i.Token(t, map[string]any{"exp": time.Now().Add(48 * time.Hour).Unix()})
		for range 600 {
			w := g.ask("Bearer " + token)
			if w.Code != 503 || w.Header().Get("Retry-After") == "" || w.Header().Get("Www-Authenticate") != "" {
				t.Fatalf("got %d %v, want 503 and Retry-After", w.Code, w.Header())
			}
			time.Sleep(time.Second)
		}
		if n := i.Count("/.well-known/openid-configuration"); n > 20 {
			t.Errorf("the discovery document was asked for %d times in 10 min, want 20 at most", n)
		}
		i.SetDown(false)
		time.Sleep(time.Minute)
		if w := g.ask("Bearer " + token); w.Code != 200 {
			t.Fatalf("after it came back: got %d", w.Code)
		}
		i.SetDown(true)
		time.Sleep(20 * time.Minute)
		if w := g.ask("Bearer " + token); w.Code != 200 {
			t.Errorf("with keys of a while ago: got %d, want 200", w.Code)
		}
		time.Sleep(25 * time.Hour)
		if w := g.ask("Bearer " + token); w.Code != 503 {
			t.Errorf("with keys of yesterday: got %d, want 503", w.Code)
		}
	})
}

func TestOIDCOptions(t *testing.T) {
	_, err := guard.NewOIDC(guard.OIDCOptions{Issuer: "http://issuer.test", KeysURL: "ftp://x", ClockSkew: 2 * time.Hour})
	if err == nil {
		t.Fatal("got no error")
	}
	for _, want := range []string{`issuer: "http://issuer.test": it must be https`, `keys URL: "ftp://x"`, "audience: name", "clock skew"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is missing in:\n%v", want, err)
		}
	}
	for _, good := range []string{"https://issuer.test", "https://issuer.test/realms/x", "http://localhost:1", "http://127.0.0.1:9/x"} {
		if _, err := guard.NewOIDC(guard.OIDCOptions{Issuer: good, Audience: []string{"x"}}); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
}

// An issuer whose discovery document names another, or keys that anybody could change on the way, is none.
func TestDiscoveryIsChecked(t *testing.T) {
	for name, document := range map[string]string{
		"another issuer": `{"issuer":"https://other.test","jwks_uri":"https://other.test/keys"}`,
		"plain keys":     `{"issuer":"ISSUER","jwks_uri":"http://keys.test/keys"}`,
		"no keys":        `{"issuer":"ISSUER"}`,
		"no JSON":        `<html>`,
		"far too long":   `{"issuer":"ISSUER","jwks_uri":"https://x.test/","x":"` + strings.Repeat("x", 2<<20) + `"}`,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				i := issuertest.New(t)
				i.Document = document
				g := newGate(t, guard.AuthOptions{OIDC: newOIDC(t, i, guard.OIDCOptions{})})
				if w := g.ask("Bearer " + i.Token(t, nil)); w.Code != 503 {
					t.Errorf("got %d, want 503", w.Code)
				}
			})
		})
	}
}

func TestChallenges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := issuertest.New(t)
		g := newGate(t, guard.AuthOptions{
			OIDC: newOIDC(t, i, guard.OIDCOptions{}), Scopes: []string{"mcp", "read"},
			Metadata: func(r *http.Request) string {
				return "https://mcp.test/.well-known/oauth-protected-resource" + r.URL.Path
			},
		})
		const rest = `scope="mcp read", resource_metadata="https://mcp.test/.well-known/oauth-protected-resource/mcp"`
		tests := []struct {
			name          string
			authorization []string
			status        int
			challenge     string
		}{
			{"nothing", nil, 401, `Bearer realm="mcp", ` + rest},
			{"another scheme", []string{"Basic YTpi"}, 401, `Bearer realm="mcp", error="invalid_request", ` + rest},
			{"two headers", []string{"Bearer a", "Bearer b"}, 401, `Bearer realm="mcp", error="invalid_request", ` + rest},
			{"two tokens in one", []string{"Bearer a, Bearer b"}, 401, `Bearer realm="mcp", error="invalid_request", ` + rest},
			{"nothing after the scheme", []string{"Bearer "}, 401, `Bearer realm="mcp", error="invalid_request", ` + rest},
			{"a huge one", []string{"Bearer " + strings.Repeat("a", 20000)}, 401, `Bearer realm="mcp", error="invalid_request", ` + rest},
			{"a bad one", []string{"Bearer a.b.c"}, 401, `Bearer realm="mcp", error="invalid_token", ` + rest},
			{"one of two scopes", []string{"Bearer " + i.Token(t, map[string]any{"scope": "mcp"})}, 403, `Bearer realm="mcp", error="insufficient_scope", ` + rest},
			{"both scopes", []string{"BEARER " + i.Token(t, map[string]any{"scope": "read x mcp"})}, 200, ""},
		}
		for _, tt := range tests {
			w := g.ask(tt.authorization...)
			if got := w.Header().Values("Www-Authenticate"); w.Code != tt.status || strings.Join(got, ";") != tt.challenge {
				t.Errorf("%s: got %d %q, want %d %q", tt.name, w.Code, got, tt.status, tt.challenge)
			}
			if tt.status != 200 && (w.Header().Get("Content-Type") != "application/json" || strings.Contains(w.Body.String(), `"id"`)) {
				t.Errorf("%s: got %s, want a JSON-RPC error without an id", tt.name, w.Body)
			}
		}
		if !slices.Equal(g.who.Grants, []string{"scope:read", "scope:x", "scope:mcp"}) {
			t.Errorf("got %v", g.who.Grants)
		}
	})
}

// A token is not checked again at once, but it is when it has expired, and one that differs is always.
func TestVerifiedTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := issuertest.New(t)
		g := newGate(t, guard.AuthOptions{OIDC: newOIDC(t, i, guard.OIDCOptions{ClockSkew: time.Second})})
		token := i.Token(t, map[string]any{"exp": time.Now().Add(10 * time.Second).Unix()})
		want := func(what, token string, status int) {
			t.Helper()
			if w := g.ask("Bearer " + token); w.Code != status {
				t.Errorf("%s: got %d, want %d", what, w.Code, status)
			}
		}
		want("at first", token, 200)
		want("again", token, 200)
		want("with another signature", token[:len(token)-4]+"AAAA", 401)
		time.Sleep(12 * time.Second)
		want("expired", token, 401)
	})
}

// The number of tokens that are remembered is bounded.
func TestVerifiedTokensAreBounded(t *testing.T) {
	if n := guard.VerifiedAfter(10_000); n != 8192 {
		t.Errorf("got %d, want 8192", n)
	}
}
