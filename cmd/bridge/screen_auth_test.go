package main

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What the screen says to try is let in: it has the credential that callers need, and https where TLS is on.
func TestScreenTriesWithACredential(t *testing.T) {
	isolate(t)
	a := newAuthority(t)
	f, _ := newFiles(t, a)
	tokens := filepath.Join(t.TempDir(), "tokens")
	if err := os.WriteFile(tokens, []byte("alice sha256:"+strings.Repeat("0", 64)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name string
		args []string
		want string // what the first try begins with
	}{
		{"nobody is asked", nil, "curl http://127.0.0.1:8420/mcp -H 'Content-Type"},
		{"tokens", []string{"--auth-token-file", tokens}, `curl http://127.0.0.1:8420/mcp -H "Authorization: Bearer $TOKEN" -H 'Content-Type`},
		{"an issuer", []string{"--auth-issuer", "https://login.test", "--public-url", "https://mcp.test"}, `curl http://127.0.0.1:8420/mcp -H "Authorization: Bearer $TOKEN" -H`},
		{"tokens over TLS", []string{"--auth-token-file", tokens, "--tls-cert-file", f.cert, "--tls-key-file", f.key}, `curl https://127.0.0.1:8420/mcp -H "Authorization: Bearer $TOKEN" -H`},
		{"certificates", []string{"--tls-cert-file", f.cert, "--tls-key-file", f.key, "--client-ca-file", f.ca}, "curl https://127.0.0.1:8420/mcp --cert $CERT --key $KEY -H"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, err := parse(t, append(tt.args, "--legacy=off", "--admin=off", "--state=off")...)
			if err != nil {
				t.Fatal(err)
			}
			got := screen{c: c, listen: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 8420}}.text(finding{}, false)
			_, try, _ := strings.Cut(got, "Try:\n\n  ")
			if !strings.HasPrefix(try, tt.want) || strings.Count(got, tt.want) != 2 {
				t.Errorf("got %s\nwant twice: %s", got, tt.want)
			}
		})
	}
}
