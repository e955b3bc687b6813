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
