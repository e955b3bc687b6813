// Mcpgo serves echo with mark3labs/mcp-go: /sse, /message and /mcp.
package main

import (
	"context"
	"flag"
	"log"
	"net/http"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

func main() {
	addr := flag.String("addr", "127.0.0.1:23020", "address to listen on")
	flag.Parse()
	s := server.NewMCPServer("mcpgo", "1", server.WithToolCapabilities(true))
	s.AddTool(mcp.NewTool("echo", mcp.WithString("text")), func(ctx context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return mcp.NewToolResultText(r.GetString("text", "")), nil
	})
	s.AddTool(mcp.NewTool("notify"), func(ctx context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		s.SendNotificationToAllClients("notifications/tools/list_changed", nil)
		return mcp.NewToolResultText("ok"), nil
	})
	m := http.NewServeMux()
	m.Handle("/mcp", server.NewStreamableHTTPServer(s))
	m.Handle("/", server.NewSSEServer(s))
	log.Fatal(http.ListenAndServe(*addr, m))
}
