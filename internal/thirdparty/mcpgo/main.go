// Command mcpgo is a small server on mcp-go, to be wrapped by end-to-end tests:
//
//	mcpgo stdio
//	mcpgo sse 127.0.0.1:PORT          GET /sse, POST /message
//	mcpgo streamable 127.0.0.1:PORT   /mcp
//
// Its tool echo answers with its argument text, and slow does after that many seconds.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "mcpgo:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	s := server.NewMCPServer("mcp-go", "1.2.1", server.WithToolCapabilities(true))
	s.AddTool(mcp.NewTool("echo", mcp.WithString("text")), func(_ context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return mcp.NewToolResultText(req.GetString("text", "")), nil
	})
	s.AddTool(mcp.NewTool("slow", mcp.WithNumber("seconds")), func(ctx context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		select {
		case <-time.After(time.Duration(req.GetFloat("seconds", 0) * float64(time.Second))):
			return mcp.NewToolResultText("done"), nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	})
	switch {
	case len(args) == 1 && args[0] == "stdio":
		return server.ServeStdio(s)
	case len(args) == 2 && args[0] == "sse":
		return server.NewSSEServer(s).Start(args[1])
	case len(args) == 2 && args[0] == "streamable":
		return server.NewStreamableHTTPServer(s).Start(args[1])
	}
	return fmt.Errorf("usage: mcpgo stdio | sse ADDR | streamable ADDR")
}
