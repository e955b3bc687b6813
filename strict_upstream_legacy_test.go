//go:build !nolegacy

package bridge_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/mcp-dualstack/bridge/internal/memhttp"
)

// TestR21VersionOfTheLegacyLeg: a client on HTTP+SSE sends no version header, and the server gets its own all the same.
func TestR21VersionOfTheLegacyLeg(t *testing.T) {
	b, _ := strictBridge(t)
	srv := memhttp.New(t, b)
	stream, endpoint := sseOf(t, srv)
	for _, message := range []struct{ text, want string }{
		{strings.Replace(initialize, "2025-11-25", "2024-11-05", 1), `"protocolVersion":"2024-11-05"`},
		{`{"jsonrpc":"2.0","method":"notifications/initialized"}`, ""},
		{`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"t"}}`, `"text":"hello"`},
	} {
		res, err := srv.Client().Post(endpoint, "application/json", strings.NewReader(message.text))
		if err != nil || res.StatusCode != http.StatusAccepted {
			t.Fatalf("%s: %v, %v", message.text, res, err)
		}
		res.Body.Close()
		for line := ""; message.want != "" && !strings.Contains(line, message.want); {
			if line, err = stream.ReadString('\n'); err != nil {
				t.Fatalf("%s: %v", message.text, err)
			}
			if strings.Contains(line, `"error"`) {
				t.Fatalf("%s: got %s", message.text, line)
			}
		}
	}
}
