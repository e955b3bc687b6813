package bridge_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/mcp-dualstack/bridge/internal/memhttp"
)

// postTo posts a message as every client does, and closes the answer at the end of the test.
func postTo(t *testing.T, srv *memhttp.Server, to, body string) *http.Response {
	t.Helper()
	req, _ := http.NewRequest(http.MethodPost, to, strings.NewReader(body))
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	res, err := srv.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { res.Body.Close() })
	return res
}

// callIn makes a call in a session of Streamable HTTP and ends the session.
func callIn(t *testing.T, srv *memhttp.Server, session string) {
	t.Helper()
	for _, m := range []struct{ method, body string }{{http.MethodPost, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`}, {http.MethodDelete, ""}} {
		req, _ := http.NewRequest(m.method, srv.URL+"/mcp", strings.NewReader(m.body))
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Accept", "application/json, text/event-stream")
		req.Header.Set("Mcp-Session-Id", session)
		res, err := srv.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
	}
}
