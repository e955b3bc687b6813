package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
)

// parse loads the settings of a command line without its command.
func parse(t *testing.T, args ...string) (*config, error) {
	t.Helper()
	fs := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	addConfig(fs)
	addSettings(fs)
	if err := fs.Parse(args); err != nil {
		t.Fatal(err)
	}
	return load(fs, nil)
}

func TestPrecedence(t *testing.T) {
	const fileText = "listen: 127.0.0.1:1\nsse_path: /file\nkeep_alive: 1s\nallowed_host: [file.test, other.test]\ninsecure: true\n"
	type values struct {
		Listen, SSEPath string
		KeepAlive       time.Duration
		Hosts           []string
		Insecure        bool
		Origin          string // of listen
	}
	tests := []struct {
		name string
		file string
		env  map[string]string
		args []string
		want values
	}{
		{"defaults", "", nil, nil, values{"127.0.0.1:8420", "/sse", 15 * time.Second, nil, false, "default"}},
		{"file", fileText, nil, nil, values{"127.0.0.1:1", "/file", time.Second, []string{"file.test", "other.test"}, true, "FILE:1"}},
		{"environment over file", fileText,
			map[string]string{"BRIDGE_LISTEN": "127.0.0.1:2", "BRIDGE_KEEP_ALIVE": "2s", "BRIDGE_ALLOWED_HOST": "a.test, b.test", "BRIDGE_INSECURE": "false"}, nil,
			values{"127.0.0.1:2", "/file", 2 * time.Second, []string{"a.test", "b.test"}, false, "BRIDGE_LISTEN"}},
		{"flag over environment over file", fileText,
			map[string]string{"BRIDGE_LISTEN": "127.0.0.1:2", "BRIDGE_SSE_PATH": "/env", "BRIDGE_KEEP_ALIVE": "2s"},
			[]string{"--listen=127.0.0.1:3", "--keep-alive=3s", "--allowed-host=x.test", "--allowed-host=y.test"},
			values{"127.0.0.1:3", "/env", 3 * time.Second, []string{"x.test", "y.test"}, true, "--listen"}},
		{"a flag that says the default still counts", fileText, nil, []string{"--listen=127.0.0.1:8420"},
			values{"127.0.0.1:8420", "/file", time.Second, []string{"file.test", "other.test"}, true, "--listen"}},
		{"one value where a list is expected", "allowed_host: one.test\n", nil, nil,
			values{"127.0.0.1:8420", "/sse", 15 * time.Second, []string{"one.test"}, false, "default"}},
		{"an empty file", "", map[string]string{"BRIDGE_PORT": "tcp://10.0.0.1:8420"}, nil, // as Kubernetes sets for a service called bridge
			values{"127.0.0.1:8420", "/sse", 15 * time.Second, nil, false, "default"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			isolate(t)
			for name, value := range tt.env {
				t.Setenv(name, value)
			}
			path := writeFile(t, tt.file)
			c, err := parse(t, append([]string{"--config", path}, tt.args...)...)
			if err != nil {
				t.Fatal(err)
			}
			got := values{c.listen, c.bridge.SSEPath, c.bridge.KeepAlive, c.bridge.AllowedHosts, c.insecure, ""}
			for _, r := range c.settings {
				if r.key == "listen" {
					got.Origin = strings.Replace(r.origin, path, "FILE", 1)
				}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("want -, got +:\n%s", diff)
			}
		})
	}
}

// The file can come from the environment, and the command from the file.
func TestConfigFromTheEnvironment(t *testing.T) {
	isolate(t)
	t.Setenv("BRIDGE_CONFIG", writeFile(t, "command: [cat, -u]\nlegacy: off\nadmin: off\n"))
	c, err := parse(t)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"cat", "-u"}, c.command); diff != "" {
		t.Errorf("command, want -, got +:\n%s", diff)
	}
	if !c.bridge.LegacyOff || c.admin != off {
		t.Errorf("got legacy off %v, admin %q", c.bridge.LegacyOff, c.admin)
	}
}

func TestCheckReportsEveryProblem(t *testing.T) {
	isolate(t)
	path := writeFile(t, `listen: [127.0.0.1:1]
lissen: 127.0.0.1:1
public-url: https://mcp.example.com
keep_alive: 15
legacy: maybe
sharing: shared
sse_path: sse
log_level: loud
command: no-such-program
state:
  dir: /tmp
max_sessions: 0
`)
	t.Setenv("BRIDGE_ERA", "old")
	var stdout, stderr bytes.Buffer
	code := run([]string{"check", "--config", path, "--admin", "0.0.0.0:1"}, &stdout, &stderr)
	if code != exitUsage || stdout.Len() > 0 {
		t.Errorf("got exit code %d, stdout %s", code, &stdout)
	}
	want := `bridge: the configuration has 13 problems:
  FILE:2: lissen is no setting
  FILE:3: public-url is no setting; did you mean public_url?
  FILE:1: listen: must be one value
  BRIDGE_ERA: "old" is none of auto, legacy, modern
  FILE:6: sharing: shared needs a server that keeps nothing for a client between requests; say --stateless if yours does not
  FILE:9: command: cannot be started: exec: "no-such-program": executable file not found in $PATH
  FILE:8: log_level: "loud" is none of debug, info, warn, error
  FILE:10: state: must be one value
  FILE:5: legacy: "maybe" is none of on, off
  FILE:4: keep_alive: "15" is not a time such as 15s or 2m
  FILE:12: max_sessions: "0" is not a whole number from 1 up
  --admin: 0.0.0.0:1 can be reached from other machines and nobody would be asked who they are; listen on 127.0.0.1, name --admin-token-file, or say --insecure
  SSE path: "sse" must be a plain path such as /sse
`
	if diff := cmp.Diff(want, strings.ReplaceAll(stderr.String(), path, "FILE")); diff != "" {
		t.Errorf("want -, got +:\n%s", diff)
	}
}

func TestConfigFilesThatCannotBeRead(t *testing.T) {
	tests := []struct{ name, text, want string }{
		{"broken", "listen: [\n", "yaml: line 1: did not find expected node content"},
		{"no mapping", "- listen\n", ":1: settings are lines such as listen: 127.0.0.1:8420"},
		{"a key twice", "era: auto\nera: legacy\n", `mapping key "era" already defined at line 1`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			isolate(t)
			_, err := parse(t, "--config", writeFile(t, tt.text))
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q in it", err, tt.want)
			}
		})
	}
}
