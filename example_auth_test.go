package bridge_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"

	bridge "github.com/mcp-dualstack/bridge"
	"github.com/mcp-dualstack/bridge/exchange"
)

// Clients are known by tokens of which a file has the hashes, and rules say who has which tools.
func ExampleAuth() {
	dir, err := os.MkdirTemp("", "bridge")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	tokens := filepath.Join(dir, "tokens")
	// The hash is that of "correct-horse"; real tokens are random.
	line := "alice sha256:9dca666eb54730714630d1519264a7bf1eeaad00b8f2edc90d3ecbfad928d163 scope:read\n"
	if err := os.WriteFile(tokens, []byte(line), 0o600); err != nil {
		panic(err)
	}
	up := &server{call: func(context.Context, exchange.Request) (exchange.Response, error) {
		return exchange.Response{Result: []byte(`{"tools":[]}`)}, nil
	}}
	b, err := bridge.New(up, &bridge.Options{
		Auth:      bridge.Auth{TokenFile: tokens},
		ToolRules: []bridge.ToolRule{{Grant: "scope:read", Allow: []string{"read_*"}}, {Grant: "scope:admin", Allow: []string{"*"}}},
	})
	if err != nil {
		panic(err)
	}
	defer b.Close()
	for _, token := range []string{"", "correct-horse"} {
		r := httptest.NewRequest("POST", "http://localhost/mcp", strings.NewReader(initialize))
		r.Header.Set("Content-Type", "application/json")
		if token != "" {
			r.Header.Set("Authorization", "Bearer "+token)
		}
		w := httptest.NewRecorder()
		b.ServeHTTP(w, r)
		fmt.Println(w.Code, w.Header().Get("WWW-Authenticate"))
	}
	// Output:
	// 401 Bearer realm="mcp"
	// 200
}
