package guard_test

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/mcp-dualstack/bridge/internal/guard"
)

func TestCertificates(t *testing.T) {
	spiffe, err := url.Parse("spiffe://corp/app")
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name string
		cert *x509.Certificate // nil: none
		want string            // principal and grants; empty: refused
	}{
		{"none", nil, ""},
		{"URI first", &x509.Certificate{URIs: []*url.URL{spiffe}, DNSNames: []string{"x.test"}}, "cert:spiffe://corp/app"},
		{"then DNS", &x509.Certificate{DNSNames: []string{"x.test"}, EmailAddresses: []string{"a@x.test"}}, "cert:x.test"},
		{"then mail", &x509.Certificate{EmailAddresses: []string{"a@x.test"}}, "cert:a@x.test"},
		{"then the subject", &x509.Certificate{Subject: pkix.Name{CommonName: "app", OrganizationalUnit: []string{"Ops"}}}, "cert:CN=app,OU=Ops group:Ops"},
		{"a name that could pass for another", &x509.Certificate{EmailAddresses: []string{"a\x000,"}}, ""},
	}
	f := newTokenFile(t, line("alice", "one"))
	var who guard.Identity
	a := guard.NewAuthenticator(guard.AuthOptions{Certificates: true, Tokens: f.read()})
	h := a.Identify(a.Demand(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { who = guard.IdentityOf(r) })))
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			who = guard.Identity{}
			r := httptest.NewRequest("POST", "/mcp", nil)
			r.TLS = &tls.ConnectionState{}
			if tt.cert != nil {
				tt.cert.NotAfter = time.Now().Add(time.Hour)
				r.TLS.PeerCertificates = []*x509.Certificate{tt.cert}
				w := httptest.NewRecorder()
				if h.ServeHTTP(w, r); w.Code != 401 {
					t.Errorf("a certificate that nobody has verified: got %d", w.Code)
				}
				r.TLS.VerifiedChains = [][]*x509.Certificate{{tt.cert}}
			}
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			if got := strings.Join(append([]string{who.Principal}, who.Grants...), " "); got != tt.want || (w.Code == 401) != (tt.want == "") {
				t.Errorf("got %d %q, want %q", w.Code, got, tt.want)
			}
			r.Header.Set("Authorization", "Bearer one")
			if h.ServeHTTP(httptest.NewRecorder(), r); who.Principal != "alice" {
				t.Errorf("with a token: got %q, want who the token names", who.Principal)
			}
			r.Header.Set("Authorization", "Bearer nonsense")
			w = httptest.NewRecorder()
			if h.ServeHTTP(w, r); w.Code != 401 {
				t.Errorf("with a bad token: got %d, want 401 whatever the certificate", w.Code)
			}
		})
	}
}

// In pass-through mode everybody is let in and told apart by what they send, until the server behind has said what it thinks of it.
func TestPassThrough(t *testing.T) {
	refused := ""
	g := newGate(t, guard.AuthOptions{PassThrough: true, Challenged: func(p string) (string, bool) {
		return "Bearer error=\"invalid_token\"", p == refused && p != ""
	}})
	name := func(authorization ...string) string {
		t.Helper()
		if w := g.ask(authorization...); w.Code != 200 {
			t.Errorf("%q: got %d %s", authorization, w.Code, w.Body)
		}
		return g.who.Principal
	}
	nobody, a, b, basic := name(), name("Bearer a"), name("Bearer b"), name("Basic a")
	if nobody != "" || a == "" || a == b || a == basic || a != name("Bearer a") || strings.Contains(a, "Bearer") {
		t.Errorf("got %q %q %q %q", nobody, a, b, basic)
	}
	refused = a
	if w := g.ask("Bearer a"); w.Code != 401 || w.Header().Get("Www-Authenticate") != `Bearer error="invalid_token"` {
		t.Errorf("got %d %v, want the challenge", w.Code, w.Header())
	}
	name("Bearer b")
	if w := g.ask("Bearer a", "Bearer b"); w.Code != 401 {
		t.Errorf("two headers: got %d", w.Code)
	}
}

// Without any way to know callers, nobody is asked and nobody is known.
func TestNoAuthentication(t *testing.T) {
	g := newGate(t, guard.AuthOptions{})
	if w := g.ask("Bearer x"); w.Code != 200 || g.who.Principal != "" {
		t.Errorf("got %d %+v", w.Code, g.who)
	}
}

// FuzzAuthorization: no header but the one with the token lets anybody in, and every refusal is a whole answer.
func FuzzAuthorization(f *testing.F) {
	for _, s := range []string{"", "Bearer one", "bearer  one ", "Bearer one,two", "Bearer\tone", "Basic one", "Bearer a.b.c", "one", "Bearer \x00"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, value string) {
		file := newTokenFile(t, line("alice", "one"))
		g := newGate(t, guard.AuthOptions{Tokens: file.read()})
		w := g.ask(value)
		fields := strings.Fields(value)
		good := len(fields) == 2 && strings.EqualFold(fields[0], "bearer") && fields[1] == "one"
		if w.Code == 200 && (!good || g.who.Principal != "alice") {
			t.Errorf("%q lets %q in", value, g.who.Principal)
		}
		if w.Code != 200 && (w.Code != 401 || !strings.HasPrefix(w.Header().Get("Www-Authenticate"), "Bearer ")) {
			t.Errorf("%q: got %d %v", value, w.Code, w.Header())
		}
	})
}
