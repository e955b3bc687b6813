package thirdparty_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"

	mcpgo "github.com/mark3labs/mcp-go/mcp"
	mcpgoserver "github.com/mark3labs/mcp-go/server"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/negotiate"
	"github.com/mcp-dualstack/bridge/upstream"
)

// A go-sdk server goes in through its own handler. bridge.New(up, nil) serves it to clients of every revision.
func Example_goSDKInProcess() {
	server := mcp.NewServer(&mcp.Implementation{Name: "greeter", Version: "1"}, nil)
	server.AddTool(&mcp.Tool{Name: "greet", InputSchema: json.RawMessage(`{"type":"object"}`)},
		func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "hello from go-sdk"}}}, nil
		})
	up, err := upstream.InProcess(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer up.Close()
	fmt.Println(greet(up))
	// Output: hello from go-sdk
}

// An mcp-go server goes in the same way.
func Example_mcpGoInProcess() {
	server := mcpgoserver.NewMCPServer("greeter", "1")
	server.AddTool(mcpgo.NewTool("greet"), func(context.Context, mcpgo.CallToolRequest) (*mcpgo.CallToolResult, error) {
		return mcpgo.NewToolResultText("hello from mcp-go"), nil
	})
	up, err := upstream.InProcess(mcpgoserver.NewStreamableHTTPServer(server), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer up.Close()
	fmt.Println(greet(up))
	// Output: hello from mcp-go
}

// A handler of HTTP+SSE, or one that is mounted elsewhere, goes in by its path.
func Example_mcpGoSSE() {
	server := mcpgoserver.NewMCPServer("greeter", "1")
	server.AddTool(mcpgo.NewTool("greet"), func(context.Context, mcpgo.CallToolRequest) (*mcpgo.CallToolResult, error) {
		return mcpgo.NewToolResultText("hello over SSE"), nil
	})
	h := mcpgoserver.NewSSEServer(server)
	up, err := upstream.SSE("http://localhost/sse", &upstream.Options{HTTP: &upstream.HTTPOptions{RoundTripper: upstream.HandlerTransport(h, nil)}})
	if err != nil {
		log.Fatal(err)
	}
	defer up.Close()
	fmt.Println(greet(up))
	// Output: hello over SSE
}

// Through Pipe each client has a session of its own, and no HTTP is involved. The stdio server of mcp-go v1.2.1 keeps its session
// in a package variable, so that it can have one only; use InProcess for it.
func Example_goSDKPipe() {
	server := mcp.NewServer(&mcp.Implementation{Name: "greeter", Version: "1"}, nil)
	server.AddTool(&mcp.Tool{Name: "greet", InputSchema: json.RawMessage(`{"type":"object"}`)},
		func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "hello through a pipe"}}}, nil
		})
	up := upstream.Pipe(func(context.Context) (io.ReadWriteCloser, error) {
		ours, theirs := net.Pipe()
		go func() { // until the bridge closes its end
			_ = server.Run(context.Background(), &mcp.IOTransport{Reader: theirs, Writer: theirs})
		}()
		return ours, nil
	}, nil)
	defer up.Close()
	fmt.Println(greet(up))
	// Output: hello through a pipe
}

// greet calls the tool greet as a client of 2025-06-18 and returns the text it answers with.
func greet(up upstream.Connector) string {
	ctx := context.Background()
	sess, err := up.Open(ctx, exchange.Client{Revision: negotiate.Rev20250618})
	if err != nil {
		return err.Error()
	}
	defer sess.Close()
	resp, err := sess.Call(ctx, exchange.Request{Method: "tools/call", Params: []byte(`{"name":"greet","arguments":{}}`)}, nil)
	if err != nil {
		return err.Error()
	}
	var result struct{ Content []struct{ Text string } }
	if err := json.Unmarshal(resp.Result, &result); err != nil || len(result.Content) == 0 {
		return string(resp.Result)
	}
	return result.Content[0].Text
}
