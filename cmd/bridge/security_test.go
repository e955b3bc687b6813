package main

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"

	bridge "github.com/mcp-dualstack/bridge"
)

// A file of tokens and one with the operator's token.
func tokenFiles(t *testing.T) (tokens, admin string) {
	t.Helper()
	dir := t.TempDir()
	tokens, admin = filepath.Join(dir, "tokens"), filepath.Join(dir, "admin")
	for file, text := range map[string]string{tokens: "alice sha256:" + strings.Repeat("ab", 32) + "\n", admin: "0123456789abcdef\n"} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return tokens, admin
}

func TestSecuritySettings(t *testing.T) {
	isolate(t)
	tokens, admin := tokenFiles(t)
	c, err := parse(t, "--listen", "0.0.0.0:1", "--admin", "0.0.0.0:2", "--auth-token-file", tokens, "--admin-token-file", admin,
		"--auth-issuer", "https://issuer.test", "--auth-audience", "a,b", "--auth-scope", "mcp", "--auth-clock-skew", "5s", "--auth-groups-claim", "roles",
		"--tool-rule", "* allow read_*,list", "--tool-rule", "scope:admin allow * x", "--tool-rule", "group:interns deny delete_*",
		"--tool-rule", "principal:https://issuer.test ada allow admin",
		"--principal-rate", "2.5", "--principal-calls", "3", "--address-streams", "4", "--hsts", "1h", "--max-body-bytes-in-total", "9000000",
		"--trusted-proxy", "10.0.0.1", "--proxy-protocol", "--allowed-host", "mcp.test")
	if err != nil {
		t.Fatal(err)
	}
	b := c.bridge
	wantAuth := bridge.Auth{TokenFile: tokens, Issuer: "https://issuer.test", Audience: []string{"a", "b"}, Scopes: []string{"mcp"}, ClockSkew: 5e9, GroupsClaim: "roles"}
	if diff := cmp.Diff(wantAuth, b.Auth); diff != "" {
		t.Errorf("auth: want -, got +:\n%s", diff)
	}
	wantRules := []bridge.ToolRule{
		{Grant: "*", Allow: []string{"read_*", "list"}}, {Grant: "scope:admin", Allow: []string{"*", "x"}}, {Grant: "group:interns", Deny: []string{"delete_*"}},
		{Grant: "principal:https://issuer.test ada", Allow: []string{"admin"}},
	}
	if diff := cmp.Diff(wantRules, b.ToolRules); diff != "" {
		t.Errorf("rules: want -, got +:\n%s", diff)
	}
	if b.PrincipalLimit != (bridge.Limit{Rate: 2.5, Calls: 3}) || b.AddressLimit != (bridge.Limit{Streams: 4}) || b.MaxBodyBytesInTotal != 9000000 || b.HSTS != 3600e9 {
		t.Errorf("got limits %+v %+v %d, HSTS %v", b.PrincipalLimit, b.AddressLimit, b.MaxBodyBytesInTotal, b.HSTS)
	}
	if len(c.tls.proxyProtocol) != 1 || c.tls.cert != "" {
		t.Errorf("got %+v", c.tls)
	}
	var log bytes.Buffer
	c.bridge.TrustedProxies = nil
	warnPlain(c, slog.New(slog.NewTextHandler(&log, nil)))
	if !strings.Contains(log.String(), "unencrypted") {
		t.Errorf("tokens without TLS on 0.0.0.0: got log %q", log.String())
	}
}

func TestSecurityProblems(t *testing.T) {
	tokens, _ := tokenFiles(t)
	tests := []struct {
		name string
		args []string
		want string
	}{
		{"reachable without authentication", []string{"--listen", "0.0.0.0:1"}, "nobody would be asked who they are"},
		{"an admin token does not open the clients' listener", []string{"--listen", "0.0.0.0:1", "--admin", "off", "--auth-token-file", ""}, "nobody would be asked who they are"},
		{"a client's token does not open the admin listener", []string{"--admin", "0.0.0.0:1", "--auth-token-file", tokens}, "--admin-token-file"},
		{"no such file", []string{"--auth-token-file", "/nonexistent/tokens"}, "token file:"},
		{"no audience", []string{"--auth-issuer", "https://issuer.test"}, "audience"},
		{"audience without issuer", []string{"--auth-audience", "x"}, "without an issuer"},
		{"plain issuer", []string{"--auth-issuer", "http://issuer.test", "--auth-audience", "x"}, "must be https"},
		{"pass-through to a command", []string{"--auth-pass-through"}, "name the server by --upstream"},
		{"pass-through and tokens", []string{"--auth-pass-through", "--upstream", "http://127.0.0.1:1/mcp", "--auth-token-file", tokens}, "pass-through leaves every check"},
		{"half a certificate", []string{"--tls-cert-file", "x"}, "belong together"},
		{"no certificate there", []string{"--tls-cert-file", "/nonexistent/c", "--tls-key-file", "/nonexistent/k"}, "no such file"},
		{"client certificates without TLS", []string{"--client-ca-file", "x"}, "over TLS only"},
		{"admin TLS without a certificate", []string{"--admin-tls"}, "there is no certificate"},
		{"PROXY protocol of nobody", []string{"--proxy-protocol"}, "--trusted-proxy"},
		{"a rule that is none", []string{"--tool-rule", "admin *"}, "is not written as"},
		{"a rule about nothing", []string{"--tool-rule", "scope:admin allow"}, "is not written as"},
		{"a rule about nobody", []string{"--tool-rule", "admin allow *"}, `"admin" is none of`},
		{"a rate that is none", []string{"--principal-rate", "fast"}, "not a number per second"},
		{"a negative rate", []string{"--address-rate", "-1"}, "not a number per second"},
		{"bodies smaller than one", []string{"--max-body-bytes-in-total", "100"}, "less than one body may have"},
		{"scopes that nobody gives", []string{"--auth-scope", "x"}, "nothing gives any"},
		{"no scope", []string{"--auth-scope", `a\b`, "--auth-token-file", tokens}, "is not a scope"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			isolate(t)
			_, err := parse(t, tt.args...)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q in it", err, tt.want)
			}
		})
	}
}

// docs/security.md names every flag of security.
func TestSecurityFlagsAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/security.md")
	if err != nil {
		t.Fatal(err)
	}
	fs := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	addSecurity(fs)
	fs.VisitAll(func(f *pflag.Flag) {
		if !bytes.Contains(text, []byte("`--"+f.Name+"`")) {
			t.Errorf("--%s is missing", f.Name)
		}
	})
}
