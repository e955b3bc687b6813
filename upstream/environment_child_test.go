//go:build unix

package upstream_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
	"github.com/mcp-dualstack/bridge/negotiate"
	"github.com/mcp-dualstack/bridge/upstream"
)

// A child sees the folder and the variables that it is meant to, and no others of the bridge's; the log shows none of them.
func TestSurroundings(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes")
	}
	t.Setenv("UPSTREAM_TEST_PASSED", "passed on")
	t.Setenv("UPSTREAM_TEST_PRIVATE", "private")
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	log := &logText{}
	c := child(t, "surroundings")
	c.Dir = dir
	c.Env = append(c.Env, "UPSTREAM_TEST_PASSED", "UPSTREAM_TEST_SET="+secret)
	up := upstream.Stdio(c, &upstream.Options{Logger: debugLogger(log)})
	defer up.Close()
	s, err := up.Open(t.Context(), legacyClient(negotiate.Rev20250618, nil))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := s.Call(t.Context(), exchange.Request{Method: "surroundings"}, nil)
	if err != nil || resp.Error != nil {
		t.Fatal(err, resp.Error)
	}
	got, _ := jsonrpc.String(jsonrpc.Get(resp.Result, "dir"))
	equal(t, "folder", got, dir)
	text, _ := jsonrpc.String(jsonrpc.Get(resp.Result, "env"))
	env := strings.Split(text, "\n")
	for variable, want := range map[string]bool{
		"UPSTREAM_TEST_PASSED=passed on": true, "UPSTREAM_TEST_SET=" + secret: true, "UPSTREAM_TEST_PRIVATE=private": false,
	} {
		equal(t, variable, slices.Contains(env, variable), want)
	}
	equal(t, "PATH", slices.ContainsFunc(env, func(v string) bool { return strings.HasPrefix(v, "PATH=") }), true)
	equal(t, "shows in the log", strings.Contains(log.String(), secret) || strings.Contains(log.String(), "passed on"), false)
}
