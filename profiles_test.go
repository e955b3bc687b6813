package bridge_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	bridge "github.com/mcp-dualstack/bridge"
)

// What Options.Profiles serves is served to operators, and without the option nothing is.
func TestProfilesAreForOperators(t *testing.T) {
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("0123456789abcdef"), 0o600); err != nil {
		t.Fatal(err)
	}
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write([]byte(r.URL.Path)) })
	tests := []struct {
		name    string
		o       bridge.Options
		request string
		want    string
	}{
		{"off", bridge.Options{}, "Host: localhost", "404"},
		{"on", bridge.Options{Profiles: h}, "Host: localhost", "200"},
		{"a web page elsewhere", bridge.Options{Profiles: h}, "Host: evil.test", "403"},
		{"without the token", bridge.Options{Profiles: h, AdminTokenFile: token}, "Host: localhost", "401"},
		{"with the token", bridge.Options{Profiles: h, AdminTokenFile: token}, "Host: localhost\nAuthorization: Bearer 0123456789abcdef", "200"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := newBridge(t, &server{}, &tt.o)
			got := send(t, b.Admin(), "GET /debug/pprof/heap HTTP/1.1\n"+tt.request)
			if code, _, _ := strings.Cut(got, "\n"); code != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}
