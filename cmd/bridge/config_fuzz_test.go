package main

import (
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/spf13/pflag"
)

// FuzzConfig: whatever is in a configuration file, it is read the same way twice; what is wrong with it is said in printable lines, and
// a bridge that it leaves for others to reach is one that asks who they are, unless the file says not to.
func FuzzConfig(f *testing.F) {
	for _, text := range []string{
		"", "listen: 127.0.0.1:1\nsse_path: /file\nkeep_alive: 1s\nallowed_host: [file.test, other.test]\ninsecure: true\n", "listen: 0.0.0.0:1", "listen: [1, 2]", "listen: {a: b}", "listen:",
		"lisen: x", "LISTEN: x", "listen: 0.0.0.0:1\nauth_issuer: https://login.test\npublic_url: https://mcp.test", "listen: \":80\"\ninsecure: yes", "listen: \"[::]:80\"", "listen: 127.1:80",
		"command: [a, b]\nupstream: http://x/", "a: &a [*a]", "<<: {listen: x}", "--- \n...\n---\n", "\t", "tool_rule: ['* allow *', 'x']", "upstream_header: [\"a: b\\r\\nc: d\"]", "idle_timeout: -1s", "max_sessions: 99999999999999999999",
		"mcp_path: /\u2028", "sse_path: /mcp", "keep_alive: 1e99h", "? [a]\n: b", "\xff\xfe", "state: \"\\0\"", "retire_docs: javascript:x", "trusted_proxy: 10.0.0.0/99",
	} {
		f.Add([]byte(text))
	}
	for _, pair := range os.Environ() {
		if name, _, _ := strings.Cut(pair, "="); strings.HasPrefix(name, envPrefix) {
			f.Setenv(name, "") // restores it at the end
			_ = os.Unsetenv(name)
		}
	}
	f.Setenv("XDG_STATE_HOME", f.TempDir())
	f.Fuzz(func(t *testing.T, text []byte) {
		file := filepath.Join(t.TempDir(), "FILE")
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
		c, err := loadFile(t, file)
		_, again := loadFile(t, file)
		if (err == nil) != (again == nil) || err != nil && sorted(err) != sorted(again) {
			t.Fatalf("read twice: got %v and %v", err, again)
		}
		if err != nil {
			for line := range strings.Lines(err.Error()) {
				if strings.ContainsFunc(strings.TrimSuffix(line, "\n"), func(r rune) bool { return !unicode.IsPrint(r) }) {
					t.Errorf("the problem %q", line)
				}
			}
			return
		}
		asked := c.bridge.Auth.TokenFile != "" || c.bridge.Auth.Issuer != "" || c.bridge.Auth.PassThrough || c.tls.clientCA != ""
		if host, _, err := net.SplitHostPort(c.listen); err != nil || !asked && !c.insecure && !isLoopback(host) {
			t.Errorf("listens on %q and asks nobody: %q", c.listen, text)
		}
	})
}

func loadFile(t *testing.T, file string) (*config, error) {
	t.Helper()
	fs := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	addConfig(fs)
	addSettings(fs)
	if err := fs.Parse([]string{"--config", file}); err != nil {
		t.Fatal(err)
	}
	return load(fs, nil)
}

// sorted returns the problems of err in an order that does not depend on that of a map.
func sorted(err error) string {
	lines := strings.Split(err.Error(), "\n")
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}
