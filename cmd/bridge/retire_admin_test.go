package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	bridge "github.com/mcp-dualstack/bridge"
	"github.com/mcp-dualstack/bridge/retire"
)

// adminOf serves the admin handler of a bridge in front of a silent server.
func adminOf(t *testing.T, o *bridge.Options) string {
	t.Helper()
	b, err := bridge.New(silent{}, o)
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(b.Admin())
	t.Cleanup(func() {
		srv.Close()
		if err := b.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return srv.URL
}

// The same way through the admin API of a running bridge.
func TestRetireOverAdmin(t *testing.T) {
	if !bridge.LegacyBuilt {
		t.Skip("the routes are gone for good in this build")
	}
	isolate(t)
	dir := t.TempDir()
	witness(t, dir, "reporting-tool")
	url := adminOf(t, &bridge.Options{State: dir})
	retireAt := func(stdin string, args ...string) result {
		t.Helper()
		return command(t, stdin, append([]string{"retire", "--admin", url}, args...)...)
	}
	retireAt("", "show").want(t, exitOK, "stage open (version 0)\nHTTP+SSE is served as ever\nstate  "+url, "")
	retireAt("", "undo").want(t, exitFailed, "", "there is no change to undo")
	retireAt("", "set", "announce", "--sunset", "2099-01-15", "--reason", "mail").want(t, exitOK, "stage open -> announce, version 1\n", "")
	refused := retireAt("", "set", "closed", "--yes")
	refused.want(t, exitNotReady, "", "closed refuses 1 client, by the last 30 days of HTTP+SSE:\n+ unknown  reporting-tool 0.9.1  ")
	refused.want(t, exitNotReady, "", "not ready for closed")
	retireAt("y\n", "set", "closed", "--force", "--reason", "they were told").want(t, exitOK, "stage announce -> closed, version 2\n", "Go to closed? [y/N]")
	retireAt("", "history", "--verify").want(t, exitOK, "they were told; FORCED; report ", "")
	retireAt("", "history", "--verify").want(t, exitOK, "\nlog whole: 2 records, head ", "")
	retireAt("", "undo").want(t, exitOK, "stage closed -> announce, version 3\n", "takes back version 2 of ")
	retireAt("", "exempt", "sub:a", "--until", "2099-02-01").want(t, exitOK, "version 4\n", "")
	retireAt("y\n", "plan", "--sunset", "2099-03-01", "--apply").want(t, exitOK, "stage announce, version 5\n", "")
	retireAt("", "show", "--output", "json").want(t, exitOK, `"id": "sub:a"`, "")

	// What one command did in the files the other sees.
	command(t, "", "retire", "--state", dir, "show").want(t, exitOK, "(version 5)", "")
}

func TestRetireOverAdminFixed(t *testing.T) {
	isolate(t)
	url := adminOf(t, &bridge.Options{LegacyOff: true})
	command(t, "", "retire", "--admin", url, "set", "announce").want(t, exitFailed, "", "gone whatever the stage says")
}

func TestRetireToken(t *testing.T) {
	isolate(t)
	token := writeFile(t, "correct-horse-battery-staple-0123456789\n")
	url := adminOf(t, &bridge.Options{AdminTokenFile: token})
	command(t, "", "retire", "--admin", url, "show").want(t, exitUnreadable, "", "--token-file")
	command(t, "", "retire", "--admin", url, "--token-file", writeFile(t, "wrong"), "show").want(t, exitUnreadable, "", "--token-file")
	command(t, "", "retire", "--admin", url, "--token-file", token, "show").want(t, exitOK, "stage ", "")
	command(t, "", "retire", "--admin", url, "--token-file", writeFile(t, "two words"), "show").want(t, exitUsage, "", "has no token in it")
}

// Answers of what is no bridge, or not this one.
func TestRetireOverAdminOthers(t *testing.T) {
	tests := []struct {
		name   string
		status int
		body   string
		line   string
		code   int
		want   string
	}{
		{"not JSON", 200, "<html>", "show", exitUnreadable, "invalid character"},
		{"no state", 200, "{}", "show", exitUnreadable, "the answer has no state; is it a bridge?"},
		{"a state that cannot be", 200, `{"state":{"version":1,"stage":"warn","reason":"\u001b[31m"}}`, "show", exitUnreadable, "the state in the answer cannot be: reason: has the control character"},
		{"too long", 200, strings.Repeat(" ", maxAdminAnswer+1), "show", exitUnreadable, "is over 67108864 bytes"},
		{"a record that cannot be", 200, `{"records":[{"version":3,"state":{"stage":"x"}}]}`, "history", exitUnreadable, "the record of version 3 in the answer has no state that can be"},
		{"an older bridge", 200, `{"records":[]}`, "history --verify", exitUnreadable, "does not verify its log"},
		{"not found", 404, `{"error":"nothing is served \u001b[31mhere"}`, "show", exitUnreadable, "/admin/stage: nothing is served  [31mhere"},
		{"an error without words", 502, "bad gateway", "show", exitUnreadable, "502 Bad Gateway"},
		{"unauthorized", 401, `{"error":"who are you"}`, "show", exitUnreadable, "who are you; give the admin token with --token-file"},
		{"stale", 409, `{"error":"version 9 is current","code":"stale"}`, "show", exitStale, "version 9 is current; look at it with bridge retire show"},
		{"locked", 503, `{"error":"another process is changing the state","code":"locked"}`, "show", exitFailed, "another process is changing the state"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			isolate(t)
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(tt.status)
				fmt.Fprint(w, tt.body)
			}))
			defer srv.Close()
			command(t, "", append([]string{"retire", "--admin", srv.URL}, strings.Fields(tt.line)...)...).want(t, tt.code, "", tt.want)
		})
	}
}

// The token goes to whom it was given for and to nobody else.
func TestRetireFollowsNoRedirect(t *testing.T) {
	isolate(t)
	elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("asked for %s with %s", r.URL, r.Header.Get("Authorization"))
	}))
	defer elsewhere.Close()
	srv := httptest.NewServer(http.RedirectHandler(elsewhere.URL, http.StatusTemporaryRedirect))
	defer srv.Close()
	command(t, "", "retire", "--admin", srv.URL, "--token-file", writeFile(t, "secret"), "show").want(t, exitUnreadable, "", "307 Temporary Redirect")
}

// A signal or a dead server does not leave the command waiting.
func TestRetireUnreachable(t *testing.T) {
	isolate(t)
	srv := httptest.NewServer(http.NotFoundHandler())
	url := srv.URL
	srv.Close()
	command(t, "", "retire", "--admin", url, "set", string(retire.Warn)).want(t, exitUnreadable, "", "is bridge serve running, with its admin listener there?")
}
