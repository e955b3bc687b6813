package guard_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/mcp-dualstack/bridge/internal/guard"
	"github.com/mcp-dualstack/bridge/internal/issuertest"
)

// What it costs to find out who calls: by a static token, and by a signed one (ES256).
func BenchmarkAuthenticate(b *testing.B) {
	file := filepath.Join(b.TempDir(), "tokens")
	if err := os.WriteFile(file, []byte(line("alice", "one")), 0o600); err != nil {
		b.Fatal(err)
	}
	tokens, err := guard.ReadTokens(file, nil)
	if err != nil {
		b.Fatal(err)
	}
	i := issuertest.New(b)
	oidc, err := guard.NewOIDC(guard.OIDCOptions{Issuer: i.URL, Audience: []string{"test"}, RoundTripper: i.Client().Transport})
	if err != nil {
		b.Fatal(err)
	}
	for _, bb := range []struct {
		name, token string
		o           guard.AuthOptions
	}{{"static", "one", guard.AuthOptions{Tokens: tokens}}, {"signed", i.Token(b, nil), guard.AuthOptions{OIDC: oidc}}} {
		b.Run(bb.name, func(b *testing.B) {
			a := guard.NewAuthenticator(bb.o)
			h := a.Identify(a.Demand(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})))
			r := httptest.NewRequest("POST", "/mcp", nil)
			r.Header.Set("Authorization", "Bearer "+bb.token)
			w := httptest.NewRecorder()
			b.ReportAllocs()
			for b.Loop() {
				if h.ServeHTTP(w, r); w.Code != 200 {
					b.Fatalf("got %d", w.Code)
				}
			}
		})
	}
}
