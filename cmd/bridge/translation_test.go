package main

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	bridge "github.com/mcp-dualstack/bridge"
	"github.com/mcp-dualstack/bridge/telemetry"
)

// secret is long enough to seal with.
const secret = "0123456789abcdef0123456789abcdef"

func TestTranslationSettings(t *testing.T) {
	keys := writeFile(t, "# the new one\n"+secret+"\n\n  "+strings.ToUpper(secret)+"  \n")
	tests := []struct {
		name string
		args []string
		want bridge.Options // the fields that translation sets
	}{
		{"defaults", nil, bridge.Options{
			Translation: bridge.SuspendOptions{MaxTotal: 256, MaxPerPrincipal: 32, Lifetime: 30 * time.Minute, TTL: 10 * time.Minute},
		}},
		{"all", []string{
			"--state-key-file", keys, "--max-suspended=7", "--max-suspended-per-principal=3", "--suspended-lifetime=1h", "--answer-timeout=2m", "--max-rounds=4",
			"--rerun-tool=a,b", "--rerun-tool=c", "--cache=tools/list=5m,public", "--cache=resources/read=1s", "--cache=prompts/list=2s,private",
			"--static-root=file:///srv/a,b=c", "--static-root=file:///home",
		}, bridge.Options{
			Translation: bridge.SuspendOptions{
				Secrets: [][]byte{[]byte(secret), []byte(strings.ToUpper(secret))}, MaxTotal: 7, MaxPerPrincipal: 3, MaxRounds: 4, Lifetime: time.Hour,
				TTL: 2 * time.Minute, Journal: []string{"a", "b", "c"},
			},
			Drive: bridge.DriveOptions{MaxRounds: 4},
			Cache: map[string]bridge.Cache{
				"tools/list": {TTL: 5 * time.Minute, Public: true}, "resources/read": {TTL: time.Second}, "prompts/list": {TTL: 2 * time.Second},
			},
			Roots: []byte(`[{"uri":"file:///srv/a,b=c"},{"uri":"file:///home"}]`),
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			isolate(t)
			c, err := parse(t, tt.args...)
			if err != nil {
				t.Fatal(err)
			}
			got := bridge.Options{Translation: c.bridge.Translation, Drive: c.bridge.Drive, Cache: c.bridge.Cache, Roots: c.bridge.Roots}
			if diff := cmp.Diff(tt.want, got, cmpopts.EquateEmpty(), cmpopts.IgnoreUnexported(bridge.Options{}, telemetry.Options{})); diff != "" {
				t.Errorf("want -, got +:\n%s", diff)
			}
			if string(c.server.StaticRoots) != string(got.Roots) {
				t.Errorf("the server is told %s, the bridge %s", c.server.StaticRoots, got.Roots)
			}
		})
	}
}

func TestTranslationProblems(t *testing.T) {
	empty, short := writeFile(t, "\n# nothing\n"), writeFile(t, "short\n")
	for _, tt := range []struct{ name, args, want string }{
		{"no key file", "--state-key-file=/nowhere/keys", "no such file"},
		{"no keys", "--state-key-file=" + empty, "has no secret in it"},
		{"a short key", "--state-key-file=" + short, "secret 1: 5 bytes, at least 32 are needed"},
		{"a cache of nothing", "--cache=tools/list", `"tools/list" is not such as tools/list=5m`},
		{"another scope", "--cache=tools/list=5m,all", "is not such as"},
		{"a method without", "--cache=tools/call=5m", `cache of "tools/call"`},
		{"less than no time", "--cache=tools/list=-5m", "is no number of whole milliseconds"},
		{"a path for a URI", "--static-root=/srv", `"/srv" is not a URI such as file:///srv/data`},
		{"rounds", "--max-rounds=-1", `"-1" is not a whole number`},
		{"suspended calls", "--max-suspended=0", "is not a whole number from 1 up"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			isolate(t)
			_, err := parse(t, tt.args)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("got %v, want %q in it", err, tt.want)
			}
			if strings.Contains(err.Error(), "short\n") {
				t.Errorf("a secret is in %v", err)
			}
		})
	}
}

// The defaults of the flags are those of the library.
func TestDefaultsOfBounds(t *testing.T) {
	isolate(t)
	c, err := parse(t)
	if err != nil {
		t.Fatal(err)
	}
	o := c.bridge
	for _, tt := range []struct {
		name      string
		got, want int64
	}{
		{"sessions", int64(o.MaxSessions), 1024},
		{"sessions per principal", int64(o.MaxSessionsPerPrincipal), 256},
		{"stateless", int64(o.MaxStateless), 4096},
		{"calls", int64(o.MaxCalls), 256},
		{"calls in total", int64(o.MaxCallsInTotal), 4096},
		{"streams", int64(o.MaxStreams), 8192},
		{"streams per session", int64(o.MaxStreamsPerSession), 320},
		{"body", o.MaxBodyBytes, 8 << 20},
		{"stream bytes", int64(o.StreamBytes), 1 << 20},
		{"idle", int64(o.IdleTimeout), int64(30 * time.Minute)},
		{"write", int64(o.WriteTimeout), int64(30 * time.Second)},
		{"body time", int64(o.BodyTimeout), int64(30 * time.Second)},
		{"replay events", int64(o.ReplayEvents), 256},
		{"replay bytes", int64(o.ReplayBytes), 1 << 20},
		{"replay age", int64(o.ReplayAge), int64(5 * time.Minute)},
		{"ask", int64(o.AskTimeout), int64(10 * time.Minute)},
	} {
		if tt.got != tt.want {
			t.Errorf("%s: got %d, want %d", tt.name, tt.got, tt.want)
		}
	}
	c, err = parse(t, "--json-responses", "--accept-raw-mcp-name", "--replay-events=9")
	if err != nil || !c.bridge.JSONResponses || !c.bridge.AcceptRawName || c.bridge.ReplayEvents != 9 {
		t.Errorf("got %+v, %v", c.bridge, err)
	}
	if _, err := parse(t, "--max-calls-in-total=0", "--body-timeout=0s"); err == nil || strings.Count(err.Error(), "\n") != 1 {
		t.Errorf("two problems: got %v", err)
	}
}
