package bridge_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	bridge "github.com/mcp-dualstack/bridge"
	"github.com/mcp-dualstack/bridge/cmd/bridge/demo"
	"github.com/mcp-dualstack/bridge/upstream"
)

// The server behind the bridge may be a Go server in the same process; upstream.Stdio wraps a program instead.
func ExampleNew() {
	up := upstream.Pipe(demo.Dial, nil)
	b, err := bridge.New(up, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer b.Close() // the bridge closes up too

	parent := http.NewServeMux()
	parent.Handle("/tools/", http.StripPrefix("/tools", b))
	srv := httptest.NewServer(parent)
	defer srv.Close()

	res, err := http.Post(srv.URL+"/tools/mcp", "application/json", strings.NewReader(
		`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"example","version":"1"}}}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer res.Body.Close()
	fmt.Println(res.Status, res.Header.Get("Mcp-Session-Id") != "")
	// Output: 200 OK true
}
