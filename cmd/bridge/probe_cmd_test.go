package main

import (
	"bytes"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// session is a server of the session era in the shell: it speaks 2025-06-18 and 2024-11-05.
const session = `while read -r line; do
	id=${line#*\"id\":}; id=${id%%,*}
	case $line in
	*'"initialize"'*'"2024-11-05"'*) v=2024-11-05;;
	*'"initialize"'*) v=2025-06-18;;
	*'"id"'*) printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no"}}\n' $id; continue;;
	*) continue;;
	esac
	printf '{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"%s","capabilities":{"tools":{},"logging":{}},"serverInfo":{"name":"sh","version":"1"}}}\n' $id $v
done`

func TestProbeCommand(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes")
	}
	const secret = "s3cret"
	for _, test := range []struct {
		name   string
		args   []string
		code   int
		stdout string // whole
		stderr string // a part
	}{
		{"a command", []string{"--", "sh", "-c", session, secret}, exitOK, `server         sh 1
transport      stdio
eras           session
revisions      2025-06-18, 2024-11-05
capabilities   logging, tools

bridge serve in front of it:
session clients (2024-11-05 to 2025-11-25)   passed through, a child process each
stateless clients (2026-07-28)               translated, on sessions of a pool
`, ""},
		{"as JSON", []string{"--output", "json", "--", "sh", "-c", session, secret}, exitOK, `{"transport":"stdio","eras":["session"],` +
			`"revisions":["2025-06-18","2024-11-05"],"server":{"name":"sh","version":"1"},"capabilities":{"tools":{},"logging":{}},` +
			`"serve":{"session_clients":"passed","stateless_clients":"translated"}}` + "\n", ""},
		{"ends at once", []string{"--", "sh", "-c", "exit 3", secret}, exitFailed, "", "sh: upstream_unavailable: ended during the handshake"},
		{"says nothing", []string{"--timeout", "1s", "--", "sh", "-c", "sleep 60", secret}, exitFailed, "", "sh: no answer within 1s"},
		{"no such program", []string{"--", "no-such-program", secret}, exitFailed, "", "start no-such-program"},
		{"nobody listens", []string{"http://u:" + secret + "@127.0.0.1:1/mcp?key=" + secret}, exitFailed, "", "http://127.0.0.1:1/mcp: "},
		{"nothing named", nil, exitUsage, "", "name a server"},
		{"nothing after --", []string{"--"}, exitUsage, "", "name a server"},
		{"two", []string{"http://127.0.0.1:1/", "http://127.0.0.1:1/"}, exitUsage, "", "one URL, or one command"},
		{"both", []string{"http://127.0.0.1:1/", "--", "true"}, exitUsage, "", "not both"},
		{"no URL", []string{"node"}, exitUsage, "", "a command stands after --"},
		{"no time", []string{"--timeout", "0s", "http://127.0.0.1:1/"}, exitUsage, "", "--timeout"},
		{"a header for a command", []string{"--header", "A: " + secret, "--", "sh"}, exitUsage, "", "--header: it is for a URL"},
		{"a folder for a URL", []string{"--child-dir", ".", "http://127.0.0.1:1/"}, exitUsage, "", "--child-dir: it is for a command"},
		{"no header", []string{"--header", secret, "http://127.0.0.1:1/"}, exitUsage, "", "--header: a header is written as Name: value"},
		{"two headers in one", []string{"--upstream-header", "A: b\r\nC: " + secret, "http://127.0.0.1:1/"}, exitUsage, "", "--header: a header is one line"},
		{"no certificates", []string{"--ca-file", "probe.go", "https://127.0.0.1:1/"}, exitUsage, "", "probe.go: no PEM certificate"},
		{"no token", []string{"--bearer-file", "no-such-file", "http://127.0.0.1:1/"}, exitFailed, "", "no-such-file"},
		{"no era", []string{"--era", "x", "http://127.0.0.1:1/"}, exitUsage, "", `era "x"`},
	} {
		t.Run(test.name, func(t *testing.T) {
			isolate(t)
			var stdout, stderr bytes.Buffer
			start := time.Now()
			code := run(append([]string{"probe"}, test.args...), &stdout, &stderr)
			if took := time.Since(start); took > 10*time.Second {
				t.Errorf("took %v", took)
			}
			if code != test.code {
				t.Errorf("got exit code %d, want %d", code, test.code)
			}
			if got := stdout.String(); got != test.stdout {
				t.Errorf("stdout: got\n%s\nwant\n%s", got, test.stdout)
			}
			if !strings.Contains(stderr.String(), test.stderr) {
				t.Errorf("stderr: got %q, want it to contain %q", stderr.String(), test.stderr)
			}
			if strings.Contains(stdout.String()+stderr.String(), secret) {
				t.Error("a secret shows")
			}
		})
	}
}

// A bridge in front of the demo server is itself a server of both eras.
func TestProbeURL(t *testing.T) {
	r := startServe(t)
	for path, want := range map[string]sighting{
		"/mcp": {Transport: "streamable_http", Eras: []string{"session", "stateless"}},
	} {
		var stdout, stderr bytes.Buffer
		if code := run([]string{"probe", "--output", "json", r.base + path}, &stdout, &stderr); code != exitOK {
			t.Fatalf("%s: exit code %d, %s", path, code, &stderr)
		}
		var got sighting
		if err := json.Unmarshal(stdout.Bytes(), &got); err != nil {
			t.Fatal(err)
		}
		if got.Transport != want.Transport || strings.Join(got.Eras, " ") != strings.Join(want.Eras, " ") || len(got.Revisions) == 0 {
			t.Errorf("%s: got %s", path, &stdout)
		}
	}
}

// The credentials of the command line are sent to the URL, under the names that serve has for them too.
func TestProbeCredentials(t *testing.T) {
	isolate(t)
	token := writeFile(t, "t0ken\n")
	var ca string
	srv := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer t0ken" || r.Header.Get("X-Key") != "k:1" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		var m struct{ ID json.RawMessage }
		_ = json.NewDecoder(r.Body).Decode(&m) // otherwise it has no id
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"supportedVersions":["2026-07-28"],"capabilities":{},"ttlMs":0,"cacheScope":"private"}}`, m.ID)
	}))
	defer srv.Close()
	ca = writeFile(t, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw})))
	for name, test := range map[string]struct {
		args []string
		code int
	}{
		"all":        {[]string{"--header", "X-Key: k:1", "--bearer-file", token, "--ca-file", ca}, exitOK},
		"as serve":   {[]string{"--upstream-header", "X-Key: k:1", "--upstream-bearer-file", token, "--upstream-ca-file", ca}, exitOK},
		"no token":   {[]string{"--header", "X-Key: k:1", "--ca-file", ca}, exitFailed},
		"no CA":      {[]string{"--header", "X-Key: k:1", "--bearer-file", token}, exitFailed},
		"no header":  {[]string{"--bearer-file", token, "--ca-file", ca}, exitFailed},
		"other name": {[]string{"--header", "X-Key2: k:1", "--bearer-file", token, "--ca-file", ca}, exitFailed},
	} {
		t.Run(name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			if code := run(append(append([]string{"probe"}, test.args...), srv.URL), &stdout, &stderr); code != test.code {
				t.Errorf("got exit code %d, want %d: %s%s", code, test.code, &stdout, &stderr)
			}
			if strings.Contains(stdout.String()+stderr.String(), "t0ken") {
				t.Error("the token shows")
			}
		})
	}
}
