package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// bare is a server in the shell that tells, as its name, where it runs and what it sees; its version is the number of its variables that
// begin with SEEN.
const bare = `while read -r line; do
	id=${line#*\"id\":}; id=${id%%,*}
	case $line in
	*'"initialize"'*) printf '{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-06-18","capabilities":{},"serverInfo":{"name":"%s in %s","version":"%s"}}}\n' $id "$SEEN_NAME" "${PWD##*/}" "$(env | grep -c ^SEEN)";;
	*'"id"'*) printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no"}}\n' $id;;
	esac
done`

// The command runs in its folder with the variables that are for it and no others.
func TestChildFlags(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes")
	}
	isolate(t)
	t.Setenv("SEEN_PASSED", "1")
	t.Setenv("SEEN_PRIVATE", "1")
	dir := filepath.Join(t.TempDir(), "here")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(dir, "server.sh")
	if err := os.WriteFile(program, []byte("#!/bin/sh\n"+bare), 0o700); err != nil {
		t.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	args := []string{"probe", "--child-dir", dir, "--child-env", "SEEN_NAME=a,b", "--child-env", "SEEN_PASSED", "--", "./server.sh"}
	if code := run(args, &stdout, &stderr); code != exitOK || !strings.Contains(stdout.String(), "a,b in here 2\n") {
		t.Errorf("got exit code %d, %s%s", code, &stdout, &stderr)
	}
}

// What is wrong with the surroundings is said before anything starts, and bridge check shows names but no values.
func TestChildSettings(t *testing.T) {
	const secret = "s3cret"
	for _, test := range []struct {
		name string
		args []string
		want string // in the error; empty: none
	}{
		{"good", []string{"--child-dir", ".", "--child-env", "KEY=" + secret, "--child-env", "AWS_*", "--child-env", "*", "--", "sh"}, ""},
		{"no folder", []string{"--child-dir", "no/such", "--", "sh"}, "--child-dir: stat no/such"},
		{"a file", []string{"--child-dir", "child.go", "--", "sh"}, "--child-dir: child.go is no folder"},
		{"no name", []string{"--child-env", "=" + secret, "--", "sh"}, "--child-env: a variable is written as NAME=VALUE"},
		{"a star within", []string{"--child-env", "A*B", "--", "sh"}, "--child-env: A*B: a * stands at the end"},
		{"a star and a value", []string{"--child-env", "A*=" + secret, "--", "sh"}, "--child-env: A*: a * stands"},
		{"no command", []string{"--child-dir", "."}, "--child-dir: there is no command that it is for"},
		{"a URL", []string{"--upstream", "http://127.0.0.1:1/mcp", "--child-env", "A=1"}, "--child-env: there is no command that it is for"},
	} {
		t.Run(test.name, func(t *testing.T) {
			isolate(t)
			var stdout, stderr bytes.Buffer
			code := run(append([]string{"check"}, test.args...), &stdout, &stderr)
			if ok := test.want == ""; ok != (code == exitOK) || !strings.Contains(stderr.String(), test.want) {
				t.Errorf("got exit code %d, %s, want %q", code, &stderr, test.want)
			}
			if test.want == "" && !strings.Contains(stdout.String(), "KEY,AWS_*,*") {
				t.Errorf("the names do not show: %s", &stdout)
			}
			if strings.Contains(stdout.String()+stderr.String(), secret) {
				t.Error("a secret shows")
			}
		})
	}
}
